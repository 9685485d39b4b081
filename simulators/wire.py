"""Trouble on the wire: what becomes of an answer between a company and its client."""

import select
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flask import Flask, Response, g, jsonify, request

from simulators.switches import Switches

if TYPE_CHECKING:
    from simulators.standin import StandIn

HTML_ERROR = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
GARBAGE = b'{"status": "SUCC\xff\xfe\x00\x9d,,]]<transaction'
HELD_POLL_SECONDS = 0.05
ENDLESS_PAUSE_SECONDS = 0.005
ENDLESS_CHUNK = b"0" * 65536


def install(app: Flask, stand_in: "StandIn") -> None:
    """Count every call of the company in the book, and spoil its answers as the switches say."""

    def count_and_spoil() -> Response | None:
        call = stand_in.calls.get(request.endpoint or "")
        if call is None:
            return None
        request.get_data()
        g.submissions = stand_in.book.count(str(request.endpoint), stand_in.reference())
        g.trouble = stand_in.switches.trouble(call)
        return Response() if g.trouble and not g.trouble.carries_out else None

    def spoil(answer: Response) -> Response:
        trouble: Switches | None = g.get("trouble")
        return answer if trouble is None else _spoiled(stand_in, trouble, answer)

    app.before_request(count_and_spoil)
    app.after_request(spoil)


def _spoiled(stand_in: "StandIn", trouble: Switches, answer: Response) -> Response:
    if trouble.silent:
        return Response(_Silence(stand_in, request.environ["werkzeug.socket"]))
    if trouble.html_error:
        answer = Response(HTML_ERROR, trouble.error_status or 502, content_type="text/html")
    elif trouble.error_status:
        answer = jsonify(stand_in.error(trouble.error_status, trouble.error_code))
        answer.status_code = trouble.error_status
    elif trouble.garbage:
        answer = Response(GARBAGE, content_type="application/json")
    elif trouble.endless:
        answer = Response(_endless(stand_in), content_type="application/json")
    stand_in.stopping.wait(trouble.slow_seconds)
    if trouble.drip_seconds and not trouble.endless:
        drops = _drip(stand_in, answer.get_data(), trouble.drip_seconds)
        return Response(drops, answer.status_code, answer.headers)
    return answer


class _Silence:
    """A body that never comes: it holds the connection until the client leaves or the stand-in stops, then cuts it."""

    def __init__(self, stand_in: "StandIn", connection: socket.socket) -> None:
        self._stand_in = stand_in
        self._connection = connection

    def __iter__(self) -> "_Silence":
        return self

    def __next__(self) -> bytes:
        while not self._stand_in.stopping.wait(HELD_POLL_SECONDS):
            if select.select([self._connection], [], [], 0)[0]:
                break
        raise ConnectionAbortedError


def _endless(stand_in: "StandIn") -> Iterator[bytes]:
    yield b'{"status":"'
    while not stand_in.stopping.wait(ENDLESS_PAUSE_SECONDS):
        yield ENDLESS_CHUNK


def _drip(stand_in: "StandIn", body: bytes, pause_seconds: float) -> Iterator[bytes]:
    for position in range(len(body)):
        if stand_in.stopping.wait(pause_seconds):
            raise ConnectionAbortedError
        yield body[position : position + 1]
