"""The doors: the checks a call passes before its method runs, one list for each kind of caller.

The order is the contract's: size, who you are, how often, what you may do, and only then what you ask for. Whose an
object is, is the service's business. A route states its door, its permission, what it takes and what it gives; the API
document is made from the same statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from flask import Blueprint, Response, current_app, g, jsonify, request
from marshmallow import Schema

from schemas.envelopes import Body, Query, error_envelope, is_management, management_envelope, success_envelope
from ussd_server.blueprints.bodies import load, load_query, parse_object, read_body, read_idempotency_key
from ussd_server.rpc.context import CallContext, Caller, CallerKind
from ussd_server.rpc.limiter import Verdict, rate_limit_headers
from ussd_server.rpc.status import Code, ServiceError

if TYPE_CHECKING:
    from ussd_server.house import Services

_View = TypeVar("_View", bound=Callable[..., Any])
_RATE_LIMITED = "Rate limit exceeded. Maximum 100 requests per minute (1000 per hour) allowed."


def services() -> Services:
    """The services of this application."""
    house: Services = current_app.extensions["ussd_server"]
    return house


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that differs from what its route states: another status or message, or headers beside."""

    data: Any
    status: int | None = None
    message: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """What a route states about itself."""

    door: Callable[[], Caller]
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


class Doorway(Blueprint):
    """A blueprint whose routes all enter by one door."""

    def __init__(self, name: str, door: Callable[[], Caller], **options: Any) -> None:
        super().__init__(name, __name__, **options)
        self._door = door

    def call(
        self,
        method: str,
        path: str,
        *,
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
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a view for `method` and `path`.

        The view receives one message, made by `makes` from the path's variables, the checked query and the checked
        body, and the call context; without `makes` only the context. What it returns is dumped by `gives`, or sent as
        it is.
        An `idempotent` route takes an `Idempotency-Key` header. `refuses` names the codes that the service method may
        end with, beside those that the door, the permission and the schemas give by themselves.
        """

        def register(view: Callable[..., Any]) -> Callable[..., Any]:
            route = Route(
                self._door,
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
            )

            def serve(**variables: str) -> Response:
                return _serve(route, view, variables)

            serve.route = route  # type: ignore[attr-defined]
            endpoint = view.__name__
            self.add_url_rule(path, endpoint, serve, methods=[method], provide_automatic_options=False)
            return view

        return register


def speaks(*media_types: str) -> Callable[[_View], _View]:
    """State what a view answers in that speaks another language than the API's JSON and checks its caller itself."""

    def state(view: _View) -> _View:
        view.speaks = media_types  # type: ignore[attr-defined]
        return view

    return state


def by_key() -> Caller:
    """The door of client programs: `x-api-key` and `x-api-secret`."""
    admission = services().auth.admit_key(
        request.headers.get("x-api-key"), request.headers.get("x-api-secret"), request.remote_addr or ""
    )
    _obey(admission.verdict, _RATE_LIMITED)
    return admission.caller


def by_token() -> Caller:
    """The door of people: `Authorization: Bearer <JWT>`."""
    scheme, _, token = (request.headers.get("Authorization") or "").partition(" ")
    caller = services().auth.identify_token(token if scheme.lower() == "bearer" else "")
    _obey(services().limiter.hit("access-token", caller.login_id or ""), "Rate limit exceeded")
    return caller


def by_anybody() -> Caller:
    """The door without a lock."""
    return Caller(CallerKind.NOBODY)


def refuse(error: ServiceError) -> Response:
    """A refusal in the envelope of the path that was asked for."""
    status = error.code.http_status
    if is_management(request.path):
        response = jsonify(management_envelope(status, error.message, None))
    else:
        response = jsonify(error_envelope(error.code.error, error.message, services().clock.now()))
    response.status_code = status
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    g.code = error.code.name
    return response


def _serve(route: Route, view: Callable[..., Any], variables: Mapping[str, str]) -> Response:
    body = read_body(request)
    caller = route.door()
    g.client_id = caller.client_id
    call = CallContext(caller, g.request_id, request.remote_addr or "")
    if route.needs:
        call.require(route.needs, route.refusal)
    wish = _message(route, body, variables)
    reply = view(call) if wish is None else view(wish, call)
    if not isinstance(reply, Reply):
        reply = Reply(reply)
    data = reply.data if route.gives is None or reply.data is None else route.gives.dump(reply.data)
    status, message = reply.status or route.status, reply.message or route.message
    wrapped = (
        management_envelope(status, message, data) if is_management(request.path) else success_envelope(message, data)
    )
    response = jsonify(wrapped)
    response.status_code = status
    response.headers.extend(reply.headers)
    g.code = "OK"
    return response


def _message(route: Route, body: bytes, variables: Mapping[str, str]) -> Any:
    """The message that a call stands for, None for a route that takes nothing."""
    parts: dict[str, Any] = dict(variables)
    with _one_sentence("Invalid query parameters"):
        parts |= load_query(route.query, request)
    if route.takes is not None:
        with _one_sentence("Invalid request body"):
            parts |= load(route.takes, parse_object(request, body))
    if route.idempotent:
        parts["idempotency_key"] = read_idempotency_key(request)
    return None if route.makes is None else route.makes(**parts)


@contextmanager
def _one_sentence(sentence: str) -> Iterator[None]:
    """Management paths have one sentence for everything that can be wrong with a body or a query (wire contract 2)."""
    try:
        yield
    except ServiceError as error:
        if is_management(request.path) and error.code.http_status == 400:
            raise ServiceError(Code.INVALID_REQUEST, sentence) from None
        raise


def _obey(verdict: Verdict, sentence: str) -> None:
    g.headers = rate_limit_headers(verdict)
    if not verdict.accepted:
        raise ServiceError(Code.RATE_LIMIT_EXCEEDED, sentence, retry_after_seconds=verdict.retry_after_seconds)
