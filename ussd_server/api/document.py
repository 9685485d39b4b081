"""The OpenAPI document of the API, built from what the routes declare.

Generated clients have one class for each named schema. So each envelope has one schema for successes and one for
errors, and responses with an error are shared by status.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any, get_args, get_origin

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask
from marshmallow import INCLUDE, Schema
from marshmallow.fields import Field
from werkzeug.routing import Rule

from ussd_server.api import endpoints
from ussd_server.api.document_errors import EVERY_CALL, error_codes, error_responses
from ussd_server.api.document_events import EVENTS, event_data, webhooks
from ussd_server.api.document_examples import examples, reply_example, request_example
from ussd_server.api.document_models import menu_component, simplify
from ussd_server.api.requests import EXTENSION, is_management
from ussd_server.status import Code
from ussd_server.wire import object_schema, schema_of

_VERSION = "1.0.0"
_ABOUT = (
    "USSD menus and mobile money behind one HTTPS API. Amounts are Ugandan shillings, times are UTC.\n\n"
    "Programs authenticate with the headers `x-api-key` and `x-api-secret`. Users authenticate with the access token "
    "of a login. Every error has a code and a sentence, in one of two envelopes."
)
_ID, _SECRET = "0192f3a0-7c1e-7a44-9b1d-3f5e8c2a6b70", "wQ3xk0cN5rT8yB1mP6sV9zF2hJ4dL7aG"
PATH_VARIABLES = {
    "adapter": ("The gateway's format.", "africastalking"),
    "api_key_id": ("The `id` of an API key.", _ID),
    "callback_secret": ("The secret part of the path; it is the credential.", _SECRET),
    "channel_secret": ("The secret part of the path; it is the credential.", _SECRET),
    "code": ("The payment code, without regard to case, spaces and hyphens.", "SCH-1042"),
    "event_id": ("The `id` of an event.", _ID),
    "menu_id": ("The menu, by the `id` in its document.", "school-fees"),
    "message_id": ("The message.", _ID),
    "payout_id": ("The payout that it belongs to; null for none.", _ID),
    "phone_number": ("The subscriber: `+256` and nine digits.", "+256772123456"),
    "provider": ("The name of the provider.", "mtn"),
    "request_id": ("The `X-Request-Id` of a call.", "order-77-attempt-2"),
    "secret": ("The secret part of the path; it is the credential.", _SECRET),
    "service_code": ("What the phone dials, such as `*165#`.", "*165#"),
    "session_id": ("The USSD session.", _ID),
    "transaction_id": ("The transaction.", _ID),
    "webhook_id": ("The `id` of a webhook.", _ID),
}
"""The variables of paths: what each names, and an example."""

_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-Id": ("The caller's own request id, or a new one", {"type": "string"}),
    "Location": ("The path of the new object", {"type": "string"}),
    "Retry-After": ("Whole seconds after which a call is accepted", {"type": "integer"}),
    "Idempotent-Replayed": ("`true`: this was recorded before, and nothing was done now", {"type": "string"}),
    "RateLimit-Policy": ("Both windows of the limit", {"type": "string"}),
    "RateLimit": ("The remaining calls of both windows", {"type": "string"}),
    "X-RateLimit-Limit": ("Calls that the tighter window allows", {"type": "integer"}),
    "X-RateLimit-Remaining": ("Remaining calls of the tighter window", {"type": "integer"}),
    "X-RateLimit-Reset": ("Seconds until the tighter window is whole again", {"type": "integer"}),
}
"""The headers of replies: what each means, and its schema."""

_Refer = Callable[[Any], dict[str, Any]]
_SECURITY: dict[Any, list[dict[str, list[str]]]] = {
    endpoints.authenticate_api_key: [{"apiKey": [], "apiSecret": []}],
    endpoints.authenticate_access_token: [{"bearer": []}],
    endpoints.allow_anyone: [],
}
# As a constant, because `type: null` alone does not compile as generated for Go.
_NULL: dict[str, Any] = {"const": None}
_LIMIT_HEADERS = [name for name in _HEADERS if "RateLimit" in name]


@lru_cache(maxsize=1)
def api_document(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of every route that declares itself; console pages do not."""
    schemas: dict[str, type] = {}

    def name_of(schema: Any) -> str:
        return (schema if isinstance(schema, type) else type(schema)).__name__

    def refer(view: Any) -> dict[str, Any]:
        """Return a reference to the schema of a view, and add the schema if it is new."""
        name = component_name(view)
        if name not in schemas:
            schemas[name] = view
            spec.components.schema(name, object_schema(view, refer))
        return {"$ref": f"#/components/schemas/{name}"}

    plugin = MarshmallowPlugin(schema_name_resolver=name_of)
    spec = APISpec(
        title="USSD server",
        version=_VERSION,
        openapi_version="3.1.0",
        plugins=[plugin],
        info={"description": _ABOUT},
        servers=[{"url": "/"}],
        tags=[
            {"name": group.name, "x-displayName": group.title, "description": group.about}
            for group in app.blueprints.values()
            if isinstance(group, endpoints.ApiBlueprint)
        ]
        + [EVENTS],
    )
    plugin.converter.attribute_functions.insert(1, _declared_by_field)  # type: ignore[union-attr]
    _add_components(spec)
    # Groups in the order of their blueprints in `app.py`; within a group, blueprints keep their own order.
    groups = list(app.blueprints)
    rules = [rule for rule in app.url_map.iter_rules() if _tag(rule) in groups]
    for rule in sorted(rules, key=lambda rule: groups.index(_tag(rule))):
        view = app.view_functions[rule.endpoint]
        for method in sorted(_methods(rule)):
            if hasattr(view, "route"):
                operation = _operation(spec, rule, view.route, refer)
            elif hasattr(view, "replies_in"):
                operation = _other_operation(spec, rule, view, method)
            else:
                continue
            spec.path(path=endpoints.template_of(rule.rule), operations={method.lower(): operation})
    events, data = webhooks(refer, examples()["webhooks"]), event_data(refer)
    document = spec.to_dict() | {"webhooks": events}
    event = document["components"]["schemas"]["Event"]["properties"]
    event["data"] = data | {"description": event["data"]["description"]}
    document = simplify(document, schemas)
    document["components"]["schemas"]["MenuDocument"] = menu_component(app.extensions[EXTENSION].menus.schema())
    return document


