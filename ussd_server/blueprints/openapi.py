"""The API explained by itself, made from what the routes state: OpenAPI 3.1 for machines, a page for people."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask, Response, current_app, render_template, send_from_directory
from marshmallow import INCLUDE, Schema
from marshmallow.fields import Field
from werkzeug.routing import Rule

from schemas.envelopes import is_management
from schemas.meanings import meaning_of
from ussd_server.api.endpoints import (
    ApiBlueprint,
    EndpointSpec,
    allow_anyone,
    authenticate_access_token,
    authenticate_api_key,
    speaks,
)
from ussd_server.blueprints.reference import operations, records, title_of
from ussd_server.status import Code

_CONSOLE = Path(__file__).parents[1] / "console"
_PAGE_POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"

openapi = ApiBlueprint("openapi", allow_anyone, template_folder=str(_CONSOLE / "templates"))
openapi.add_app_template_filter(title_of)

_VERSION = "1.0.0"
_ABOUT = "USSD menus and mobile money behind one HTTPS API. Amounts are Ugandan shillings, times are UTC."
_SECURITY: dict[Any, list[dict[str, list[str]]]] = {
    authenticate_api_key: [{"apiKey": [], "apiSecret": []}],
    authenticate_access_token: [{"bearer": []}],
    allow_anyone: [],
}
_ANYBODY = (Code.INVALID_REQUEST, Code.REQUEST_TOO_LARGE, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE)
_AUTHENTICATION_CODES: dict[Any, tuple[Code, ...]] = {
    authenticate_api_key: (Code.INVALID_CREDENTIALS, Code.API_KEY_DISABLED, Code.RATE_LIMIT_EXCEEDED),
    authenticate_access_token: (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED),
    allow_anyone: (),
}
_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-Id": ("The caller's own request id, or a new one", {"type": "string"}),
    "Location": ("Where the new thing is found", {"type": "string"}),
    "Retry-After": ("Whole seconds after which a call is accepted", {"type": "integer"}),
    "Idempotent-Replayed": ("`true`: this was recorded before, and nothing was done now", {"type": "string"}),
    "RateLimit-Policy": ("Both windows of the limit", {"type": "string"}),
    "RateLimit": ("What is left of both windows", {"type": "string"}),
    "X-RateLimit-Limit": ("Calls that the tighter window allows", {"type": "integer"}),
    "X-RateLimit-Remaining": ("Calls that are left of the tighter window", {"type": "integer"}),
    "X-RateLimit-Reset": ("Seconds until the tighter window is whole again", {"type": "integer"}),
}
_LIMIT_HEADERS = [name for name in _HEADERS if "RateLimit" in name]


@openapi.get("/openapi.json", provide_automatic_options=False)
@speaks("application/json")
def show_api_document() -> Response:
    """This API as an OpenAPI 3.1 document."""
    return Response(_document(_app()), mimetype="application/json")


@openapi.get("/docs", provide_automatic_options=False)
@speaks("text/html")
def show_docs() -> Response:
    """This API as a page for people; nothing on it is fetched from another machine, and nothing runs."""
    response = Response(_page(_app()))
    response.headers["Content-Security-Policy"] = _PAGE_POLICY
    return response


@openapi.get("/docs/style.css", provide_automatic_options=False)
@speaks("text/css")
def show_docs_style() -> Response:
    """The look of `/docs`."""
    return send_from_directory(_CONSOLE / "static", "docs.css", mimetype="text/css")


def _app() -> Flask:
    return current_app._get_current_object()  # type: ignore[attr-defined, no-any-return]


@lru_cache(maxsize=1)
def _document(app: Flask) -> bytes:
    return orjson.dumps(api_document(app))


@lru_cache(maxsize=1)
def _page(app: Flask) -> bytes:
    document = api_document(app)
    shown = {"info": document["info"], "operations": operations(document), "records": records(document)}
    return render_template("docs.html", **shown).encode()


@lru_cache(maxsize=1)
def api_document(app: Flask) -> dict[str, Any]:
    """The OpenAPI document of every route that states what it does; pages for browsers state nothing."""
    plugin = MarshmallowPlugin(schema_name_resolver=lambda schema: type(_instance(schema)).__name__)
    spec = APISpec(
        title="USSD server", version=_VERSION, openapi_version="3.1.0", plugins=[plugin],
        info={"description": _ABOUT}, servers=[{"url": "/"}],
    )  # fmt: skip
    plugin.converter.attribute_functions.insert(1, _own_words)  # type: ignore[union-attr]
    _add_components(spec)
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: (rule.endpoint.partition(".")[0], rule.rule)):
        view = app.view_functions[rule.endpoint]
        path = re.sub(r"<(?:[^:>]+:)?([^>]+)>", r"{\1}", rule.rule)
        for method in sorted(set(rule.methods or ()) - {"HEAD", "OPTIONS"}):
            if hasattr(view, "route"):
                operation = _operation(spec, rule, view.route)
            elif hasattr(view, "speaks"):
                operation = _foreign_operation(spec, rule, view, method)
            else:
                continue
            spec.path(path=path, operations={method.lower(): operation})
    document: dict[str, Any] = spec.to_dict()
    return document


def refusals(rule: Rule, route: EndpointSpec) -> list[Code]:
    """Every code that a call of this route can be refused with."""
    codes = {*_ANYBODY, *_AUTHENTICATION_CODES[route.authenticate], *route.refuses}
    for schema in filter(None, (route.takes, route.query)):
        codes |= {Code[field.refusal] for field in schema.fields.values() if hasattr(field, "refusal")}
    if route.needs:
        codes.add(Code.INSUFFICIENT_SCOPE)
    if route.takes:
        codes.add(Code.UNSUPPORTED_MEDIA_TYPE)
    if route.idempotent:
        codes.add(Code.IDEMPOTENCY_KEY_REUSED)
    if rule.arguments and not any(code.http_status == Code.NOT_FOUND.http_status for code in codes):
        codes.add(Code.NOT_FOUND)
    return [code for code in Code if code in codes]


def _operation(spec: APISpec, rule: Rule, route: EndpointSpec) -> dict[str, Any]:
    """One operation, as its route states it."""
    operation: dict[str, Any] = {
        "operationId": rule.endpoint.rpartition(".")[2],
        "tags": [rule.endpoint.partition(".")[0]],
        "summary": route.summary,
        "security": _SECURITY[route.authenticate],
        "parameters": _parameters(rule, route),
        "responses": _successes(rule, route) | _failures(spec, rule, refusals(rule, route)),
    }
    if route.needs:
        operation["x-permission"] = route.needs
    if route.takes is not None:
        needed = any(field.required for field in route.takes.fields.values())
        media: dict[str, Any] = {"schema": _schema_of(route.takes)}
        if route.takes.example:
            media["example"] = dict(route.takes.example)
        content = {"application/json": media}
        if route.takes.takes_yaml:
            content["application/yaml"] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": needed, "content": content}
    return operation


def _foreign_operation(spec: APISpec, rule: Rule, view: Any, method: str) -> dict[str, Any]:
    """An operation that answers in another language than the API's."""
    content: dict[str, Any] = {media_type: {"schema": {}} for media_type in view.speaks}
    codes = [*_ANYBODY, *([Code.NOT_FOUND] if rule.arguments else [])]
    return {
        "operationId": rule.endpoint.rpartition(".")[2] + ("" if len(_methods(rule)) == 1 else f"_{method.lower()}"),
        "tags": [rule.endpoint.partition(".")[0]],
        "summary": _first_line(view),
        "security": [],
        "parameters": _path_parameters(rule),
        "responses": {
            "200": {"description": "The answer", "headers": _headers("X-Request-Id"), "content": content},
            **_failures(spec, rule, codes),
        },
    }


