"""One call at a time, for what is looked at and not measured."""

from __future__ import annotations

import socket
from http.client import HTTPResponse
from typing import Any, NamedTuple

import orjson

_PATIENCE_SECONDS = 20


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)


def ask(port: int, request: bytes) -> Answer:
    """Send a request on a connection of its own and wait for its answer."""
    with socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        response = HTTPResponse(connection)
        response.begin()
        return Answer(response.status, response.read())
