"""The current call: what its response and its log line need, beside Flask's own `request`; and responses in JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
from flask import Request, Response, current_app, g, request
from werkzeug.datastructures import Headers

from ussd_server import spans
from ussd_server.context import request_id_from
from ussd_server.logs import now_about

if TYPE_CHECKING:
    from ussd_server.api.endpoints import EndpointSpec
    from ussd_server.bootstrap import Services

EXTENSION = "ussd_server"
"""The name under which the application keeps its services in `app.extensions`."""

MANAGEMENT_PREFIX = "/api/clients/"
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


@dataclass(slots=True)
class CurrentRequest:
    """One call: its request, and what its response and its log line need. Authentication and refusals add to it.

    `is_management`: the path is one of the key-management endpoints. `began` is a reading of the monotonic clock;
    `span` is None while no spans are exported, `route` until the view of an API endpoint begins.
    """

    request: Request
    services: Services
    request_id: str
    is_management: bool
    began: float = field(default_factory=time.perf_counter)
    span: Any = None
    route: EndpointSpec | None = None
    client_id: str | None = None
    key_id: str | None = None
    code: str = "OK"
    message: str = "OK"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the caller, empty when unknown."""
        return self.request.remote_addr or ""


def begin_request() -> CurrentRequest:
    """Make the call of the current request, and put its request id on every log line from now on."""
    # The call holds the request itself, because each use of Flask's proxy costs a microsecond.
    given: Request = request._get_current_object()  # type: ignore[attr-defined]
    # werkzeug's view of the headers takes ten times as long, and longer for one that is missing.
    environ = given.environ
    request_id = request_id_from(environ.get("HTTP_X_REQUEST_ID"))
    now_about(request_id=request_id, traceparent=environ.get("HTTP_TRACEPARENT"))
    current = g.current_request = CurrentRequest(given, services(), request_id, is_management(environ["PATH_INFO"]))
    # Probes and measurements come all the time and belong to nothing.
    if spans.tracer is not None and given.blueprint != "ops":
        current.span = spans.begin_call(given.endpoint or "unknown")
    return current


def current_request() -> CurrentRequest:
    """Return the call of the current request."""
    current: CurrentRequest = g.current_request
    return current


def services() -> Services:
    """Return the services of the current application."""
    found: Services = current_app.extensions[EXTENSION]
    return found


class _JsonResponse(Response):
    """A response that is complete when it is made."""

    def get_wsgi_headers(self, environ: Any) -> Headers:
        """Return the headers themselves: werkzeug would copy each one, and look for some to correct."""
        return self.headers


def json_response(status: int, envelope: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with an envelope."""
    return _JsonResponse(orjson.dumps(envelope), _STATUS_LINES[status], headers, content_type="application/json")


def is_management(path: str) -> bool:
    """Return whether a path answers with the key-management envelope."""
    return path.startswith(MANAGEMENT_PREFIX)