def _parameters(rule: Rule, route: EndpointSpec) -> list[dict[str, Any]]:
    query: list[Any] = [{"in": "query", "schema": route.query}] if route.query.fields else []
    if route.idempotent:
        query.append({
            "name": "Idempotency-Key", "in": "header", "required": False,
            "description": "Another name for this request, beside its reference.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
        })  # fmt: skip
    return _path_parameters(rule) + query


def _path_parameters(rule: Rule) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "description": meaning_of(name), "schema": {"type": "string"}}
        for name in re.findall(r"<(?:[^:>]+:)?([^>]+)>", rule.rule)
    ]


def _successes(rule: Rule, route: EndpointSpec) -> dict[str, Any]:
    data: Any = {"type": "null"} if route.gives is None and is_management(rule.rule) else {"type": "object"}
    if route.gives is not None:
        data = {"type": "array", "items": type(route.gives)()} if route.gives.many else route.gives
    found = {str(route.status): route.message}
    if route.idempotent:
        found["200"] = "It was recorded before; this is how it stands"
    media_types = [*route.also, *(["text/csv"] if route.csv else [])]
    more = _LIMIT_HEADERS if route.authenticate is authenticate_api_key else []
    return {
        status: {
            "description": message,
            "headers": _headers(
                "X-Request-Id", *more, *(["Location"] if status == "201" else []),
                *(["Idempotent-Replayed"] if route.idempotent and status == "200" else []),
            ),
            "content": {
                "application/json": {"schema": _success_envelope(rule, int(status), data)},
                **{media_type: {"schema": {"type": "string"}} for media_type in media_types},
            },
        }
        for status, message in found.items()
    }  # fmt: skip


