"""A provider that exists in tests only: all that a new provider needs is in this folder."""

from __future__ import annotations

from ussd_server.outbound.transport import SendState
from ussd_server.providers.http.connection import JSON, encode
from ussd_server.providers.http.provider import HttpProvider
from ussd_server.providers.http.replies import ProviderReply, Reasons, code_or_message, failed
from ussd_server.providers.messages import (
    Direction,
    Outcome,
    PaymentOrder,
    PollingSchedule,
    ProviderAnswer,
    Registration,
)
from ussd_server.providers.package import ProviderAccess, ProviderPackage
from ussd_server.providers.settings import SettingsReader

_REASONS = Reasons(__package__)
_SCHEDULE = PollingSchedule(
    delays=(1.0,), not_found_means_lost_after=10.0, late_check_after=60.0, give_up_after=600.0, per_second=1000.0
)


class BodaCash(HttpProvider[ProviderAccess]):
    """`POST /pay` moves money; `GET /pay/{reference}` says `PAID` or why not. Nothing else: no refund, no callback."""

    name = "boda"
    shows_balance = False
    sends_callbacks = False

    def _is_set_up_for(self, direction: Direction) -> bool:
        return direction is not Direction.REFUND

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        return None

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        return Registration()

    def reference_in(self, callback: bytes) -> str | None:
        return None

    def _send(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        body = encode({"reference": payment.provider_reference, "direction": payment.direction})
        reply = self._connection.call("POST", "/pay", JSON, body, until)
        if reply.reach is SendState.NOT_SENT:
            return ProviderAnswer(Outcome.NOT_SENT)
        return ProviderAnswer(Outcome.PENDING if reply.status == 202 else Outcome.UNKNOWN)

    def _query_status(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        reply: ProviderReply = self._connection.call("GET", f"/pay/{payment.provider_reference}", {}, b"", until)
        state = reply.get("state")
        if state == "PAID":
            return ProviderAnswer(
                Outcome.SUCCEEDED, provider_transaction_id="B-1", amount_cents=payment.amount_cents, reason="PAID"
            )
        if reply.status == 200:
            return failed(_REASONS.failure(state, payment.direction), code_or_message(state))
        return ProviderAnswer(Outcome.UNKNOWN)


def _read_settings(reader: SettingsReader) -> ProviderAccess:
    return ProviderAccess(reader.base_url(), schedule=reader.schedule(_SCHEDULE))


PACKAGE = ProviderPackage(
    name=BodaCash.name,
    title="Boda Cash",
    short_name="Boda Cash",
    build=lambda access, transport, _: BodaCash(access, transport),
    read_settings=_read_settings,
    number_prefixes=("73",),
)
