"""The body of a refused request, as the request log keeps it."""

from __future__ import annotations

import orjson
from flask import Request

from schemas.fields import Body
from schemas.logged import logged
from ussd_server.api.requests import MAX_BODY_BYTES, has_body, parse_object
from ussd_server.status import ServiceError

_NOTHING_KNOWN = "***"
_MOST_BYTES = 4096


def logged_body(request: Request, takes: Body | None) -> str | None:
    """Return the first 4 KiB of a body, with stars for all that `takes` does not declare; None without a body.

    Three stars for what is no JSON object, larger than 64 KiB, or sent to an endpoint without a body.
    """
    if not has_body(request):
        return None
    body = request.get_data()
    if takes is None or not body or len(body) > MAX_BODY_BYTES:
        return _NOTHING_KNOWN
    try:
        # Read again: the call may have been refused before its body was read.
        document = parse_object(request, body, takes.most_values)
    except ServiceError:
        return _NOTHING_KNOWN
    written = orjson.dumps(logged(takes, document), default=str)[:_MOST_BYTES]
    return written.decode("utf-8", "ignore").replace("\x00", "")
