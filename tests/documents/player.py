"""The player: calls the running service and keeps the first exchange of every kind."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.support.real_service.service import Service
from ussd_server.api.requests import is_management
from ussd_server.status import Code

FORM = "application/x-www-form-urlencoded"
_PATIENCE_SECONDS = 120.0
_LOOK_AGAIN_SECONDS = 0.5


class Operation(NamedTuple):
    """One method of one path; `name` is its `operationId`."""

    name: str
    method: str
    path: str


class Exchange(NamedTuple):
    """One request body that was sent, and the reply."""

    body: Any
    answer: Any


def operations(document: dict[str, Any]) -> list[Operation]:
    """Return every operation, in the order of the OpenAPI document."""
    return [
        Operation(item["operationId"], method.upper(), path)
        for path, methods in document["paths"].items()
        for method, item in methods.items()
    ]


class Player:
    """Sends requests and keeps the first exchange of every success and of every refusal."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.operations = operations(self._fetch("GET", "/openapi.json", None, {})[1])
        self.played: dict[tuple[str, int], Exchange] = {}
        self.refused: dict[str, Exchange] = {}
        self.management: dict[tuple[str, int, str], Exchange] = {}
        self._patterns = [(o.name, o.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", o.path))) for o in self.operations]
        # A path with the literal `bulk` goes before one with an id there.
        self._patterns.sort(key=lambda entry: entry[2].pattern.count("[^/]+"))
        self.token = ""
        self.key = service.key
        self._key_of_looks: dict[str, str] = {}

    def data(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the data API with the key; give `data` of the answer."""
        return self.send(method, path, body, self.key | headers).get("data")

    def manage(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Any:
        """Call key management with the access token; give `data` of the answer."""
        sent = {"Authorization": f"Bearer {self.token if token is None else token}"} | headers
        return self.send(method, f"/api/clients{path}", body, sent).get("data")

    def send(self, method: str, path: str, body: Any = None, sent: dict[str, str] | None = None) -> Any:
        """Send one request and keep the exchange."""
        status, answer = self._fetch(method, path, body, sent or {})
        self._remember(method, path, status, Exchange(body, answer))
        return answer

    def look(self, path: str) -> Any:
        """What a GET answers now; it is not kept, and counts against no key of the scenario."""
        if not self._key_of_looks:
            sent = {"Authorization": f"Bearer {self.token}"}
            made = self._fetch("POST", "/api/clients/api-keys", {}, sent)[1]["data"]
            self._key_of_looks = {"x-api-key": made["apikey"], "x-api-secret": made["apisecret"]}
        return self._fetch("GET", path, None, self._key_of_looks)[1]

    def look_as_person(self, path: str) -> Any:
        """What a GET of key management answers now; it is not kept."""
        return self._fetch("GET", f"/api/clients{path}", None, {"Authorization": f"Bearer {self.token}"})[1]["data"]

    def until(self, holds: Callable[[], Any], pause_seconds: float = _LOOK_AGAIN_SECONDS) -> None:
        """Wait until `holds`, so that every run finds the same."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError("the service did not come to rest")
            time.sleep(pause_seconds)

    def until_refused(self, code: Code, method: str, path: str, pause_seconds: float = 0) -> None:
        """Repeat a call of the data API until it is refused with this code."""

        def is_refused() -> bool:
            self.data(method, path)
            return code.error in self.refused

        self.until(is_refused, pause_seconds)

    def _remember(self, method: str, path: str, status: int, exchange: Exchange) -> None:
        name = self._name_of(method, path.partition("?")[0])
        if status < 400:
            self.played.setdefault((name, status), exchange)
        elif is_management(path):
            self.management.setdefault((name, status, exchange.answer["message"]), exchange)
        else:
            self.refused.setdefault(exchange.answer["error"], exchange)

    def _name_of(self, method: str, path: str) -> str:
        matching = (name for name, by, pattern in self._patterns if by == method and pattern.fullmatch(path))
        return next(matching, "")

    def _fetch(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        if body is not None:
            headers = {"Content-Type": "application/json"} | headers
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)
        with closing(connection):
            encoded = urlencode if headers.get("Content-Type") == FORM else json.dumps
            text = body if isinstance(body, str | None) else encoded(body)
            connection.request(method, path, text, headers)
            reply = connection.getresponse()
            content = reply.read().decode()
            is_json = (reply.headers["Content-Type"] or "").startswith("application/json")
            return reply.status, json.loads(content) if is_json else content
