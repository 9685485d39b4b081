"""Replies of the worker itself: the API's JSON envelope for what is not HTTP; no access log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from gunicorn import glogging
from gunicorn.http.errors import (
    ConfigurationProblem,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)

from schemas.envelopes import error_envelope
from ussd_server.context import new_request_id
from ussd_server.logs import Logger
from ussd_server.status import Code

_OURS = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
_REASONS = {400: "Bad Request", 413: "Content Too Large", 500: "Internal Server Error"}

log = Logger(__name__)


class WebLog(glogging.Logger):  # type: ignore[misc]
    """gunicorn's log without the line for each request, which it would build even when unused.

    The application logs its requests itself, without what must not be in a log.
    """

    access_log_enabled = False


class JsonRefusals:
    """Mix-in for a gunicorn worker: its own refusals are JSON, and its log repeats nothing that a caller sent."""

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that could not be read (400 or 413) or that the application failed to answer (500)."""
        request_id = new_request_id()
        code, message = _refusal(exc)
        if code is Code.INTERNAL_ERROR:
            log.error("a request failed outside the application", request_id=request_id, error=type(exc).__name__)
        else:
            log.info("a request could not be read", request_id=request_id, error=type(exc).__name__)
        try:
            client.sendall(_reply(code, message, request_id))
        except OSError:
            log.info("a request was given up by its caller", request_id=request_id)


def _refusal(error: BaseException) -> tuple[Code, str]:
    if isinstance(error, LimitRequestLine | LimitRequestHeaders):
        return Code.REQUEST_TOO_LARGE, "The request line or the headers are too large"
    if isinstance(error, ParseException) and not isinstance(error, _OURS):
        return Code.INVALID_REQUEST, "The request is not valid HTTP"
    return Code.INTERNAL_ERROR, "Internal error"


def _reply(code: Code, message: str, request_id: str) -> bytes:
    body = orjson.dumps(error_envelope(code.error, message, datetime.now(UTC)))
    head = (
        f"HTTP/1.1 {code.http_status} {_REASONS[code.http_status]}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"X-Request-Id: {request_id}\r\n\r\n"
    )
    return head.encode("ascii") + body