def component_name(view: Any) -> str:
    """Return the name of a view's schema in the document: `TransactionView` is `Transaction`."""
    kind, items = get_origin(view) or view, map(component_name, get_args(view))
    return "".join((*items, kind.__name__.removesuffix("View")))


def _title(rule: Rule) -> str:
    words = _name(rule).replace("_", " ").capitalize()
    return words.replace("Api ", "API ").replace(" api ", " API ")


def _name(rule: Rule) -> str:
    return str(rule.endpoint.rpartition(".")[2])


def _tag(rule: Rule) -> str:
    return str(rule.endpoint.partition(".")[0])


def _operation(spec: APISpec, rule: Rule, route: endpoints.EndpointSpec, refer: _Refer) -> dict[str, Any]:
    codes = error_codes(rule, route)
    operation: dict[str, Any] = {
        "operationId": _name(rule),
        "tags": [_tag(rule)],
        "summary": _title(rule),
        "description": _description(route, rule, codes),
        "security": _SECURITY[route.authenticate],
        "parameters": _parameters(rule, route),
        "responses": _successes(rule, route, refer)
        | error_responses(spec, rule, codes, has_body=route.body is not None),
    }
    if route.needs:
        operation["x-permission"] = " or ".join(filter(None, (route.needs, route.or_needs)))
    if route.body is not None and route.body.fields:
        is_needed = any(field.required for field in route.body.fields.values())
        media = {"schema": _schema_of(route.body)} | request_example(_name(rule))
        content = {"application/json": media}
        if route.body.takes_yaml:
            content["application/yaml"] = media
        content |= {media_type: {"schema": {"type": "string"}} for media_type in route.body.takes_files}
        operation["requestBody"] = {"required": is_needed, "content": content}
    return operation


def _other_operation(spec: APISpec, rule: Rule, view: Any, method: str) -> dict[str, Any]:
    """Return an operation whose reply is not an envelope of the API."""
    name = _name(rule) + ("" if len(_methods(rule)) == 1 else f"_{method.lower()}")
    example = reply_example(name, "200")
    shown_as = "text/" if isinstance(example.get("example"), str) else "application/"
    content: dict[str, Any] = {
        media_type: {"schema": {}} | (example if media_type.startswith(shown_as) else {})
        for media_type in view.replies_in
    }
    codes = [*EVERY_CALL, *([Code.NOT_FOUND] if rule.arguments else [])]
    operation = {
        "operationId": name,
        "tags": [_tag(rule)],
        "summary": _title(rule),
        "description": (view.__doc__ or "").strip().partition("\n")[0],
        "security": [],
        "parameters": _path_parameters(rule),
        "responses": {
            "200": {"description": "The reply", "headers": _headers("X-Request-Id"), "content": content},
            **error_responses(spec, rule, codes),
        },
    }
    if view.takes and (sent := request_example(name)):
        fields = {"type": "object", "additionalProperties": {"type": "string"}}
        operation["requestBody"] = {"content": {view.takes: {"schema": fields} | sent}}
    return operation


