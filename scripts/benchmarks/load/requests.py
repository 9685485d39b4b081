"""Requests as bytes, made before anything is measured, the menu that they walk, and single requests."""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPResponse
from typing import Any, NamedTuple

import orjson

from benchmarks.load.generator import Call

_TIMEOUT_SECONDS = 20
_CHOICES_OF_A_SESSION = 3
_FINISH = 9
_NODES = 100
_CHOICES_OF_A_NODE = 8
CODE = "*100#"
CHANNELS = 32
_numbers = itertools.count(random.randrange(10**9) * 1000)


class Key(NamedTuple):
    """An API key and its secret."""

    apikey: str
    secret: str


class Reply(NamedTuple):
    """Status and body of an HTTP reply."""

    status: int
    body: bytes

    @property
    def document(self) -> Any:
        """The body read as JSON."""
        return orjson.loads(self.body)


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return an HTTP request with the headers that every client sends."""
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


def key_headers(key: Key, address_number: int = 0) -> dict[str, str]:
    """Return the headers of a client; `address_number` chooses the address that a proxy names for it."""
    high, low = divmod(address_number, 250)
    return {"x-api-key": key.apikey, "x-api-secret": key.secret, "X-Forwarded-For": f"10.0.{high % 250}.{low + 1}"}


def calls_with(keys: Sequence[Key], path: str, mark: bytes) -> list[Call]:
    """Return the same GET with every key, each from an address of its own; replies must contain `mark`."""
    return [Call(request("GET", path, key_headers(key, place)), mark) for place, key in enumerate(keys)]


def payment(key: Key, reference: str, amount: int = 500, place: int = 0) -> bytes:
    """Return a request for a disbursement through the sandbox."""
    body = {
        "type": "disbursement",
        "phone_number": f"+2567{71_000_000 + place % 9_000_000}",
        "amount": amount,
        "reference": reference,
        "provider": "sandbox",
    }
    return request("POST", "/api/transactions", key_headers(key, place), orjson.dumps(body))


def places_menu() -> dict[str, Any]:
    """Return a menu of a hundred nodes, in which eight choices lead to other nodes and the ninth ends the session."""
    places = _NODES - 1
    finish = {"key": "9", "label": {"en": "Finish"}, "goto": "end"}
    nodes: dict[str, Any] = {"end": {"type": "end", "text": {"en": "Thank you"}}}
    for place in range(places):
        following = [(place * _CHOICES_OF_A_NODE + choice) % places for choice in range(1, _CHOICES_OF_A_NODE + 1)]
        options = [{"label": {"en": f"To {goal}"}, "goto": f"place{goal}"} for goal in following]
        nodes[f"place{place}"] = {"type": "menu", "text": {"en": f"Place {place}"}, "options": [*options, finish]}
    return {"id": "places", "title": "Places", "start": "place0", "languages": ["en"], "vars": {}, "nodes": nodes}


def sessions(path: str) -> Iterator[Call]:
    """Return the steps of one USSD session after the other, without end, each by another phone number."""
    while True:
        yield from session(path, random.choices(range(1, _FINISH), k=_CHOICES_OF_A_SESSION))


def session(path: str, choices: Sequence[int]) -> Iterator[Call]:
    """Return the steps of one USSD session: dialling, the choices (1 to 8), and the end."""
    number = next(_numbers)
    text = ""
    for choice in (None, *choices, _FINISH):
        if choice is not None:
            text = f"{text}*{choice}".lstrip("*")
        form = (
            f"sessionId=ATUid_{number}&phoneNumber=%2B2567{number % 10**8:08}&networkCode=64110"
            f"&serviceCode={CODE.replace('*', '%2A').replace('#', '%23')}&text={text.replace('*', '%2A')}"
        )
        head = {"Content-Type": "application/x-www-form-urlencoded"}
        mark = b"END Thank you" if choice == _FINISH else b"CON Place"
        yield Call(request("POST", path, head, form.encode()), mark)


def ask(port: int, content: bytes) -> Reply:
    """Send one request on a connection of its own and return the reply."""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS) as connection:
        connection.sendall(content)
        response = HTTPResponse(connection)
        response.begin()
        return Reply(response.status, response.read())
