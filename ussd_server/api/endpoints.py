"""API endpoints: the checks that each request passes before its view runs.

The contract fixes their order: body size, authentication, rate limit, permission, and last the query and the body.
Services check who owns an object. The API document is built from the same `EndpointSpec` of each route.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from flask import Blueprint
from marshmallow import Schema

from schemas.envelopes import Body, Query, error_envelope, management_envelope, success_envelope
from ussd_server.api.bodies import (
    MAX_BODY_BYTES,
    load,
    load_query,
    parse_object,
    read_body,
    read_idempotency_key,
    read_yaml_text,
)
from ussd_server.api.requests import ApiRequest, ApiResponse, takes_api_request
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.limits.decisions import DATA_CALL_REFUSED, RateLimitDecision
from ussd_server.limits.limiter import rate_limit_headers
from ussd_server.services.menus.messages import SourceText
from ussd_server.status import Code, ServiceError

Authenticator = Callable[[ApiRequest], Caller]

_View = TypeVar("_View", bound=Callable[..., Any])
_NOBODY = Caller(CallerKind.NOBODY)


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """A reply with a status, a message or headers other than those of its route."""

    data: Any
    status: int | None = None
    message: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """The declaration of a route."""

    view: Callable[..., Any]
    authenticate: Authenticator
    takes: Body | None
    query: Query
    makes: type[Any] | None
    gives: Schema | None
    needs: str | None
    refuses: tuple[Code, ...]
    refusal: str
    status: int
    message: str
    summary: str
    idempotent: bool
    also: Mapping[str, Callable[..., ApiResponse]]
    max_body_bytes: int


class ApiBlueprint(Blueprint):
    """A blueprint whose routes share one kind of authentication."""

    def __init__(self, name: str, authenticate: Authenticator, **options: Any) -> None:
        super().__init__(name, __name__, **options)
        self._authenticate = authenticate

    def call(
        self,
        method: str,
        path: str,
        *,
        name: str | None = None,
        makes: type[Any] | None = None,
        takes: type[Body] | None = None,
        query: type[Query] | None = None,
        gives: Schema | None = None,
        needs: str | None = None,
        refuses: tuple[Code, ...] = (),
        refusal: str = "Insufficient permissions",
        status: int = 200,
        message: str = "OK",
        idempotent: bool = False,
        also: Mapping[str, Callable[..., ApiResponse]] | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a view for `method` and `path`; `name` is that of the operation, by default the view's.

        The view receives one message and the request context; without `makes` only the context. `makes` builds the
        message from the variables of the path, the checked query and the checked body. `gives` dumps what the view
        returns; without it that is sent unchanged.
        An `idempotent` route takes an `Idempotency-Key` header. `refuses` lists the error codes of the service method,
        beside those of authentication, permission and schemas.
        `also` has other media types that a client may prefer by its `Accept` header, and what is called then instead
        of the view.
        """

        def register(view: Callable[..., Any]) -> Callable[..., Any]:
            route = EndpointSpec(
                view,
                self._authenticate,
                takes() if takes else None,
                (query or Query)(),
                makes,
                gives,
                needs,
                refuses,
                refusal,
                status,
                message,
                (view.__doc__ or "").strip().partition("\n")[0],
                idempotent,
                also or {},
                max_body_bytes,
            )

            reply = _reply_as_preferred if also else _reply_in_json

            @takes_api_request
            def serve(api_request: ApiRequest, **variables: str) -> ApiResponse:
                return reply(route, api_request, _check(route, api_request, variables))

            serve.route = route  # type: ignore[attr-defined]
            self.add_url_rule(path, name or view.__name__, serve, methods=[method], provide_automatic_options=False)
            return view

        return register


def speaks(*media_types: str) -> Callable[[_View], _View]:
    """State the media types of a view outside of the JSON API, which authenticates its client itself."""

    def state(view: _View) -> _View:
        view.speaks = media_types  # type: ignore[attr-defined]
        return view

    return state


def authenticate_api_key(api_request: ApiRequest) -> Caller:
    """Authenticate a client by `x-api-key` and `x-api-secret`."""
    given = api_request.environ.get
    admission = api_request.services.auth.authenticate_key(
        given("HTTP_X_API_KEY"), given("HTTP_X_API_SECRET"), api_request.address
    )
    api_request.client_id, api_request.key_id = admission.caller.client_id, admission.caller.key_id
    _obey(admission.decision, api_request, DATA_CALL_REFUSED)
    return admission.caller


def authenticate_access_token(api_request: ApiRequest) -> Caller:
    """Authenticate a user by `Authorization: Bearer <JWT>`."""
    scheme, _, token = (api_request.request.headers.get("Authorization") or "").partition(" ")
    caller = api_request.services.auth.authenticate_token(token if scheme.lower() == "bearer" else "")
    _obey(
        api_request.services.limiter.hit("access-token", caller.login_id or ""),
        api_request,
        "Rate limit exceeded",
    )
    return caller