def _description(route: endpoints.EndpointSpec, rule: Rule, codes: list[Code]) -> str:
    needed = " or ".join(f"`{each}`" for each in (route.needs, route.or_needs) if each)
    permission = f"Permission: {needed}." if needed else ""
    errors = ", ".join(f"`{code.error}` ({code.http_status})" for code in codes)
    return "\n\n".join(
        filter(None, (route.summary, permission, "" if is_management(rule.rule) else f"Errors: {errors}."))
    )


def _parameters(rule: Rule, route: endpoints.EndpointSpec) -> list[dict[str, Any]]:
    query: list[Any] = [{"in": "query", "schema": route.parameters}] if route.parameters.fields else []
    if route.idempotent:
        query.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Another name for this request, beside its reference.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
            }
        )
    return _path_parameters(rule) + query


def _path_parameters(rule: Rule) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_VARIABLES[name][0],
            "schema": {"type": "string"},
            "example": PATH_VARIABLES[name][1],
        }
        for name in re.findall("{([^}]+)}", endpoints.template_of(rule.rule))
    ]


def _successes(rule: Rule, route: endpoints.EndpointSpec, refer: _Refer) -> dict[str, Any]:
    messages = {str(route.status): route.message}
    may_repeat = route.idempotent or Code.IDEMPOTENCY_KEY_REUSED in route.refuses
    if may_repeat:
        messages["200"] = "It was recorded before; this is its present state"
    more = _LIMIT_HEADERS if route.authenticate is endpoints.authenticate_api_key else []
    shape = {"schema": _reply(rule, route.reply_type, refer)}
    also = {media_type: {"schema": {"type": "string"}} for media_type in route.also}
    return {
        status: {
            "description": message,
            "headers": _headers(
                "X-Request-Id",
                *more,
                *(["Location"] if status == "201" else []),
                *(["Idempotent-Replayed"] if may_repeat and status == "200" else []),
            ),
            "content": {"application/json": shape | reply_example(_name(rule), status)} | also,
        }
        for status, message in messages.items()
    }


def _reply(rule: Rule, gives: Any, refer: _Refer) -> dict[str, Any]:
    """Return the schema of a reply: its envelope, and which data it has."""
    data: dict[str, Any] = _NULL if is_management(rule.rule) else {"type": "object"}
    if gives is not None:
        data = schema_of(gives, refer)
    if is_management(rule.rule):
        return _object(status={"type": "integer"}, message={"type": "string"}, data=data)
    return _object(success={"type": "boolean", "const": True}, message={"type": "string"}, data=data)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _add_components(spec: APISpec) -> None:
    for name, (description, schema) in _HEADERS.items():
        spec.components.header(name, {"description": description, "schema": schema})
    for name, header in (("apiKey", "x-api-key"), ("apiSecret", "x-api-secret")):
        spec.components.security_scheme(name, {"type": "apiKey", "in": "header", "name": header})
    spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})
    spec.components.schema("ErrorCode", {"type": "string", "enum": [code.error for code in Code]})
    spec.components.schema(
        "Error",
        _object(
            success={"type": "boolean", "const": False},
            error={"$ref": "#/components/schemas/ErrorCode"},
            message={"type": "string"},
            timestamp={"type": "string", "format": "date-time"},
        ),
    )
    spec.components.schema(
        "ManagementError", _object(status={"type": "integer"}, message={"type": "string"}, data=_NULL)
    )


def _schema_of(schema: Schema) -> Any:
    """Return the schema; for a body that is a menu any object, because a draft need not be right yet.

    What a menu is stands under `if`, because a choice of two free objects does not compile as generated for Go.
    """
    if schema.opts.unknown == INCLUDE:
        return {
            "type": "object",
            "additionalProperties": True,
            "description": (type(schema).__doc__ or "").strip(),
            "if": {"$ref": "#/components/schemas/MenuDocument"},
        }
    return schema


def _declared_by_field(field: Field[Any], **_: Any) -> dict[str, Any]:
    """Return the JSON Schema that a field declares itself."""
    declared = deepcopy(getattr(field, "json_schema", {}))
    for choices, null in (("anyOf", {"type": "null"}), ("enum", None)):
        if field.allow_none and choices in declared:
            declared[choices] = [*declared[choices], null]
    return declared


def _methods(rule: Rule) -> set[str]:
    return set(rule.methods or ()) - {"HEAD", "OPTIONS"}
