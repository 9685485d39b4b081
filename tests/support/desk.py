"""One payment of one client, a provider whose replies a test chooses, and the workers between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.conftest import MovableClock
from tests.support.money import a_client, balances, deposit, request
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import (
    Bounds,
    Direction,
    Outcome,
    PaymentOrder,
    PollingSchedule,
    ProviderAnswer,
    Registration,
)
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.messages import GetTransaction, TransactionView

SUCCESS = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id="R-1", amount_cents=500_000)
FAILURE = ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_DECLINED)
PENDING, UNKNOWN = ProviderAnswer(Outcome.PENDING), ProviderAnswer(Outcome.UNKNOWN)
NOT_FOUND, NOT_SENT = ProviderAnswer(Outcome.NOT_FOUND), ProviderAnswer(Outcome.NOT_SENT)
SCHEDULE = PollingSchedule(
    delays=(5.0, 10.0), not_found_means_lost_after=60.0, late_check_after=600.0, give_up_after=1000.0, per_second=10.0
)


@dataclass
class FakeProvider:
    """A provider whose replies a test chooses; the last one of each kind repeats."""

    asked: list[ProviderAnswer] = field(default_factory=lambda: [PENDING])
    enquired: list[ProviderAnswer] = field(default_factory=lambda: [PENDING])
    while_asked: Callable[[], object] = lambda: None
    while_enquired: Callable[[], object] = lambda: None
    asks: list[PaymentOrder] = field(default_factory=list)
    enquiries: int = 0
    mistakes: list[Exception] = field(default_factory=list)
    name: str = "sandbox"
    connection: str = ""
    account: str = ""
    draining: bool = False
    schedule: PollingSchedule = SCHEDULE
    moves_whole_shillings_only: bool = False
    refunds_in_full_only: bool = False
    plain_references: bool = False
    shows_balance: bool = True
    sends_callbacks: bool = True
    available: bool = True
    refusal: str = ""
    refused_in_a_row: int = 0
    has_access: bool = False
    sent_to: str = "https://provider.example:443"
    bounds = dict.fromkeys(Direction, Bounds(True, 1, 99_999_999))

    def __post_init__(self) -> None:
        self.connection = self.connection or self.name
        self.account = self.account or self.connection

    def has_access_since(self, seconds: float) -> bool:
        return self.has_access

    def place(self, direction: Direction) -> str:
        return self.sent_to

    def send(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        self.asks.append(payment)
        self.meanwhile(self.while_asked)
        return self.asked.pop(0) if len(self.asked) > 1 else self.asked[0]

    def query_status(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        self.enquiries += 1
        self.meanwhile(self.while_enquired)
        return self.enquired.pop(0) if len(self.enquired) > 1 else self.enquired[0]

    def meanwhile(self, happens: Callable[[], object]) -> None:
        """Keep exceptions of adapters: a worker continues after one, but a test must fail."""
        try:
            happens()
        except Exception as mistake:
            self.mistakes.append(mistake)
            raise

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        return None

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        return Registration()

    def reference_in(self, callback: bytes) -> str | None:
        return None


class Desk:
    """One payment of one client, and the workers who settle it with a provider."""

    def __init__(self, services: Services, clock: MovableClock, provider: FakeProvider) -> None:
        self.services, self.clock, self.provider = services, clock, provider
        self.processing = self.another_worker()
        self.call: RequestContext = a_client()
        self.id = ""

    def another_worker(self, **changes: Any) -> PaymentProcessor:
        """The processor of another worker; `changes` are what is different in its runtime."""
        usual = {"providers": Providers([self.provider]), "clock": self.clock, "within_rate": lambda _: True}
        return PaymentProcessor(other_runtime(self.services, **usual | changes))

    def order(self, kind: str = "collection", **more: object) -> str:
        if kind == "disbursement":
            deposit(self.services, self.call, 5000)
        self.id = self.services.transactions.create(request(kind, **more), self.call).transaction.transaction_id  # type: ignore[arg-type]
        return self.id

    def work(self, seconds: float = 0.0) -> None:
        """Claim and advance what is due now, and then whatever falls due within `seconds`."""
        until = self.clock.now() + timedelta(seconds=seconds)
        while True:
            for claimed in self.processing.claim(10):
                self.processing.advance(claimed)
                self.check()
            row = self.row
            if row.due_at is None or row.due_at > until:
                break
            self.clock.advance(max(0.001, (row.due_at - self.clock.now()).total_seconds()))
        if self.clock.now() < until:
            self.clock.advance((until - self.clock.now()).total_seconds())

    def check(self) -> None:
        """What must hold at every moment: no unfinished payment is forgotten, and the money agrees with the status."""
        row = self.row
        open_review = row.review_opened_at is not None and row.review_closed_at is None
        assert row.completed_at or row.due_at or open_review
        main, reserved = balances(self.call.client_id).get("main", (0, 0))
        if row.type == "collection":
            assert (main, reserved) == (500_000 if row.status == "succeeded" else 0, 0)
        if row.type == "disbursement" and not row.late:
            assert main == (0 if row.status == "succeeded" else 500_000)
            assert reserved == (0 if row.completed_at else 500_000)

    @property
    def row(self) -> Transaction:
        found: Transaction = Transaction.get_by_id(self.id)
        return found

    @property
    def view(self) -> TransactionView:
        return self.services.transactions.get(GetTransaction(self.id), self.call)

    @property
    def statuses(self) -> list[str]:
        return [change.status.value for change in self.view.events]

    def events(self, event_type: str) -> int:
        count: int = Event.select().where(Event.object_id == self.id, Event.type == event_type).count()
        return count
