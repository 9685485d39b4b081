"""Reading what strangers send: bounded in size, strict in form, and never deeper than it needs to be."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from flask import Request

from ussd_server.rpc.status import Code, ServiceError

MAX_BODY_BYTES = 64 * 1024
_MAX_DEPTH = 32
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def read_body(request: Request) -> bytes:
    """The whole body. REQUEST_TOO_LARGE (413) beyond 64 KiB, whether or not a length was announced.

    The stream is read here and not by Flask's own limit, which cuts a chunked body silently behind gunicorn.
    """
    if request.content_length is not None and request.content_length > MAX_BODY_BYTES:
        raise ServiceError(Code.REQUEST_TOO_LARGE, "The request body is larger than 64 KiB")
    try:
        body = request.stream.read(MAX_BODY_BYTES + 1)
    except Exception:
        # Each web server has errors of its own for a body that ends early or is cut into chunks wrongly.
        raise ServiceError(Code.INVALID_REQUEST, "The request body could not be read") from None
    if len(body) > MAX_BODY_BYTES:
        raise ServiceError(Code.REQUEST_TOO_LARGE, "The request body is larger than 64 KiB")
    return body


def parse_object(request: Request, body: bytes) -> dict[str, Any]:
    """The JSON object in a body; an empty body is an empty object.

    UNSUPPORTED_MEDIA_TYPE (415) for anything that does not call itself JSON in UTF-8; INVALID_REQUEST for malformed
    JSON, duplicate names, NaN, Infinity, more than 32 levels, lone surrogates, NUL, and anything but an object.
    Numbers with a point or an exponent come as Decimal.
    """
    if not body:
        return {}
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype != "application/json" or charset not in ("utf-8", "utf8"):
        raise ServiceError(Code.UNSUPPORTED_MEDIA_TYPE, "The request body must be application/json in UTF-8")
    if body.count(b"[") + body.count(b"{") > _MAX_DEPTH and _depth(body) > _MAX_DEPTH:
        raise ServiceError(Code.INVALID_REQUEST, f"The request body is nested deeper than {_MAX_DEPTH} levels")
    try:
        document = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=Decimal,
        )
        # Text that cannot be written as UTF-8 (half a surrogate pair) cannot be stored either.
        written = json.dumps(document, ensure_ascii=False, default=str)
        written.encode("utf-8")
    except (ValueError, RecursionError):
        raise ServiceError(Code.INVALID_REQUEST, "The request body is not valid JSON") from None
    if not isinstance(document, dict):
        raise ServiceError(Code.INVALID_REQUEST, "The request body must be a JSON object")
    if _ESCAPED_NUL.search(written):
        raise ServiceError(Code.INVALID_REQUEST, "The request body contains a NUL character")
    return document


def _depth(body: bytes) -> int:
    """How deep brackets nest outside strings, counted without building anything."""
    deepest = depth = 0
    for byte in _STRINGS.sub(b"", body):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice")
    return document


def _refuse_constant(_: str) -> Any:
    raise ValueError("not a JSON number")
