"""API endpoints: the checks that each request passes before its view runs.

The contract fixes their order: body size, authentication, rate limit, permission, and last the query and the body.
Services check who owns an object. The API document is built from the same `EndpointSpec` of each route.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, is_dataclass
from functools import cache, wraps
from http import HTTPStatus
from types import NoneType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import orjson
from flask import Blueprint, Request, Response

from schemas.fields import Body, Query
from ussd_server.api.requests import (
    MAX_BODY_BYTES,
    CurrentRequest,
    FieldError,
    current_request,
    load,
    load_query,
    parse_object,
    read_idempotency_key,
    read_yaml_text,
)
from ussd_server.context import NOT_PERMITTED, Caller, CallerKind, RequestContext
from ussd_server.limits.limiter import rate_limit_headers
from ussd_server.limits.sliding_window import DATA_CALL_REFUSED, RateLimitDecision
from ussd_server.services.menus.messages import SourceText
from ussd_server.status import Code, ServiceError
from ussd_server.wire import error_envelope, management_envelope, success_envelope, writer

Authenticator = Callable[[CurrentRequest], Caller]

_Options = TypeVar("_Options")
_Arguments = ParamSpec("_Arguments")
_View = TypeVar("_View", bound=Callable[..., Any])
_Data = TypeVar("_Data")
_NOBODY = Caller(CallerKind.NOBODY)
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


def with_options(
    kind: Callable[_Arguments, _Options],
) -> Callable[
    [Callable[[Any, str, str, _Options], Callable[[_View], _View]]],
    Callable[Concatenate[Any, str, str, _Arguments], Callable[[_View], _View]],
]:
    """Let a method that takes a method, a path and an object of options take the fields of that object one by one."""

    def decorate(register: Callable[[Any, str, str, _Options], Any]) -> Any:
        @wraps(register)
        def take(blueprint: Any, method: str, path: str, *values: Any, **options: Any) -> Any:
            return register(blueprint, method, path, kind(*values, **options))

        return take

    return decorate


@dataclass(frozen=True, slots=True)
class EndpointReply(Generic[_Data]):
    """A reply with a status, a message or headers other than those of its route."""

    data: _Data
    status: int | None = None
    message: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """What an endpoint declares beside its method and its path, as the arguments of `ApiBlueprint.call`.

    `name` is that of the operation, by default the view's. `takes` and `query` are the schemas of body and query.
    A caller needs the permission `needs`, or `or_needs` where the service decides by the content of the request;
    `refusal` is the message without it. `refuses` lists the error codes of the service method, beside those of
    authentication, permission and schemas, and NOT_FOUND for a path with a variable. `status` and `message` are those
    of the reply. An `idempotent` route takes an `Idempotency-Key` header. With `names_field` a management path names
    the field that it refuses. `also` maps other media types, which a client may prefer by its `Accept` header, to the
    functions that are called then instead of the view.
    """

    name: str | None = None
    takes: type[Body] | None = None
    query: type[Query] = Query
    needs: str | None = None
    or_needs: str | None = None
    refusal: str | None = None
    refuses: tuple[Code, ...] = ()
    status: int = 200
    message: str = "OK"
    idempotent: bool = False
    names_field: bool = False
    also: Mapping[str, Callable[..., Response]] = field(default_factory=dict)
    max_body_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, kw_only=True)
class EndpointSpec(EndpointOptions):
    """The declaration of a route, and what the annotations of its view say.

    `body` and `parameters` are its schemas, ready to load; `body` is None for a route that takes none.
    `make_message` makes the view's message from the parts of a request; None for a view that takes the context alone.
    `reply_type` is the type of the data in a reply, None without data; `write` turns that data into JSON values.
    """

    view: Callable[..., Any]
    authenticate: Authenticator
    summary: str
    body: Body | None
    parameters: Query
    make_message: Callable[..., Any] | None
    reply_type: Any
    write: Callable[[Any], Any]


_Reply = Callable[[EndpointSpec, CurrentRequest, tuple[Any, ...]], Response]


class ApiBlueprint(Blueprint):
    """A blueprint whose routes share one kind of authentication. In the API document it is a group of operations.

    `title` is the name of the group for people, `about` says in a sentence what it is for.
    """

    def __init__(
        self,
        name: str,
        authenticate: Authenticator,
        title: str,
        about: str,
        **options: Any,
    ) -> None:
        super().__init__(name, __name__, **options)
        self._authenticate, self.title, self.about = authenticate, title, about

    @with_options(EndpointOptions)
    def call(self, method: str, path: str, options: EndpointOptions) -> Callable[[_View], _View]:
        """Register a view for `method` and `path`; the arguments after these are the fields of `EndpointOptions`.

        The view receives one message and the request context, or only the context. If its first parameter is annotated
        with a dataclass, the message is made of the variables of the path, the checked query and the checked body.
        Otherwise the message is the one of these values that has the parameter's name. The return annotation is the
        type of the reply's data (`wire.py`), or an `EndpointReply` of it.
        """

        def register(view: _View) -> _View:
            reply_type = _reply_type(view)
            route = EndpointSpec(
                **vars(options),
                view=view,
                authenticate=self._authenticate,
                summary=(view.__doc__ or "").strip().partition("\n")[0],
                body=options.takes() if options.takes else None,
                parameters=options.query(),
                make_message=_message_maker(view),
                reply_type=reply_type,
                write=writer(reply_type),
            )

            reply: _Reply = _reply_as_preferred if route.also else _reply_in_json

            def serve(**variables: str) -> Response:
                current = current_request()
                current.route = route
                return reply(route, current, _checked_arguments(route, current, variables))

            serve.route = route  # type: ignore[attr-defined]
            serve.max_body_bytes = route.max_body_bytes  # type: ignore[attr-defined]
            self.add_url_rule(path, route.name or view.__name__, serve, methods=[method])
            return view

        return register


def replies_in(*media_types: str, takes: str | None = None) -> Callable[[_View], _View]:
    """State the media types of a view outside of the JSON API, which authenticates its client itself.

    `takes` is the one of its usual request body.
    """

    def state(view: _View) -> _View:
        view.replies_in, view.takes = media_types, takes  # type: ignore[attr-defined]
        return view

    return state


def authenticate_api_key(current: CurrentRequest) -> Caller:
    """Authenticate a client by `x-api-key` and `x-api-secret`."""
    environ = current.request.environ
    admission = current.services.auth.authenticate_key(
        environ.get("HTTP_X_API_KEY"), environ.get("HTTP_X_API_SECRET"), current.address
    )
    current.client_id, current.key_id = admission.caller.client_id, admission.caller.key_id
    _apply_rate_limit(current, admission.decision, DATA_CALL_REFUSED)
    return admission.caller


def authenticate_access_token(current: CurrentRequest) -> Caller:
    """Authenticate a user by `Authorization: Bearer <JWT>`."""
    scheme, _, token = current.request.headers.get("Authorization", "").partition(" ")
    caller = current.services.auth.authenticate_token(token if scheme.lower() == "bearer" else "")
    decision = current.services.limiter.hit("access-token", caller.login_id or "")
    _apply_rate_limit(current, decision, "Rate limit exceeded")
    return caller


def allow_anyone(_: CurrentRequest) -> Caller:
    """Accept a request without credentials."""
    return _NOBODY


def created(
    data: _Data, path: str, *, replayed: bool = False, message: str | None = None, again: str | None = None
) -> EndpointReply[_Data]:
    """Return the reply to a creation, which names the object's path.

    `message` replaces that of the endpoint, and `again` is the message of a repeat.
    """
    if replayed:
        return EndpointReply(data, 200, again, {"Idempotent-Replayed": "true"})
    return EndpointReply(data, message=message, headers={"Location": path})


def csv_file(name: str, parts: Iterator[bytes], headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a CSV file, which is sent while it is made."""
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(parts, headers={**disposition, **(headers or {})}, content_type="text/csv; charset=utf-8")


