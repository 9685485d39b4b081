"""Phones of example subscribers, which reach the menu through the gateway path like real ones."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from urllib.parse import urlencode

from ussd_server.bootstrap import Services
from ussd_server.context import new_request_id
from ussd_server.demonstration.moving_time import MovingTime
from ussd_server.gateways.messages import GatewayRequest

_READS_SECONDS = 6.0
_NETWORK = "64110"


class Phones:
    """Dials one service code through one channel of Africa's Talking."""

    def __init__(self, services: Services, time: MovingTime, service_code: str, gateway_path: str) -> None:
        """`gateway_path` ends in the adapter's name and the secret of the channel."""
        self._gateways = services.gateways
        self._time = time
        self._service_code = service_code
        self._adapter, self._secret = gateway_path.rstrip("/").split("/")[-2:]

    def walk(self, phone_number: str, entries: Sequence[str], *, hangs_up: bool = False) -> None:
        """Dial, and send `entries` until the menu ends. Then hang up, or answer no more."""
        fields = {
            "sessionId": f"example-{secrets.token_hex(8)}",
            "phoneNumber": phone_number,
            "serviceCode": self._service_code,
            "networkCode": _NETWORK,
        }
        sent: list[str] = []
        screen = self._send(fields, sent)
        for entry in entries:
            if screen.startswith("END"):
                return
            self._time.wait(_READS_SECONDS)
            sent.append(entry)
            screen = self._send(fields, sent)
        if hangs_up and not screen.startswith("END"):
            self._report_end(fields)

    def _send(self, fields: dict[str, str], sent: Sequence[str]) -> str:
        body = urlencode({**fields, "text": "*".join(sent)}).encode()
        reply = self._gateways.answer(self._adapter, self._secret, GatewayRequest("POST", body=body), new_request_id())
        return reply.body.decode()

    def _report_end(self, fields: dict[str, str]) -> None:
        body = urlencode({**fields, "status": "Incomplete"}).encode()
        self._gateways.record_end(self._adapter, self._secret, GatewayRequest("POST", body=body))
