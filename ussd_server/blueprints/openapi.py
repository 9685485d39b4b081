"""The API described by itself: the OpenAPI document, and a page to read and try it."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from flask import Flask, Response, current_app, redirect, render_template, request, url_for
from werkzeug import Response as BaseResponse
from werkzeug.exceptions import NotFound

from ussd_server.api.document import api_document
from ussd_server.api.endpoints import ApiBlueprint, allow_anyone, replies_in
from ussd_server.api.requests import services

_LOOPBACK_NAMES = {"127.0.0.1", "::1", "localhost"}
_CONSOLE = Path(__file__).parents[1] / "console"
# The renderer makes style elements of its own; it calls this server only.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Scalar's grey and its colours of methods are too faint to read (WCAG 1.4.3), and some buttons too small (2.5.8).
_STYLE = (
    ".light-mode { --scalar-color-2: #4a4a4a; --scalar-color-3: #5c5c5c; --scalar-color-green: #0a6b34; "
    "--scalar-color-blue: #0b5c96; --scalar-color-orange: #a13c00; --scalar-color-red: #b3122b; } "
    ".dark-mode { --scalar-color-2: #c4c4c4; --scalar-color-3: #adadad; } "
    ".sidebar-heading-type { --method-color: var(--scalar-color-2); } "
    ".scalar-app button { min-width: 24px; min-height: 24px; }"
)

# Samples are left in shell (curl), JavaScript (fetch), PHP (curl) and Python (requests).
_HIDDEN_CLIENTS = {
    "c": True, "clojure": True, "csharp": True, "dart": True, "fsharp": True, "go": True, "http": True, "java": True,
    "js": ["axios", "jquery", "ofetch", "xhr"], "julia": True, "kotlin": True, "node": True, "objc": True,
    "ocaml": True, "php": ["guzzle", "laravel"], "powershell": True,
    "python": ["aiohttp", "httpx_async", "httpx_sync", "python3"], "r": True, "ruby": True, "rust": True,
    "shell": ["httpie", "wget"], "swift": True,
}  # fmt: skip

openapi = ApiBlueprint(
    "openapi",
    allow_anyone,
    "This description",
    "The OpenAPI document and its page.",
    template_folder=str(_CONSOLE / "templates"),
)


@openapi.get("/")
def show_start() -> BaseResponse:
    """Lead a browser to the page of the API; for a program there is nothing here."""
    if request.accept_mimetypes.best_match(("application/json", "text/html")) != "text/html":
        raise NotFound
    return redirect(url_for("openapi.show_docs"))


@openapi.get("/openapi.json")
@replies_in("application/json")
def show_api_document() -> Response:
    """This API as an OpenAPI 3.1 document."""
    return Response(_document(_app()), mimetype="application/json")


@openapi.get("/menu.schema.json")
@replies_in("application/schema+json")
def show_menu_schema() -> Response:
    """The JSON Schema of a menu document, for editors."""
    return Response(orjson.dumps(services().menus.schema()), mimetype="application/schema+json")


@openapi.get("/docs")
@replies_in("text/html")
def show_docs() -> Response:
    """This API as a page to read, search and try. It loads nothing from another host."""
    scripts = [_script("scalar.js"), _script("docs.js")]
    page = render_template("docs.html", configuration=_configuration(_demonstration_key()), scripts=scripts)
    response = Response(page)
    response.headers["Content-Security-Policy"] = _PAGE_POLICY
    return response


def _demonstration_key() -> dict[str, str]:
    """Return the API key of the sandbox's demonstration to a browser on this machine; nothing to any other caller.

    Only the machine's own names are accepted as the host, so that no page of another host and no proxy shows it.
    """
    settings = services().settings
    is_forwarded = any(name in request.headers for name in ("Forwarded", "X-Forwarded-For", "Via"))
    if not settings.is_sandbox or is_forwarded or urlsplit(request.host_url).hostname not in _LOOPBACK_NAMES:
        return {}
    if not ip_address(request.remote_addr or "::").is_loopback:
        return {}
    try:
        demonstration = orjson.loads((settings.data_dir / "demo.json").read_bytes())
    except OSError:
        return {}
    return {"apiKey": demonstration["apikey"], "apiSecret": demonstration["apisecret"]}


def _configuration(key: dict[str, str]) -> dict[str, Any]:
    """Return the settings of Scalar: nothing that calls another host, and samples in four languages."""
    return {
        "withDefaultFonts": False, "telemetry": False, "agent": {"disabled": True}, "mcp": {"disabled": True},
        "hideClientButton": True, "showDeveloperTools": "never", "documentDownloadType": "json",
        "authentication": {
            "preferredSecurityScheme": [["apiKey", "apiSecret"]],
            "securitySchemes": {name: {"value": value} for name, value in key.items()},
        },
        "defaultHttpClient": {"targetKey": "shell", "clientKey": "curl"},
        "hiddenClients": _HIDDEN_CLIENTS,
        "hideModels": True,
        "customCss": _STYLE,
    }  # fmt: skip


@lru_cache(maxsize=2)
def _script(name: str) -> str:
    """Return the address of a script, which changes with its content."""
    version = sha256((_CONSOLE / "static" / name).read_bytes()).hexdigest()[:12]
    return url_for("console.static_file", version=version, name=name)


def _app() -> Flask:
    return current_app._get_current_object()  # type: ignore[attr-defined, no-any-return]


@lru_cache(maxsize=1)
def _document(app: Flask) -> bytes:
    return orjson.dumps(api_document(app))
