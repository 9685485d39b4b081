"""What tests of payouts share: a client with money, a maker, an approver, and the work of the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conftest import MovableClock
from tests.support.money import a_client, balances, call_with_key, deposit, work
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Event
from ussd_server.services.payouts.messages import (
    ApprovePayout,
    CancelPayout,
    CreatePayout,
    ItemState,
    ListPayoutItems,
    PayoutItemView,
    PayoutView,
)
from ussd_server.status import Code, ServiceError


class PayoutDesk:
    """A client whose rows are made by one key and approved by another."""

    def __init__(self, services: Services, clock: MovableClock, shillings: int = 500_000) -> None:
        self.services, self.clock = services, clock
        client = a_client()
        self.client_id = client.client_id
        self.maker = call_with_key(services, client)
        self.approver = call_with_key(services, client, "payouts:*")
        self.payouts = services.payouts
        if shillings:
            deposit(services, client, shillings)

    def draft(self, *items: dict[str, Any], reference: str = "P1", **more: Any) -> PayoutView:
        """A payout of these rows."""
        return self.payouts.create(CreatePayout(reference, items=items, **more), self.maker).payout

    def draft_of(
        self, count: int, reference: str = "P1", number: str = "+256770000000", amount: int = 100
    ) -> PayoutView:
        """A payout of so many equal rows."""
        return self.draft(*(row(f"r{place}", number, amount) for place in range(count)), reference=reference)

    def approve(self, payout: PayoutView) -> PayoutView:
        return self.payouts.approve(ApprovePayout(payout.payout_id, payout.round.number), self.approver)

    def cancel(self, payout: PayoutView) -> PayoutView:
        return self.payouts.cancel(CancelPayout(payout.payout_id), self.maker)

    def see(self, payout: PayoutView) -> PayoutView:
        return self.payouts.get(payout.payout_id, self.maker)

    def items(self, payout: PayoutView, state: ItemState | None = None) -> list[PayoutItemView]:
        return list(self.payouts.stream_items(ListPayoutItems(payout.payout_id, state=state), self.maker))

    def states(self, payout: PayoutView) -> list[str]:
        """The state of every row."""
        return [item.state.value for item in self.items(payout)]

    def events(self, payout: PayoutView) -> list[str]:
        """The types of its events, in their order."""
        reported = Event.select().where(Event.object_id == payout.payout_id).order_by(Event.sequence)
        return [event.type.removeprefix("payout.") for event in reported]

    def main(self) -> tuple[int, int]:
        """Balance and reservation of the main account, in cents."""
        return balances(self.client_id)["main"]

    def tick(self) -> None:
        """What the worker does for payouts that are due."""
        sender = self.services.payout_sender
        for payout_id in sender.claim(10):
            sender.advance(payout_id)

    def work(self, seconds: float = 0) -> None:
        """What the worker does within `seconds`."""
        passed = 0.0
        while True:
            self.tick()
            work(self.services, self.clock)
            if passed >= seconds:
                return
            self.clock.advance(0.25)
            passed += 0.25


def row(reference: str = "r1", phone_number: Any = "+256770000000", amount: Any = 1000, **more: Any) -> dict[str, Any]:
    """One row of a payout."""
    return {"phone_number": phone_number, "amount": amount, "reference": reference} | more


def code_of(action: Callable[[], object]) -> Code | None:
    """The code with which an action is refused, None when it is not."""
    try:
        action()
    except ServiceError as refusal:
        return refusal.code
    return None
