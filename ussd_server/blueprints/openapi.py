"""The API described by itself: the OpenAPI document, and a page to read and try it."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from flask import Flask, Response, current_app, render_template, url_for

from ussd_server.api.document import api_document
from ussd_server.api.endpoints import ApiBlueprint, allow_anyone, speaks
from ussd_server.api.requests import services

_CONSOLE = Path(__file__).parents[1] / "console"
# The renderer makes style elements of its own; it calls this server only.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Samples are left in shell (curl), JavaScript (fetch), PHP (curl) and Python (requests).
_HIDDEN_CLIENTS = {
    "c": True, "clojure": True, "csharp": True, "dart": True, "fsharp": True, "go": True, "http": True, "java": True,
    "js": ["axios", "jquery", "ofetch", "xhr"], "kotlin": True, "node": True, "objc": True, "ocaml": True,
    "php": ["guzzle", "laravel"], "powershell": True, "python": ["aiohttp", "httpx_async", "httpx_sync", "python3"],
    "r": True, "ruby": True, "rust": True, "shell": ["httpie", "wget"], "swift": True,
}  # fmt: skip

openapi = ApiBlueprint("openapi", allow_anyone, template_folder=str(_CONSOLE / "templates"))


@openapi.get("/openapi.json", provide_automatic_options=False)
@speaks("application/json")
def show_api_document() -> Response:
    """This API as an OpenAPI 3.1 document."""
    return Response(_document(_app()), mimetype="application/json")


@openapi.get("/menu.schema.json", provide_automatic_options=False)
@speaks("application/schema+json")
def show_menu_schema() -> Response:
    """The JSON Schema of a menu document, for editors."""
    return Response(orjson.dumps(services().menus.menus.schema()), mimetype="application/schema+json")


@openapi.get("/docs", provide_automatic_options=False)
@speaks("text/html")
def show_docs() -> Response:
    """This API as a page to read, search and try. It loads nothing from another host."""
    response = Response(render_template("docs.html", configuration=_configuration(), script=_script()))
    response.headers["Content-Security-Policy"] = _PAGE_POLICY
    return response


def _configuration() -> dict[str, Any]:
    """Return the settings of Scalar: nothing that calls another host, and samples in four languages."""
    return {
        "withDefaultFonts": False, "telemetry": False, "agent": {"disabled": True}, "mcp": {"disabled": True},
        "hideClientButton": True, "showDeveloperTools": "never", "documentDownloadType": "json",
        "authentication": {"preferredSecurityScheme": [["apiKey", "apiSecret"]]},
        "defaultHttpClient": {"targetKey": "shell", "clientKey": "curl"},
        "hiddenClients": _HIDDEN_CLIENTS,
    }  # fmt: skip


@lru_cache(maxsize=1)
def _script() -> str:
    """Return the address of the renderer, which changes with its content."""
    version = sha256((_CONSOLE / "static/scalar.js").read_bytes()).hexdigest()[:12]
    return url_for("console.static_file", version=version, name="scalar.js")


def _app() -> Flask:
    return current_app._get_current_object()  # type: ignore[attr-defined, no-any-return]


@lru_cache(maxsize=1)
def _document(app: Flask) -> bytes:
    return orjson.dumps(api_document(app))
