"""An exchange: one call from its arrival to its answer, and what is to be said of it on the way out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Response
from werkzeug.wrappers import Request

from schemas.envelopes import is_management
from ussd_server.context import request_id_from
from ussd_server.logs import now_about
from ussd_server.metrics import end_request

if TYPE_CHECKING:
    from ussd_server.bootstrap import Services

Headers = Iterable[tuple[str, str]]

_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
# Whatever is answered, secrets included, is kept by no cache and taken by no browser for another type.
_ON_EVERY_ANSWER = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
_present: ContextVar[ApiRequest] = ContextVar("exchange")


class ApiResponse(NamedTuple):
    """What a call is answered with."""

    status: int
    body: bytes
    headers: Headers = ()
    content_type: str = "application/json"

    @property
    def status_line(self) -> str:
        """The status as WSGI wants it."""
        return _STATUS_LINES[self.status]

    def as_response(self) -> Response:
        """The same for Flask."""
        response = Response(self.body, self.status, content_type=self.content_type)
        response.headers.extend(self.headers)
        return response


class ApiRequest:
    """One call. Doors and refusals leave here what its answer and its log line need."""

    __slots__ = (
        "_began",
        "_request",
        "client_id",
        "code",
        "environ",
        "headers",
        "is_management",
        "request_id",
        "services",
    )  # fmt: skip

    def __init__(self, services: Services, environ: dict[str, Any]) -> None:
        """Begin the exchange of the next call of this thread."""
        self._began = time.perf_counter()
        self.services = services
        self.environ = environ
        self._request: Request | None = None
        # Whether the call is one of the key-management endpoints.
        self.is_management = is_management(environ["PATH_INFO"])
        self.request_id = request_id_from(environ.get("HTTP_X_REQUEST_ID"))
        self.headers: dict[str, str] = {}
        self.client_id: str | None = None
        self.code = "OK"
        now_about(request_id=self.request_id)
        _present.set(self)

    @property
    def address(self) -> str:
        """Where the call comes from, empty when nobody knows."""
        return self.environ.get("REMOTE_ADDR") or ""

    @property
    def has_body(self) -> bool:
        """Whether something comes with the call."""
        announced = self.environ.get("CONTENT_LENGTH", "")
        return announced not in ("", "0") or "HTTP_TRANSFER_ENCODING" in self.environ

    @property
    def request(self) -> Request:
        """The call as werkzeug reads it; half of the calls need no such reading."""
        if self._request is None:
            self._request = Request(self.environ)
        return self._request

    def end(self, endpoint: str, status: int) -> Headers:
        """Log and count the call; gives the headers that every answer carries. `endpoint` is the route's name."""
        end_request(
            endpoint=endpoint, status=status, code=self.code, client_id=self.client_id,
            request_id=self.request_id, took_ms=(time.perf_counter() - self._began) * 1000,
        )  # fmt: skip
        return [*_ON_EVERY_ANSWER, ("X-Request-Id", self.request_id), *self.headers.items()]


def takes_api_request(answer: Callable[..., ApiResponse]) -> Callable[..., Response]:
    """A view for Flask out of what answers an exchange; the application finds that again when Flask is not needed."""

    @wraps(answer)
    def view(**variables: str) -> Response:
        return answer(current_api_request(), **variables).as_response()

    view.on_exchange = answer  # type: ignore[attr-defined]
    return view


def current_api_request() -> ApiRequest:
    """The exchange of the call that is answered here."""
    return _present.get()


def services() -> Services:
    """The services of the application that answers."""
    return current_api_request().services
