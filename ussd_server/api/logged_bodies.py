"""The body of a refused request as it may be kept: JSON whose secrets are stars."""

from __future__ import annotations

from typing import Any

import orjson

_STARS = "********"
# Entries of phones may be PINs. The names of secrets in the bodies of all endpoints, with those that callers misplace.
_SECRET_NAMES = frozenset({
    "apikey", "apisecret", "api_secret", "authorization", "code", "entry", "password", "pin", "refresh_token", "secret",
    "text", "token", "x-api-secret",
})  # fmt: skip
_SECRET_ENDINGS = ("_pin", "_secret", "_token", "password")
_LARGEST_BYTES = 64 * 1024
_MOST_BYTES = 4096
_DEEPEST = 20


def loggable_body(body: bytes) -> str | None:
    """The first 4 KiB of a JSON object with its secrets as stars; None for anything else, which may hold any secret."""
    if not body or len(body) > _LARGEST_BYTES:
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    written = orjson.dumps(_masked(document, 0))[:_MOST_BYTES]
    return written.decode("utf-8", "ignore").replace("\x00", "")


def _masked(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return _STARS
    if isinstance(value, dict):
        return {name: _STARS if _is_secret(name) else _masked(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, depth + 1) for each in value]
    return value


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return lowered in _SECRET_NAMES or lowered.endswith(_SECRET_ENDINGS)
