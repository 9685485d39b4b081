"""The player: calls the running service and keeps the first answer of every operation and of every refusal."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from schemas.envelopes import is_management
from tests.documents.exchange import Exchange
from tests.documents.operations import operations
from tests.support.real_service.service import Service
from ussd_server.status import Code

_PATIENCE_SECONDS = 120.0
_LOOK_AGAIN_SECONDS = 0.5


class Player:
    """Sends requests and remembers the first exchange of every operation and of every refusal."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.document = self._fetch("GET", "/openapi.json", None, {})[2]
        self.played: dict[str, Exchange] = {}
        self.refused: dict[str, Exchange] = {}
        self.management: dict[tuple[int, str], Exchange] = {}
        self._patterns = [
            (o.name, o.method, re.compile(re.sub(r"\{\w+\}", "[^/]+", o.path))) for o in operations(self.document)
        ]
        # A path with the literal `bulk` goes before one with an id there.
        self._patterns.sort(key=lambda entry: entry[2].pattern.count("[^/]+"))
        self.token = ""
        self.key = service.key
        self._key_of_looks: dict[str, str] = {}

    def data(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the data API with the key; give `data` of the answer."""
        shown = {"x-api-key": "$KEY", "x-api-secret": "$SECRET"}
        return self.send(method, path, body, self.key | headers, shown | headers).get("data")

    def manage(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """Call key management with the access token; give `data` of the answer."""
        sent = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return self.send(method, f"/api/clients{path}", body, sent, {"Authorization": "Bearer $TOKEN"}).get("data")

    def send(
        self, method: str, path: str, body: Any = None, sent: dict[str, str] | None = None,
        shown: dict[str, str] | None = None, hidden: str = "",
    ) -> Any:  # fmt: skip
        """Send one request and remember it; `hidden` is a secret part of the path."""
        sent, shown = sent or {}, shown or {}
        if body is not None and "Content-Type" not in sent:
            sent, shown = sent | {"Content-Type": "application/json"}, shown | {"Content-Type": "application/json"}
        status, headers, answer = self._fetch(method, path, body, sent)
        exchange = Exchange(
            method,
            path.replace(hidden, "$PATH_SECRET") if hidden else path,
            body,
            shown,
            status,
            headers,
            answer,
        )
        self._remember(exchange, path)
        return answer

    def look(self, path: str) -> Any:
        """What a GET answers now; it is not remembered, and counts against no key of the scenario."""
        if not self._key_of_looks:
            made = self._fetch(
                "POST",
                "/api/clients/api-keys",
                "{}",
                {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            )[2]["data"]
            self._key_of_looks = {"x-api-key": made["apikey"], "x-api-secret": made["apisecret"]}
        return self._fetch("GET", path, None, self._key_of_looks)[2]

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

    def _remember(self, exchange: Exchange, path: str) -> None:
        if exchange.status < 400:
            for name, method, pattern in self._patterns:
                if method == exchange.method and pattern.fullmatch(path.partition("?")[0]):
                    self.played.setdefault(name, exchange)
                    return
        elif is_management(path):
            self.management.setdefault((exchange.status, exchange.answer["message"]), exchange)
        else:
            self.refused.setdefault(exchange.answer["error"], exchange)

    def _fetch(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)
        with closing(connection):
            text = body if isinstance(body, str | None) else json.dumps(body)
            connection.request(method, path, text, headers)
            reply = connection.getresponse()
            content = reply.read().decode()
            is_json = (reply.headers["Content-Type"] or "").startswith("application/json")
            return reply.status, dict(reply.headers), json.loads(content) if is_json else content
