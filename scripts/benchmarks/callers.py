"""Callers on connections that stay open, each waiting for its answer before it sends again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from typing import NamedTuple

_PATIENCE_SECONDS = 20


class Post(NamedTuple):
    """A request and how the body of its answer must begin."""

    request: bytes
    answer: bytes


Visit = Callable[[], Iterable[Post]]
"""What a caller sends over and over: one conversation, or one call."""


def form_post(path: str, form: str, answer: bytes = b"") -> Post:
    """A form, as a phone company posts it."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(form)}\r\n\r\n"
    )
    return Post(f"{head}{form}".encode("ascii"), answer)


def call_for(seconds: float, port: int, visits: list[Visit]) -> float:
    """Let one caller for each visit repeat it for `seconds`; gives the answers a second of all together."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(visits)) as pool:
        counts = list(pool.map(lambda visit: _call(port, visit, began + seconds), visits))
    return sum(counts) / (time.perf_counter() - began)


def _call(port: int, visit: Visit, ends_at: float) -> int:
    count = 0
    with socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for post in chain.from_iterable(made() for made in repeat(visit)):
            connection.sendall(post.request)
            head, body = _read_answer(connection)
            if not head.startswith(b"HTTP/1.1 200") or not body.startswith(post.answer):
                raise RuntimeError(f"an unexpected answer: {head[:30]!r} {body[:60]!r}")
            count += 1
            if time.perf_counter() > ends_at:
                break
    return count


def _read_answer(connection: socket.socket) -> tuple[bytes, bytes]:
    received = connection.recv(65_536)
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += _more(connection)
    return head, body


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(65_536)
    if not received:
        raise RuntimeError("the connection was closed")
    return received
