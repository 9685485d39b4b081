"""Receivers of webhooks: real HTTP servers that verify every call with the reference library and keep it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from standardwebhooks import Webhook, WebhookVerificationError

from tests.conftest import MovableClock
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.services.webhooks.events import write_event
from ussd_server.services.webhooks.messages import CreateWebhook, DeliveryView, NewWebhookView
from ussd_server.values import new_id


@dataclass(frozen=True)
class Received:
    """One call that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    def is_signed_with(self, secret: str) -> bool:
        """Whether the reference library accepts the call."""
        try:
            Webhook(secret).verify(self.body, self.headers)
        except WebhookVerificationError:
            return False
        return True


Answers = Callable[[Received], int]


def take(_: Received) -> int:
    """Answer every call with 200."""
    return 200


@dataclass
class Receiver:
    """Listens on loopback; `answers` gives the status for each call, `body` and `headers` go with every answer."""

    answers: Answers = take
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.calls: list[Received] = []
        self.closing = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    # Its sender was killed in the middle, so this was no call.
                    return
                received = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                receiver.calls.append(received)
                self.send_response(receiver.answers(received))
                for name, value in ({"Content-Length": str(len(receiver.body))} | receiver.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_request(self, *_: object) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                """A sender that was killed breaks its connection."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def hang(self, _: Received) -> int:
        """An answer that comes when the test is over."""
        self.closing.wait()
        return 200

    @property
    def types(self) -> list[str]:
        """The types of event that arrived, in order."""
        return [context.document["type"] for context in self.calls]


def subscribe(services: Services, context: RequestContext, url: str, *types: str) -> NewWebhookView:
    """Register a webhook."""
    return services.webhooks.create(CreateWebhook(url, types or None), context)


def deliver(services: Services, clock: MovableClock | None = None, seconds: float = 0, step: float = 5) -> None:
    """Do what the worker would do for webhooks within `seconds`."""
    passed = 0.0
    while True:
        while services.relay.run():
            pass
        while claimed := services.deliveries.claim(100):
            for delivery_id in claimed:
                services.deliveries.send(delivery_id)
        if clock is None or passed >= seconds:
            return
        clock.advance(step)
        passed += step


def happen(services: Services, context: RequestContext, thing: str = "", times: int = 1) -> list[str]:
    """Write events about one thing of a client, as services do; give their ids."""
    thing = thing or new_id(services.clock.now())
    with unit_of_work():
        return [
            write_event(context.client_id, "ussd.session.ended", thing, {"number": number}, services.clock.now())
            for number in range(times)
        ]


def deliveries_of(services: Services, context: RequestContext, event_id: str) -> tuple[DeliveryView, ...]:
    return services.events.get(event_id, context).deliveries


def only_delivery(services: Services, context: RequestContext, event_id: str) -> DeliveryView:
    (delivery,) = deliveries_of(services, context, event_id)
    return delivery


def answering(*statuses: int) -> Callable[[Received], int]:
    """Answers in turn; the last one stays."""
    left = list(statuses)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]
