"""Events sent to a program under development, signed as a webhook's are."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import click

from ussd_server.clock import Clock
from ussd_server.outbound.addresses import AddressGuard, AddressRefusedError
from ussd_server.outbound.signature import Signature
from ussd_server.outbound.transport import Transport
from ussd_server.services.webhooks.messages import EventView
from ussd_server.services.webhooks.subscriptions import new_webhook_secret
from ussd_server.values import iso_milliseconds, new_id

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SentSample:
    """One event that was sent, with the status of the reply, or why there was none; `secret` if it was made here."""

    event_id: str
    type: str
    url: str
    status: int | None
    trouble: str | None
    took_ms: int
    secret: str | None

    @property
    def was_accepted(self) -> bool:
        """Whether the program answered 2xx."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def sentence(self) -> str:
        """The outcome, in a sentence."""
        answer = str(self.status) if self.status else (self.trouble or "no answer").replace("_", " ")
        return f"{self.type} ({self.event_id}): {answer} in {self.took_ms} ms."


class LocalWebhook:
    """The address of a program under development, and the secret that signs what is sent there."""

    def __init__(self, url: str, secret: str | None) -> None:
        """Raises ClickException for an address that may not be called, and for a secret that cannot sign."""
        self._url = url
        self._made_secret = None if secret else new_webhook_secret()
        self._secret = secret or self._made_secret or ""
        self._clock = Clock()
        self.about_secret = "" if secret else f"Signed with {self._secret}\n"
        guard = AddressGuard(allow_private=True)
        self._transport = Transport(guard)
        try:
            guard.check_url(url)
        except AddressRefusedError as refusal:
            raise click.ClickException(f"{refusal}.") from None
        try:
            is_usable = bool(base64.b64decode(self._secret.removeprefix("whsec_"), validate=True))
        except ValueError:
            is_usable = False
        if not is_usable:
            raise click.ClickException("A secret is whsec_ and Base64, as the reply that created it says.")

    def send_sample(self, event_type: str) -> SentSample:
        """Send the sample of a type of event that the API document shows."""
        from ussd_server.api.document_examples import examples

        sample = examples()["webhooks"][event_type]
        return self._send(new_id(self._clock.now()), event_type, sample["data"], iso_milliseconds(self._clock.now()))

    def send(self, event: EventView) -> SentSample:
        """Send an event of a client, as its webhooks get it."""
        return self._send(event.id, event.type, event.data, iso_milliseconds(event.created_at))

    def _send(self, event_id: str, event_type: str, data: Any, timestamp: str) -> SentSample:
        document = {"type": event_type, "timestamp": timestamp, "data": data}
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", **self._headers(event_id, body)}
        exchange = self._transport.exchange(
            "POST", self._url, timeout_seconds=_TIMEOUT_SECONDS, headers=headers, body=body
        )
        trouble = None if exchange.status else exchange.trouble and exchange.trouble.value
        took_ms = round(exchange.elapsed_seconds * 1000)
        return SentSample(event_id, event_type, self._url, exchange.status, trouble, took_ms, self._made_secret)

    def _headers(self, event_id: str, body: bytes) -> dict[str, str]:
        return Signature(event_id, self._clock.now(), [self._secret]).headers(body)