def _success_envelope(rule: Rule, status: int, data: Any) -> dict[str, Any]:
    if is_management(rule.rule):
        return _object(status={"const": status}, message={"type": "string"}, data=data)
    return _object(success={"const": True}, data=data, message={"type": "string"})


def _failures(spec: APISpec, rule: Rule, codes: list[Code]) -> dict[str, Any]:
    by_status = groupby(sorted(codes, key=lambda code: code.http_status), key=lambda code: code.http_status)
    return {str(status): _refusal(spec, rule, list(group)) for status, group in by_status}


def _refusal(spec: APISpec, rule: Rule, codes: list[Code]) -> str:
    """The name of the response, kept once, that refuses with one of `codes` in the envelope of the rule."""
    in_management = is_management(rule.rule)
    statuses = sorted({code.http_status for code in codes})
    name = f"management.{statuses[0]}" if in_management else ".".join(code.error for code in codes)
    if name in spec.components.responses:
        return name
    if in_management:
        schema = _object(status={"enum": statuses}, message={"type": "string"}, data={"type": "null"})
    else:
        schema = _object(
            success={"const": False}, error={"enum": [code.error for code in codes]},
            message={"type": "string"}, timestamp={"type": "string", "format": "date-time"},
        )  # fmt: skip
    comes_again = {Code.RATE_LIMIT_EXCEEDED, Code.SERVICE_UNAVAILABLE} & set(codes)
    spec.components.response(name, {
        "description": ", ".join(code.error for code in codes),
        "headers": _headers("X-Request-Id", *(["Retry-After"] if comes_again else [])),
        "content": {"application/json": {"schema": schema}},
    })  # fmt: skip
    return name


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _add_components(spec: APISpec) -> None:
    for name, (description, schema) in _HEADERS.items():
        spec.components.header(name, {"description": description, "schema": schema})
    for name, header in (("apiKey", "x-api-key"), ("apiSecret", "x-api-secret")):
        spec.components.security_scheme(name, {"type": "apiKey", "in": "header", "name": header})
    spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})


def _schema_of(schema: Schema) -> Any:
    """The schema itself, or, for a body that is a document of the client's own, any object."""
    if schema.opts.unknown == INCLUDE:
        return {"type": "object", "description": (type(schema).__doc__ or "").strip()}
    return schema


def _own_words(field: Field[Any], **_: Any) -> dict[str, Any]:
    """What a field of ours says of itself, and what its name means."""
    said = dict(getattr(field, "json_schema", {}))
    if field.allow_none and "anyOf" in said:
        said["anyOf"] = [*said["anyOf"], {"type": "null"}]
    meaning = meaning_of(field.data_key or field.name, type(field.parent)) if field.name else ""
    return said | ({"description": meaning} if meaning else {})


def _instance(schema: Any) -> Schema:
    return schema if isinstance(schema, Schema) else schema()


def _methods(rule: Rule) -> set[str]:
    return set(rule.methods or ()) - {"HEAD", "OPTIONS"}


def _first_line(view: Any) -> str:
    return (view.__doc__ or "").strip().partition("\n")[0]
