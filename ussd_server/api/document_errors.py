"""The errors of the API document: with which codes a call can be refused, and the responses that say so.

Operations share a response where they can be refused with the same codes.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from apispec import APISpec
from werkzeug.routing import Rule

from ussd_server.api.document_examples import error_examples, management_error_examples
from ussd_server.api.endpoints import EndpointSpec, allow_anyone, authenticate_access_token, authenticate_api_key
from ussd_server.api.requests import is_management
from ussd_server.status import Code

_Json = dict[str, Any]
EVERY_CALL = (Code.INVALID_REQUEST, Code.REQUEST_TOO_LARGE, Code.INTERNAL_ERROR, Code.SERVICE_UNAVAILABLE)
_AUTHENTICATION_CODES: dict[Any, tuple[Code, ...]] = {
    authenticate_api_key: (
        Code.INVALID_CREDENTIALS,
        Code.API_KEY_DISABLED,
        Code.ADDRESS_NOT_ALLOWED,
        Code.RATE_LIMIT_EXCEEDED,
    ),
    authenticate_access_token: (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED),
    allow_anyone: (),
}
_RETRIED = {code.http_status for code in (Code.RATE_LIMIT_EXCEEDED, Code.TRANSACTION_FAILED, Code.SERVICE_UNAVAILABLE)}


def error_codes(rule: Rule, route: EndpointSpec) -> list[Code]:
    """Return every code with which a call of this route can be refused."""
    codes = {*EVERY_CALL, *_AUTHENTICATION_CODES[route.authenticate], *route.refuses}
    for schema in filter(None, (route.body, route.parameters)):
        codes |= {Code[field.refusal] for field in schema.fields.values() if hasattr(field, "refusal")}
    if route.needs:
        codes.add(Code.INSUFFICIENT_SCOPE)
    if route.body:
        codes.add(Code.UNSUPPORTED_MEDIA_TYPE)
    if route.idempotent:
        codes.add(Code.IDEMPOTENCY_KEY_REUSED)
    if rule.arguments and not any(code.http_status == Code.NOT_FOUND.http_status for code in codes):
        codes.add(Code.NOT_FOUND)
    return [code for code in Code if code in codes]


def error_responses(spec: APISpec, rule: Rule, codes: list[Code], *, has_body: bool = False) -> dict[str, str]:
    """Return the name of the shared response of each status, and add those that are new."""
    return {
        str(status): _response(spec, rule, status, [code for code in codes if code.http_status == status], has_body)
        for status in sorted({code.http_status for code in codes})
    }


def _response(spec: APISpec, rule: Rule, status: int, codes: list[Code], has_body: bool) -> str:
    examples: _Json
    if is_management(rule.rule):
        kind, meaning = "ManagementError", HTTPStatus(status).phrase
        examples = management_error_examples(rule.endpoint.rpartition(".")[2], status, has_body=has_body)
        parts = list(examples)
    else:
        kind, meaning = "Error", ", ".join(f"`{code.error}`" for code in codes)
        examples = _error_examples(spec, codes)
        is_shared = [code for code in Code if code.http_status == status] == codes
        parts = [] if is_shared else [code.error for code in codes]
    name = "_".join((f"{kind}{status}", *parts))
    if name not in spec.components.responses:
        headers = ("X-Request-Id", *(["Retry-After"] if status in _RETRIED else []))
        content: _Json = {"schema": {"$ref": f"#/components/schemas/{kind}"}}
        spec.components.response(
            name,
            {
                "description": meaning,
                "headers": {header: {"$ref": f"#/components/headers/{header}"} for header in headers},
                "content": {"application/json": content | ({"examples": examples} if examples else {})},
            },
        )
    return name


def _error_examples(spec: APISpec, codes: list[Code]) -> _Json:
    """Return references to the shared examples of the codes, and add those that are new."""
    examples = error_examples()
    names = [code.error for code in codes if code.error in examples]
    for name in names:
        if name not in spec.components.examples:
            spec.components.example(name, examples[name])
    return {name: {"$ref": f"#/components/examples/{name}"} for name in names}
