"""Faults between a provider and its client: silence, errors, garbage, and slow or endless bodies."""

import select
import socket
from collections.abc import Iterator

from flask import Flask, Response, g, jsonify, request

from simulators.standin import StandIn
from simulators.switches import Switches

HTML_ERROR = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
GARBAGE = b'{"status": "SUCC\xff\xfe\x00\x9d,,]]<transaction'
HELD_POLL_SECONDS = 0.05
ENDLESS_PAUSE_SECONDS = 0.005
ENDLESS_CHUNK = b"0" * 65536


def install(app: Flask, stand_in: StandIn) -> None:
    """Count every request to the provider in the book, and apply the faults that the switches set."""
    calls = {route.endpoint: route.call for route in stand_in.routes()}

    def count_request() -> Response | None:
        call = calls.get(request.endpoint or "")
        if call is None:
            return None
        request.get_data()
        stand_in.book.count_request(str(request.endpoint), stand_in.reference())
        g.fault = stand_in.switches.fault(call)
        return Response() if g.fault and not g.fault.carries_out else None

    def apply_fault(response: Response) -> Response:
        fault: Switches | None = g.get("fault")
        return response if fault is None else _with_fault(stand_in, fault, response)

    app.before_request(count_request)
    app.after_request(apply_fault)


def _with_fault(stand_in: StandIn, fault: Switches, response: Response) -> Response:
    if fault.silent:
        return Response(_Silence(stand_in, request.environ["werkzeug.socket"]))
    if fault.html_error:
        response = Response(HTML_ERROR, fault.error_status or 502, content_type="text/html")
    elif fault.error_status:
        response = jsonify(stand_in.error(fault.error_status, fault.error_code))
        response.status_code = fault.error_status
    elif fault.garbage:
        response = Response(GARBAGE, content_type="application/json")
    elif fault.endless:
        response = Response(_endless(stand_in), content_type="application/json")
    stand_in.stopping.wait(fault.slow_seconds)
    if fault.drip_seconds and not fault.endless:
        dripped = _drip(stand_in, response.get_data(), fault.drip_seconds)
        return Response(dripped, response.status_code, response.headers)
    return response


class _Silence:
    """A body that is never sent: holds the connection until the client or the stand-in closes it."""

    def __init__(self, stand_in: StandIn, connection: socket.socket) -> None:
        self._stand_in = stand_in
        self._connection = connection

    def __iter__(self) -> "_Silence":
        return self

    def __next__(self) -> bytes:
        while not self._stand_in.stopping.wait(HELD_POLL_SECONDS):
            if select.select([self._connection], [], [], 0)[0]:
                break
        raise ConnectionAbortedError


def _endless(stand_in: StandIn) -> Iterator[bytes]:
    yield b'{"status":"'
    while not stand_in.stopping.wait(ENDLESS_PAUSE_SECONDS):
        yield ENDLESS_CHUNK


def _drip(stand_in: StandIn, body: bytes, pause_seconds: float) -> Iterator[bytes]:
    for position in range(len(body)):
        if stand_in.stopping.wait(pause_seconds):
            raise ConnectionAbortedError
        yield body[position : position + 1]
