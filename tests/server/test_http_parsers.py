"""gunicorn's two parsers read each request alike: its own in Python, and the faster one in C (the extra `fast`)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import get_parser
from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine, NoMoreData, ParseException

pytestmark = pytest.mark.needs_fast_parser

MUTANTS = 50_000
_TWO_SPACES = b"  "
# What the parsers read differently, all without harm: the one in C takes several spaces for one, and refuses versions
# that do not exist and lengths of more than 64 bits.
_KNOWN = re.compile(rb"  |HTTP/1\.[2-9]|\d{19}")
_PEER = ("192.0.2.1", 40_000)
_REQUESTS = (
    b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /api/transactions?reference=a%20b&limit=5 HTTP/1.1\r\nHost: x\r\nx-api-key: key\r\nx-api-secret: s\r\n\r\n",
    b"POST /api/transactions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    b'{"a": 10}GET / HTTP/1.1\r\nHost: y\r\n\r\n',
    b"POST /ussd/x/y HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: z\r\n\r\n",
    b"DELETE /api/clients/api-keys/x HTTP/1.0\r\nConnection: keep-alive\r\nX-Forwarded-For: 192.0.2.7, ::1\r\n\r\n",
    b"\r\nPUT /callbacks/mtn/secret HTTP/1.1\r\nHost:x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
)
# What a mutation inserts: delimiters, the names and values that decide how a body is read, and odd bytes.
_PARTS = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x7f", b"\x80", b"\xff", b"%00", b"//", b"?", b"#", b"@", b"_",
    b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Host: z\r\n",
    b"Content_Length: 3\r\n", b"Connection: close\r\n", b" folded\r\n", b"HTTP/1.1", b"HTTP/2.0", b"http/1.1", b"+1",
    b"0x1", b"-1", b"99999999999999999999", b"chunked, chunked", b"A" * 300, b"X: y\r\n" * 70,
)  # fmt: skip


def mutants(number: int, seed: int = 1) -> Iterator[bytes]:
    """Requests with one to four changes each: a part is inserted, removed, doubled or replaced."""
    chance = random.Random(seed)
    for _ in range(number):
        text = chance.choice(_REQUESTS)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text) + 1)
            until = min(len(text), at + chance.choice((0, 0, 1, 1, 2, 5, 20)))
            new = chance.choice((chance.choice(_PARTS), bytes([chance.randrange(256)]), text[at:until] * 2, b""))
            text = text[:at] + new + text[until:]
        yield text


@cache
def settings_with(parser: str) -> Config:
    """gunicorn's settings, as `gunicorn_settings.py` has them, with a parser."""
    settings = Config()
    settings.set("http_parser", parser)
    settings.set("limit_request_fields", 64)
    settings.set("forwarder_headers", "")
    settings.set("secure_scheme_headers", {})
    return settings


def requests_read(parser: str, text: bytes) -> list[Any]:
    """The requests that a parser reads from a connection, each with its body, until it refuses one or needs more."""
    found: list[Any] = []
    # The parsers may notice a mistake sooner or later, and may name it differently.
    with suppress(ParseException, NoMoreData, LimitRequestLine, LimitRequestHeaders):
        for request in get_parser(settings_with(parser), iter([text]), _PEER):
            found.append((request.method, request.uri, request.version, request.headers, request.should_close()))
            found.append(request.body.read())
    return found


def test_both_parsers_read_mutated_requests_alike(tries: Callable[[int], int]) -> None:
    different = [
        text for text in mutants(tries(MUTANTS)) if requests_read("python", text) != requests_read("fast", text)
    ]
    assert [text for text in different if not _KNOWN.search(text)] == []


def test_the_parser_in_c_reads_several_spaces_in_a_request_line_as_one() -> None:
    plain, spaced = (b"GET%s/health/live HTTP/1.1\r\nHost: x\r\n\r\n" % space for space in (b" ", _TWO_SPACES))
    assert requests_read("python", spaced) == []
    assert requests_read("fast", spaced) == requests_read("fast", plain) == requests_read("python", plain) != []


@pytest.mark.parametrize("request_bytes", _REQUESTS)
def test_both_parsers_read_the_original_requests(request_bytes: bytes) -> None:
    assert requests_read("fast", request_bytes) == requests_read("python", request_bytes) != []
