"""One API request and its response."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from werkzeug.wrappers import Request

from schemas.envelopes import is_management
from ussd_server.context import request_id_from
from ussd_server.logs import now_about
from ussd_server.metrics import end_request

if TYPE_CHECKING:
    from ussd_server.bootstrap import Services

Headers = Iterable[tuple[str, str]]

_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
# Responses may hold secrets: no cache stores them and no browser guesses their type.
_ON_EVERY_RESPONSE = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
_current: ContextVar[ApiRequest] = ContextVar("api_request")


class ApiResponse(NamedTuple):
    """The response to a request. A body that comes in parts is sent as it is made, and closed at the end."""

    status: int
    body: bytes | Iterator[bytes]
    headers: Headers = ()
    content_type: str = "application/json"

    @property
    def status_line(self) -> str:
        """The status line for WSGI, such as `200 OK`."""
        return _STATUS_LINES[self.status]


class ApiRequest:
    """One request. Authentication and refusals set what its response and its log line need."""

    __slots__ = (
        "_began",
        "_request",
        "client_id",
        "code",
        "environ",
        "headers",
        "is_management",
        "key_id",
        "request_id",
        "services",
    )  # fmt: skip

    def __init__(self, services: Services, environ: dict[str, Any]) -> None:
        """Make this the current request of this thread."""
        self._began = time.perf_counter()
        self.services = services
        self.environ = environ
        self._request: Request | None = None
        # Whether the path is one of the key-management endpoints.
        self.is_management = is_management(environ["PATH_INFO"])
        self.request_id = request_id_from(environ.get("HTTP_X_REQUEST_ID"))
        self.headers: dict[str, str] = {}
        self.client_id: str | None = None
        self.key_id: str | None = None
        self.code = "OK"
        now_about(request_id=self.request_id)
        _current.set(self)

    @property
    def address(self) -> str:
        """The address of the client, empty when unknown."""
        return self.environ.get("REMOTE_ADDR") or ""

    @property
    def has_body(self) -> bool:
        """Whether the request has a body."""
        length = self.environ.get("CONTENT_LENGTH", "")
        return length not in ("", "0") or "HTTP_TRANSFER_ENCODING" in self.environ

    @property
    def request(self) -> Request:
        """The request for werkzeug, built when first needed: half of the requests do without."""
        if self._request is None:
            # Kept out of the environment: two objects that hold each other live until the garbage collector runs.
            self._request = Request(self.environ, populate_request=False)
        return self._request

    def end(self, endpoint: str, status: int) -> Headers:
        """Log and count the request. Returns the headers of every response. `endpoint` is the name of the route."""
        end_request(
            endpoint=endpoint, status=status, code=self.code, client_id=self.client_id, key_id=self.key_id,
            request_id=self.request_id, took_ms=(time.perf_counter() - self._began) * 1000,
        )  # fmt: skip
        return [*_ON_EVERY_RESPONSE, ("X-Request-Id", self.request_id), *self.headers.items()]


def takes_api_request(view: Callable[..., ApiResponse]) -> Callable[..., Any]:
    """Mark a view that the application calls with an `ApiRequest` and that returns an `ApiResponse`."""
    view.takes_api_request = True  # type: ignore[attr-defined]
    return view


def services() -> Services:
    """The services of the application that handles the current request."""
    return _current.get().services


def current_request() -> ApiRequest:
    """The request that this thread handles."""
    return _current.get()
