"""Callers of nginx that send a byte at a time, for as long as a test wants them to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.real_service.edge import HOST, Edge

# What a sender sends at once: half of a head, or a head whose body comes byte by byte.
_STARTS = (
    ("/api/transactions", "X-Long: "),
    ("/api/transactions", "Content-Length: 60000\r\n\r\n"),
    ("/ussd/json/nobody", "Transfer-Encoding: chunked\r\n\r\nea60\r\n"),
    ("/api/payouts", "Content-Length: 1900000\r\n\r\n"),
)
_PAUSE_SECONDS = 0.02


@contextmanager
def slow_senders(edge: Edge, number: int) -> Iterator[None]:
    """Keep so many of them sending until the block ends."""
    is_over = threading.Event()
    senders = [_begin(edge, place) for place in range(number)]

    def send() -> None:
        while not is_over.wait(_PAUSE_SECONDS):
            for place, sender in enumerate(senders):
                try:
                    sender.sendall(b"x")
                except OSError:
                    # nginx gave it up.
                    sender.close()
                    senders[place] = _begin(edge, place)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        for sender in senders:
            sender.close()


def _begin(edge: Edge, place: int) -> socket.socket:
    path, rest = _STARTS[place % len(_STARTS)]
    sender = edge.connect()
    sender.sendall(f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nX-Test-Address: 198.51.100.{place}\r\n{rest}".encode())
    return sender
