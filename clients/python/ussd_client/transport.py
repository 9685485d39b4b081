"""Sends requests, repeats those that are safe to repeat, and reads replies with exact amounts."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from email.message import Message
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from ussd_client.errors import ApiError, RateLimitError, UnavailableError, UnreachableError, error_of
from ussd_client.models import MONEY

_LONGEST_REPLY = 16 * 1024 * 1024
_CHUNK = 64 * 1024
_LONGEST_PAUSE_SECONDS = 20.0
_USER_AGENT = "ussd-client-python/1.0.0"


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would carry the secret to another host; it is an error instead."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Transport:
    """Calls of the API with one key. Threads may share it."""

    def __init__(
        self, base_url: str, apikey: str, apisecret: str, *, timeout: float = 40.0, patience: float = 60.0
    ) -> None:
        """Use a key at an address such as `https://api.example.com`.

        `timeout` is the longest silence of the service in seconds; above 25, because `wait` holds a reply that long.
        A call is repeated for at most `patience` seconds; 0 repeats nothing. ValueError if the address is no URL.
        """
        if urlsplit(base_url).scheme not in ("http", "https"):
            raise ValueError("base_url begins with https:// or http://")
        self._base_url = base_url.rstrip("/")
        self._headers = {"x-api-key": apikey, "x-api-secret": apisecret, "User-Agent": _USER_AGENT}
        self._timeout, self._patience = timeout, patience
        self._opener: OpenerDirector = build_opener(_NoRedirects)

    def _call(
        self,
        method: str,
        path: str,
        *segments: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """Return the `data` of a JSON reply. Each `{}` of the path is replaced by a segment."""
        return self._open(method, path, segments, query or {}, body, content_type, "application/json", _data)

    def _stream(self, path: str, *segments: str, query: Mapping[str, Any], accept: str) -> Iterator[bytes]:
        """Yield the parts of a reply that is no JSON, such as a CSV file."""
        with self._open("GET", path, segments, query, None, "application/json", accept, lambda reply: reply) as reply:
            try:
                while chunk := reply.read(_CHUNK):
                    yield chunk
            except (OSError, HTTPException) as error:
                raise UnreachableError(f"The reply broke: {type(error).__name__}") from error

    def _pages(self, page: Callable[[str | None], Any]) -> Iterator[Any]:
        """Yield the items of all pages; `page` returns the page at a cursor."""
        cursor = None
        while True:
            one = page(cursor)
            yield from one["items"]
            cursor = one["next_cursor"]
            if cursor is None:
                return

    def _open(
        self,
        method: str,
        path: str,
        segments: tuple[str, ...],
        query: Mapping[str, Any],
        body: Any,
        content_type: str,
        accept: str,
        finish: Callable[[IO[bytes]], Any],
    ) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        url = self._base_url + path.format(*map(_segment, segments)) + (f"?{urlencode(given)}" if given else "")
        headers = {**self._headers, "Content-Type": content_type, "Accept": accept}
        request = Request(url, _encoded(body), headers, method=method)  # noqa: S310 - checked in __init__
        is_repeatable = method in ("GET", "PUT") or _is_named(body) or "reference" in given
        until = time.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                return finish(self._send(request))
            except (ApiError, UnreachableError) as error:
                pause = _pause(error, attempt, is_repeatable)
                if pause is None or time.monotonic() + pause >= until:
                    raise
            time.sleep(pause)
            attempt += 1

    def _send(self, request: Request) -> IO[bytes]:
        try:
            reply: IO[bytes] = self._opener.open(request, timeout=self._timeout)
        except HTTPError as error:
            with error:
                raise _refusal(error.code, error.headers, error) from None
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"No reply: {type(error).__name__}") from error
        return reply


def _segment(value: str) -> str:
    if value in ("", ".", ".."):
        raise ValueError(f"{value!r} is no id")
    return quote(value, safe="")


def _is_named(body: Any) -> bool:
    """Whether the service recognises a repeat: by the client's reference, or by the turn of a session."""
    return isinstance(body, Mapping) and ("reference" in body or "turn" in body)


def _pause(error: ApiError | UnreachableError, attempt: int, is_repeatable: bool) -> float | None:
    """Return the seconds before the next attempt; None if there is none."""
    backoff = random.uniform(0.5, 1.0) * min(2.0**attempt, _LONGEST_PAUSE_SECONDS)  # noqa: S311 - no secret
    if isinstance(error, ApiError):
        # A limited call did nothing, so it may be repeated whatever it is.
        if not isinstance(error, RateLimitError) and not (is_repeatable and isinstance(error, UnavailableError)):
            return None
        return max(backoff, float(error.retry_after or 0))
    return backoff if is_repeatable else None


def _encoded(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(_exact(body), ensure_ascii=False, allow_nan=False).encode()


def _exact(value: Any, field: str = "") -> Any:
    """Return a JSON value with decimal amounts as text, which the API takes. TypeError for an amount in floats."""
    if isinstance(value, Decimal):
        return f"{value:f}" if field in MONEY else float(value)
    if isinstance(value, float) and field in MONEY:
        raise TypeError(f"{field} is a float: use int, Decimal or text")
    if isinstance(value, Mapping):
        return {name: _exact(each, name) for name, each in value.items()}
    return [_exact(each) for each in value] if isinstance(value, list | tuple) else value


def parse_json(text: bytes) -> Any:
    """Parse JSON; numbers are int, or Decimal if they have decimals. ValueError if it is no JSON."""
    try:
        return json.loads(text, parse_float=Decimal)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def _data(reply: IO[bytes]) -> Any:
    try:
        with reply:
            text = reply.read(_LONGEST_REPLY + 1)
        read = parse_json(text) if len(text) <= _LONGEST_REPLY else None
    except (OSError, HTTPException, ValueError) as error:
        raise UnreachableError(f"The reply broke: {type(error).__name__}") from error
    if not isinstance(read, dict) or "data" not in read:
        raise UnreachableError("The reply is not of this API")
    return read["data"]


def _refusal(status: int, headers: Message, reply: IO[bytes]) -> ApiError:
    try:
        read = parse_json(reply.read(_CHUNK))
    except (OSError, HTTPException, ValueError):
        read = None
    said = read if isinstance(read, dict) else {}
    after = headers.get("Retry-After", "")
    return error_of(
        status,
        str(said.get("error", "UNKNOWN")),
        str(said.get("message", "The reply is not of this API")),
        headers.get("X-Request-Id"),
        int(after) if after.isascii() and after.isdigit() and len(after) <= 9 else None,
    )
