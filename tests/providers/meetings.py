"""Our adapters and the stand-ins of their providers, in one process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from ussd_server.outbound.transport import Transport
from ussd_server.providers.airtel.access import AirtelAccess
from ussd_server.providers.airtel.adapter import AirtelProvider
from ussd_server.providers.messages import Direction, PaymentOrder, ProviderAnswer
from ussd_server.providers.mtn.adapter import MtnAccess, MtnProduct, MtnProvider

LONG_SECONDS = 20.0
SHORT_SECONDS = 0.5
_API_USER, _API_KEY = "9f0f1a53-37c3-4b30-8c5d-2b1f2a9f6a11", "an-api-key"


@dataclass(frozen=True)
class Meeting:
    """An adapter that calls the stand-in of its provider."""

    stand_in: Any
    provider: Any
    access: Any

    def flick(self, **switches: object) -> None:
        self.stand_in.switches.change(switches)

    def send(self, payment: PaymentOrder, timeout_seconds: float = LONG_SECONDS) -> ProviderAnswer:
        answer: ProviderAnswer = self.provider.send(payment, timeout_seconds)
        return answer

    def query_status(self, payment: PaymentOrder, timeout_seconds: float = LONG_SECONDS) -> ProviderAnswer:
        answer: ProviderAnswer = self.provider.query_status(payment, timeout_seconds)
        return answer

    def known(self, payment: PaymentOrder) -> bool:
        return self.stand_in.book.find(payment.provider_reference) is not None


@contextmanager
def meet_mtn() -> Iterator[Meeting]:
    settings = MtnSettings("mtnuganda", "UGX", api_user=_API_USER, api_key=_API_KEY)
    stand_in, transport = MtnMomo(settings), Transport()
    with run(stand_in) as base_url:
        access = MtnAccess(
            base_url,
            "mtnuganda",
            collection=MtnProduct("collection-key", _API_USER, _API_KEY),
            disbursement=MtnProduct("disbursement-key", _API_USER, _API_KEY),
            callback_url="http://127.0.0.1:1/callbacks/mtn/x",
        )
        yield Meeting(stand_in, MtnProvider(access, transport), access)
        transport.close()


@contextmanager
def meet_airtel(version: Literal["v1", "v2"]) -> Iterator[Meeting]:
    stand_in, transport = AirtelMoney(AirtelSettings()), Transport()
    with run(stand_in) as base_url:
        access = AirtelAccess(base_url, "airtel-client", "airtel-secret", version=version, pin="1234")
        yield Meeting(stand_in, AirtelProvider(access, transport), access)
        transport.close()


def payment_of(
    number: str, amount_cents: int, direction: Direction = Direction.COLLECTION, original: str | None = None
) -> PaymentOrder:
    reference = str(uuid.uuid4())
    return PaymentOrder(
        "t-1", reference, direction, number, amount_cents, "UGX", "ACME's #1", original_provider_reference=original
    )
