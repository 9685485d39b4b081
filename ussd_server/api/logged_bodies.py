"""The body of a refused request, as the request log keeps it.

It keeps the values of declared fields that are no secrets; all else is stars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

import orjson
from flask import Request
from marshmallow import fields

from schemas.fields import Amount, Body, Field, Flag, WebAddress, Whole
from ussd_server.api.requests import MAX_BODY_BYTES, has_body, parse_object
from ussd_server.parsing.secrets_in_text import STARS, shown_name, without_paths, without_secrets
from ussd_server.status import ServiceError

_NOTHING_KNOWN = "***"
_MOST_BYTES = 4096
_MOST_ENTRIES = 100
_LONGEST_TEXT = 4096
_LONGEST_AMOUNT = 20
_LARGEST_WHOLE = 2**53
# Scheme, host and port. Of another text it cannot be told where its host begins.
_WEB = re.compile(r"(https?://)(?:[^/?#]*@)?([\w.-]+|\[[0-9a-f:.]*\])(:\d{1,5}\b)?", re.ASCII | re.IGNORECASE)
# The JSON types of fields; texts are the most.
_TYPES: tuple[tuple[type[fields.Field[Any]], tuple[type, ...]], ...] = (
    (Flag, (bool,)),
    (Whole, (int,)),
    (Amount, (int, Decimal, str)),
)


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
    written = orjson.dumps(_logged(takes, document), default=str)[:_MOST_BYTES]
    return written.decode("utf-8", "ignore").replace("\x00", "")


def _logged(body: Body, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the log keeps of a document that was sent to an endpoint which takes `body`."""
    declared = {field.data_key or name: field for name, field in body.load_fields.items()}
    return {
        shown_name(name): _value(declared[name], value) if name in declared else STARS
        for name, value in _first(document.items())
    }


def _value(field: fields.Field[Any], value: Any) -> Any:
    if value is None:
        return None
    if getattr(field, "is_secret", False):
        return STARS
    if isinstance(value, dict):
        return _object(value) if isinstance(field, Field) else STARS
    if isinstance(value, list):
        return [
            _value(field.inner, each) if isinstance(field, fields.List) else _element(each) for each in _first(value)
        ]
    types = next((types for kind, types in _TYPES if isinstance(field, kind)), (str,))
    is_amount = isinstance(field, Amount)
    if type(value) not in types or (is_amount and len(str(value)) > _LONGEST_AMOUNT):
        return STARS
    if isinstance(field, WebAddress):
        address = _WEB.match(value)
        return without_secrets("".join(filter(None, address.groups()))) if address else STARS
    return value if isinstance(value, bool) else _shown(value)


def _shown(value: str | int | Decimal) -> str | int:
    # orjson writes no longer integers, and no field takes them.
    if isinstance(value, int) and not -_LARGEST_WHOLE <= value <= _LARGEST_WHOLE:
        return STARS
    text = str(value)[:_LONGEST_TEXT]
    redacted = without_paths(without_secrets(text))
    return value if isinstance(value, int) and redacted == text else redacted


def _element(value: Any) -> Any:
    return _object(value) if isinstance(value, dict) else STARS


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of an object whose values the schema does not declare."""
    return {shown_name(name): STARS for name in _first(value)}


def _first(entries: Iterable[Any]) -> Iterable[Any]:
    return islice(entries, _MOST_ENTRIES)