def allow_anyone(_: ApiRequest) -> Caller:
    """Accept a request without credentials."""
    return _NOBODY


def csv_file(name: str, parts: Iterator[bytes], headers: Mapping[str, str] | None = None) -> ApiResponse:
    """Return a response with a CSV file, which is sent while it is made."""
    shown = {"Content-Disposition": f'attachment; filename="{name}"', **(headers or {})}
    return ApiResponse(200, parts, shown.items(), "text/csv; charset=utf-8")


def _check(route: EndpointSpec, api_request: ApiRequest, variables: Mapping[str, str]) -> tuple[Any, ...]:
    """Return what the view takes: the message, if there is one, and the context. ServiceError when a check refuses."""
    body = read_body(api_request.environ, route.max_body_bytes) if api_request.has_body else b""
    caller = route.authenticate(api_request)
    api_request.client_id = caller.client_id
    call = RequestContext(caller, api_request.request_id, api_request.address)
    if route.needs:
        call.require(route.needs, route.refusal)
    request = _message(route, api_request, body, variables)
    return (call,) if request is None else (request, call)


def _reply_as_preferred(route: EndpointSpec, api_request: ApiRequest, given: tuple[Any, ...]) -> ApiResponse:
    preferred = api_request.request.accept_mimetypes.best_match(("application/json", *route.also))
    send = route.also.get(preferred or "")
    return send(*given) if send else _reply_in_json(route, api_request, given)


def _reply_in_json(route: EndpointSpec, api_request: ApiRequest, given: tuple[Any, ...]) -> ApiResponse:
    reply = route.view(*given)
    status, message, headers = route.status, route.message, None
    if isinstance(reply, EndpointReply):
        status, message, headers = reply.status or status, reply.message or message, reply.headers
        reply = reply.data
    data = reply if route.gives is None or reply is None else route.gives.dump(reply)
    envelope = (
        management_envelope(status, message, data) if api_request.is_management else success_envelope(message, data)
    )
    return ApiResponse(status, orjson.dumps(envelope), headers.items() if headers else ())


def refusal(error: ServiceError, api_request: ApiRequest) -> ApiResponse:
    """Return the response to a refused request, in the envelope of its path."""
    api_request.code, status = error.code.name, error.code.http_status
    api_request.client_id = api_request.client_id or error.client_id
    api_request.key_id = api_request.key_id or error.key_id
    if api_request.is_management:
        envelope = management_envelope(status, error.message, None)
    else:
        envelope = error_envelope(error.code.error, error.message, api_request.services.clock.rough())
    wait = error.retry_after_seconds
    return ApiResponse(status, orjson.dumps(envelope), () if wait is None else [("Retry-After", str(wait))])


def _message(route: EndpointSpec, api_request: ApiRequest, body: bytes, variables: Mapping[str, str]) -> Any:
    """Build the request message, None for a route without one."""
    parts: dict[str, Any] = dict(variables)
    part = "query parameters"
    try:
        parts |= load_query(route.query, api_request)
        part = "request body"
        if route.takes is not None:
            parts |= _body_parts(route.takes, api_request, body)
    except ServiceError as error:
        # Management paths have one message for every fault of a body or a query (wire contract 2).
        if api_request.is_management and error.code.http_status == 400:
            raise ServiceError(Code.INVALID_REQUEST, f"Invalid {part}") from None
        raise
    if route.idempotent:
        parts["idempotency_key"] = read_idempotency_key(api_request)
    return None if route.makes is None else route.makes(**parts)


def _body_parts(schema: Body, api_request: ApiRequest, body: bytes) -> dict[str, Any]:
    """Return the fields of a body; of a schema that takes YAML also the text of the body, of a file its bytes."""
    if api_request.request.mimetype in schema.takes_files:
        return {"file": body}
    # An empty body is an empty object elsewhere; here it would replace what is stored.
    if not body and api_request.request.method == "PUT":
        raise ServiceError(Code.INVALID_REQUEST, "The request body is empty")
    if not schema.takes_yaml:
        return load(schema, parse_object(api_request.request, body))
    text = read_yaml_text(api_request.request, body)
    if text is not None:
        return {"source": SourceText(text, is_yaml=True)}
    parts = load(schema, parse_object(api_request.request, body))
    has_document = any(value is not None for value in parts.values())
    return {**parts, "source": SourceText(body.decode("utf-8"))} if has_document else parts


def _obey(decision: RateLimitDecision, api_request: ApiRequest, sentence: str) -> None:
    api_request.headers |= rate_limit_headers(decision)
    if not decision.accepted:
        raise ServiceError(Code.RATE_LIMIT_EXCEEDED, sentence, retry_after_seconds=decision.retry_after_seconds)
