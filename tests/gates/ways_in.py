"""Every way in which money that moved outside is booked, to be used with one receipt: first, second or at once."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from io import BytesIO, StringIO

from tests.conftest import MovableClock
from tests.services.incoming.till import BY, SECOND, Till
from tests.services.reconciliation.statement_files import csv_file, kampala, mtn_row, open_reviews, reconcile
from tests.support.desk import FakeProvider
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator, request
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, PaymentOrder, ProviderAnswer
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    ProposeSettlements,
    RecordSettlements,
    SetSettlementTerms,
    StateBankAccount,
)
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.incoming.messages import NotifiedPayment, PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import AssignMovement, ListMovements, SameMovement
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.providers.providers import Providers
from ussd_server.services.reconciliation.messages import BookLost, Claim, ConcludeFromStatement, FindLost, Verdict
from ussd_server.services.transactions.messages import CreateRefund, TransactionType
from ussd_server.status import ServiceError

SHILLINGS, CENTS = 5000, 5000_00
WRITTEN = ("MT-90001", " mt90\u200b001 ")
"""One receipt, as two providers' programs write it."""


class Book(FakeProvider):
    """A provider whose answers to enquiries a test chooses for each payment."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, ProviderAnswer] = {}

    def query_status(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        return self.answers.get(payment.transaction_id, ProviderAnswer(Outcome.PENDING))


class World:
    """A client with a payment code and a bank account, a till, and a worker with a provider of its own."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services, self.clock, self.provider = services, clock, Book()
        runtime = other_runtime(services, providers=Providers([self.provider]), clock=clock, within_rate=lambda _: True)
        self.processing = PaymentProcessor(runtime)
        self.till = Till(services)
        self.client = ExampleClient(services, "school")
        services.payment_codes.set_prefix(SetPrefix(self.client.id, "SCH"), operator())
        services.payment_codes.put(PutPaymentCode("SCH1042", "Fees"), operator_context(self.client.id))
        person = self.client.at_console()
        deposit(services, person, SHILLINGS)
        stated = services.bank_accounts.state(StateBankAccount("Stanbic Bank", "9030001234567", "School"), person)
        services.bank_accounts.confirm(ConfirmBankAccount(self.client.id, BY, digest=stated.digest), operator())

    def work(self) -> None:
        """Do what is due now."""
        while claimed := self.processing.claim(10):
            for each in claimed:
                self.processing.advance(each)
        self.services.notices.decide_waiting()

    def collect(self, reference: str, number: str) -> str:
        """A collection that its provider has, and whose outcome is not known yet."""
        made = self.services.transactions.create(
            request(number=number, reference=reference), operator_context(self.client.id)
        ).transaction
        self.work()
        return made.transaction_id

    def refund(self, transaction_id: str, receipt: str | None = "RF") -> None:
        """Give back the whole amount of a collection."""
        context = operator_context(self.client.id)
        made = self.services.refunds.create(CreateRefund(transaction_id, f"back/{transaction_id}"), context).transaction
        answer = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id=receipt, amount_cents=made.amount_cents)
        self.provider.answers[made.transaction_id] = answer
        self.work()
        self.processing.bring_forward(str(Transaction.get_by_id(made.transaction_id).provider_reference))
        self.work()

    def notify(self, receipt: str, number: str, code: str = "SCH1042") -> NotifiedPayment:
        """The till reports a payment."""
        return self.till.pay(code, SHILLINGS, receipt, number=number)


class Way(ABC):
    """A way in: `prepare` is what happens before the receipt is known, `report` books it or is refused."""

    def __init__(self, world: World, name: str, number: str, receipt: str) -> None:
        self.world, self.name, self.number, self.receipt = world, name, number, receipt
        self.transaction_id = ""

    def prepare(self) -> None:  # noqa: B027
        """Nothing happens before."""

    @abstractmethod
    def report(self) -> None:
        """Report the money to the service."""

    @property
    def row(self) -> Transaction:
        row: Transaction = Transaction.get_by_id(self.transaction_id)
        return row

    def succeeds(self, receipt: str | None = None, cents: int = CENTS) -> None:
        """Let the provider answer the next enquiry about the collection with success."""
        answer = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id=receipt, amount_cents=cents)
        self.world.provider.answers[self.transaction_id] = answer

    def ask_now(self) -> None:
        self.world.processing.bring_forward(str(self.row.provider_reference))
        self.world.work()

    def line(self, receipt: str, reference: str) -> list[str]:
        """A provider's line of the money."""
        values = [receipt, reference, kampala(self.world.clock.now()), "Successful", "Payment"]
        return [*values, f"FRI:{self.number[1:]}/MSISDN", "FRI:41000001/MM", "5,000.00", "UGX", "0", "1,000,000"]


class Enquired(Way):
    """Our own enquiry, at the provider's pace."""

    def prepare(self) -> None:
        self.transaction_id = self.world.collect(self.name, self.number)

    def report(self) -> None:
        self.succeeds(self.receipt)
        Transaction.update(due_at=self.world.clock.now()).where(Transaction.id == self.transaction_id).execute()
        self.world.work()


