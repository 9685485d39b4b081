"""Requests as bytes, put together before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from benchmarks.generator import Call

_WRONG_SECRET = "ussdsk_" + "0" * 49


class Pair(NamedTuple):
    """What a client program shows at the door."""

    apikey: str
    secret: str


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """One request, with what every program and every proxy sends."""
    fields = {
        "Host": "127.0.0.1",
        "User-Agent": "bench",
        "Accept": "application/json",
        "Content-Type": "application/json",
        **headers,
    }
    if body or method != "GET":
        fields["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def by_key(pair: Pair, address_number: int = 0) -> dict[str, str]:
    """The headers of a client program; a proxy says which of many addresses it called from."""
    high, low = divmod(address_number, 250)
    return {"x-api-key": pair.apikey, "x-api-secret": pair.secret, "X-Forwarded-For": f"10.0.{high % 250}.{low + 1}"}


def with_wrong_secret(pair: Pair) -> Pair:
    """The same key with a secret that looks right."""
    return pair._replace(secret=_WRONG_SECRET)


def call_with(pairs: Sequence[Pair], path: str, mark: bytes = b'"Done"') -> list[Call]:
    """The same GET by every key in turn, each key from an address of its own."""
    return [Call(request("GET", path, by_key(pair, place)), mark) for place, pair in enumerate(pairs)]


def post_json(path: str, document: object, headers: Mapping[str, str], mark: bytes) -> Call:
    """A POST of a JSON document."""
    return Call(request("POST", path, headers, orjson.dumps(document)), mark)


def form_post(path: str, form: str, mark: bytes = b"") -> Call:
    """A form, as a phone company posts it."""
    return Call(
        request("POST", path, {"Content-Type": "application/x-www-form-urlencoded"}, form.encode("ascii")), mark
    )