class CompleteResponse(Response):
    """A response that is complete when it is made. `last_headers` are those of every response, sent after its own."""

    last_headers: Sequence[tuple[str, str]] = ()

    def get_wsgi_response(self, environ: Any) -> tuple[Any, str, list[tuple[str, str]]]:
        """Return body, status and headers as they are; werkzeug looks for headers to correct, which takes 12 us."""
        body = () if environ["REQUEST_METHOD"] == "HEAD" else self.response
        return body, self.status, [*self.headers, *self.last_headers]


def json_response(status: int, envelope: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return CompleteResponse(orjson.dumps(envelope), _STATUS_LINES[status], headers, content_type="application/json")


@cache
def template_of(rule: str) -> str:
    """The path of a rule with its variables in braces, as the API document writes it."""
    return re.sub(r"<(?:[^:>]+:)?([^>]+)>", r"{\1}", rule)


def refusal(current: CurrentRequest, error: ServiceError) -> Response:
    """Return the response to a refused request, in the envelope of its path."""
    status = error.code.http_status
    if current.is_management:
        return json_response(status, management_envelope(status, error.message, None))
    return json_response(status, error_envelope(error.code.error, error.message, current.services.clock.rough()))


def _message_maker(view: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function that makes a view's message from the parts of a request; None for a view without one."""
    name, kind = next(iter(get_type_hints(view).items()))
    if kind is RequestContext:
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        return kind
    return lambda **parts: parts.get(name)


def _reply_type(view: Callable[..., Any]) -> Any:
    """Return the type of the data in a view's reply, None for a view that returns no data."""
    hint = get_type_hints(view, include_extras=True).get("return")
    if get_origin(hint) is EndpointReply:
        (hint,) = get_args(hint)
    return None if hint is NoneType else hint


def _checked_arguments(route: EndpointSpec, current: CurrentRequest, variables: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the arguments of the view: its message, if it takes one, and the context. Raises ServiceError."""
    caller = route.authenticate(current)
    current.client_id, current.user_id = caller.client_id, caller.user_id
    context = RequestContext(caller, current.request_id, current.address)
    current.scope = route.needs
    if route.needs and not (route.or_needs and context.may(route.or_needs)):
        context.require(route.needs, route.refusal or (NOT_PERMITTED if current.is_management else None))
    message = _message(route, current, variables)
    return (context,) if route.make_message is None else (message, context)


def _reply_as_preferred(route: EndpointSpec, current: CurrentRequest, arguments: tuple[Any, ...]) -> Response:
    preferred = current.request.accept_mimetypes.best_match(("application/json", *route.also))
    send = route.also.get(preferred or "")
    current.message = route.message
    return send(*arguments) if send else _reply_in_json(route, current, arguments)


def _reply_in_json(route: EndpointSpec, current: CurrentRequest, arguments: tuple[Any, ...]) -> Response:
    reply = route.view(*arguments)
    status, message, headers = route.status, route.message, None
    if isinstance(reply, EndpointReply):
        status, message, headers = reply.status or status, reply.message or message, reply.headers
        reply = reply.data
    current.message = message
    data = None if reply is None else route.write(reply)
    if current.is_management:
        return json_response(status, management_envelope(status, message, data), headers)
    return json_response(status, success_envelope(message, data), headers)


def _message(route: EndpointSpec, current: CurrentRequest, variables: Mapping[str, str]) -> Any:
    """Build the request message, None for a route without one."""
    parts: dict[str, Any] = dict(variables)
    part = "query parameters"
    try:
        parts |= load_query(route.parameters, current.request)
        part = "request body"
        if route.body is not None:
            parts |= _body_parts(route.body, current.request)
    except ServiceError as error:
        # Management paths have one message for every fault of a body or a query (wire contract 2). With `names_field`
        # it also names the field.
        if current.is_management and error.code.http_status == 400:
            detail = f": {error.message}" if route.names_field and isinstance(error, FieldError) else ""
            raise ServiceError(Code.INVALID_REQUEST, f"Invalid {part}{detail}") from None
        raise
    if route.idempotent:
        parts["idempotency_key"] = read_idempotency_key(current.request)
    return None if route.make_message is None else route.make_message(**parts)


def _body_parts(schema: Body, request: Request) -> dict[str, Any]:
    """Return the fields of a body; of a schema that takes YAML also the text of the body, of a file its bytes."""
    body = request.get_data()
    if request.mimetype in schema.takes_files:
        return {"file": body}
    # An empty body is an empty object elsewhere; here it would replace what is stored.
    if not body and request.method == "PUT":
        raise ServiceError(Code.INVALID_REQUEST, "The request body is empty")
    if not schema.takes_yaml:
        with _permit_for(body):
            return load(schema, parse_object(request, body, schema.most_values))
    text = read_yaml_text(request, body)
    if text is not None:
        return {"source": SourceText(text, is_yaml=True)}
    parts = load(schema, parse_object(request, body, schema.most_values))
    has_document = any(value is not None for value in parts.values())
    return {**parts, "source": SourceText(body.decode("utf-8"))} if has_document else parts


def _permit_for(body: bytes) -> AbstractContextManager[None]:
    """Hold one of the few permits for large bodies during the block. SERVICE_UNAVAILABLE if the client gets none."""
    if len(body) <= MAX_BODY_BYTES:
        return nullcontext()
    current = current_request()
    return current.services.large_bodies.reading(current.client_id or "")


def _apply_rate_limit(current: CurrentRequest, decision: RateLimitDecision, sentence: str) -> None:
    current.headers |= rate_limit_headers(decision)
    if not decision.accepted:
        raise ServiceError(Code.RATE_LIMIT_EXCEEDED, sentence, retry_after_seconds=decision.retry_after_seconds)