def succeed_between_two(ours: Enquired, receipt: str | None) -> list[list[str]]:
    """Let a collection succeed between two others; return the lines of those two: a statement that lacks it."""
    first, last = (Enquired(ours.world, name, f"+25677200001{name[1]}", name) for name in ("A1", "A2"))
    for way in (first, ours, last):
        ours.world.clock.advance(600)
        if way is not ours:
            way.prepare()
        way.succeeds(receipt if way is ours else way.receipt)
        way.ask_now()
    return [mtn_row(first.row), mtn_row(last.row)]


class CalledBack(Enquired):
    """Our own enquiry, which a callback brought forward."""

    def report(self) -> None:
        self.succeeds(self.receipt)
        self.ask_now()


class Reviewed(Enquired):
    """Two operators settle a payment whose provider reported another amount."""

    def prepare(self) -> None:
        super().prepare()
        self.succeeds(self.receipt, CENTS - 1)
        self.ask_now()

    def report(self) -> None:
        self.world.services.reviews.end(
            EndReview(self.transaction_id, "The provider says so", BY, SECOND, has_succeeded=True), operator()
        )


class ByStatement(Enquired):
    """Two operators conclude a payment from the provider's statement."""

    def report(self) -> None:
        row = self.row
        row.provider_transaction_id = self.receipt
        reconcile(self.world.services, [mtn_row(row)])
        for each in open_reviews(self.world.services):
            if each.transaction_id == row.id and each.verdict is Verdict.STATUS_DIFFERS:
                with suppress(ServiceError):
                    self.world.services.differences.conclude(
                        ConcludeFromStatement(each.difference_id, "The statement has it", BY, SECOND), operator()
                    )


class Notified(Way):
    """The till's signed notice."""

    def report(self) -> None:
        self.world.notify(self.receipt, self.number)


class Assigned(Way):
    """A line of a statement, held and assigned by two operators."""

    def report(self) -> None:
        services = self.world.services
        reconcile(services, [self.line(self.receipt, "")])
        for each in services.movements.list(ListMovements(is_held=True), operator()).items:
            if self.receipt.strip() in each.receipts:
                with suppress(ServiceError):
                    services.movement_uses.assign(AssignMovement(each.movement_id, "SCH1042", BY, SECOND), operator())


class Same(Enquired):
    """Two operators give a held payment's receipt to a collection that succeeded without one."""

    def prepare(self) -> None:
        super().prepare()
        self.succeeds()
        self.ask_now()

    def report(self) -> None:
        services = self.world.services
        self.world.notify(self.receipt, self.number)
        for each in services.movements.list(ListMovements(is_held=True), operator()).items:
            if each.waits_for == self.transaction_id:
                with suppress(ServiceError):
                    services.movement_uses.take_as_same(SameMovement(each.movement_id, BY, SECOND), operator())


class Recovered(Way):
    """Two operators book a payment that the restored database lost."""

    def report(self) -> None:
        services, client_id = self.world.services, self.world.client.id
        name = services.runtime.references.of_reference(client_id, TransactionType.COLLECTION, self.name)
        since = self.world.clock.now() - timedelta(hours=1)
        statement = BytesIO(csv_file([self.line(self.receipt, name)]))
        lost = services.recovery.find(FindLost(since, [("sandbox", statement)]), operator())
        claims = [Claim("sandbox", each.provider_id, client_id, self.name) for each in lost]
        with suppress(ServiceError):
            services.recovery.book(BookLost(lost, claims, BY, SECOND), operator())


class Settled(Way):
    """The bank's reference of a settlement."""

    def prepare(self) -> None:
        """Reserve money of its own."""
        services, client = self.world.services, self.world.client
        deposit(services, client.at_console(), SHILLINGS, self.name)
        keep_cents = services.balances.get(None, operator_context(client.id)).available_cents - CENTS
        services.bank_accounts.set_terms(SetSettlementTerms(client.id, keep_cents), operator())
        proposed = services.bank_settlements.propose(ProposeSettlements(BY), operator())
        written = b"".join(services.bank_settlements.file(proposed)).decode()
        (row,) = csv.DictReader(StringIO(written))
        file = io.StringIO()
        lines = csv.DictWriter(file, row.keys())
        lines.writeheader()
        lines.writerow(row | {"bank_reference": self.receipt})
        self.file = file.getvalue().encode()

    def report(self) -> None:
        with suppress(ServiceError):
            self.world.services.bank_settlements.record(RecordSettlements(BytesIO(self.file), BY, SECOND), operator())


WAYS: dict[WayIn, Callable[[World, str, str, str], Way]] = {
    WayIn.ENQUIRY: Enquired,
    WayIn.CALLBACK: CalledBack,
    WayIn.REVIEW: Reviewed,
    WayIn.STATEMENT: ByStatement,
    WayIn.NOTICE: Notified,
    WayIn.ASSIGNMENT: Assigned,
    WayIn.SAME_PAYMENT: Same,
    WayIn.RECOVERY: Recovered,
    WayIn.SETTLEMENT: Settled,
}
"""The matrix: a way that is missing here fails `test_receipts.py`."""
