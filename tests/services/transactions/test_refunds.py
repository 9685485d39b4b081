"""Refunds: never more than was collected, whatever providers report late and however many clients ask at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.eventually import eventually
from tests.support.money import a_client, balances, deposit, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.ledger import Account
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.providers.sandbox.adapter import SandboxProvider
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.transactions.messages import (
    CreatedTransaction,
    CreateRefund,
    GetTransaction,
    OperatorRefund,
    Source,
)
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

FAILURE = ProviderAnswer(Outcome.FAILED, FailureCode.PROVIDER_ERROR)
SUCCESS = ProviderAnswer(Outcome.SUCCEEDED, amount_cents=500_000)


class Till:
    """A collection of UGX 5,000 that succeeded, and the calls that refund it."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services, self.clock = services, clock
        self.call: RequestContext = a_client()
        deposit(services, self.call, 100_000)
        self.original = services.transactions.create(request(reference="o"), self.call).transaction.transaction_id
        work(services, clock)
        self.schedule = services.runtime.providers.get("sandbox").schedule  # type: ignore[union-attr]

    def refund(self, reference: str, amount_cents: int | None = None) -> str:
        return self.record(reference, amount_cents).transaction.transaction_id

    def record(self, reference: str, amount_cents: int | None = None) -> CreatedTransaction:
        try:
            return self.services.refunds.create(CreateRefund(self.original, reference, amount_cents), self.call)
        finally:
            release_connection()

    def answer(self, refund: str, answer: ProviderAnswer) -> None:
        """What the provider reports about a refund now."""
        now = self.clock.now()
        Transaction.update(asked_at=now - timedelta(seconds=1)).where(Transaction.id == refund).execute()
        self.services.processing.apply_answer(
            refund, self.schedule, answer, Source.POLL, now, self.row(refund).lease_token
        )
        release_connection()

    def row(self, transaction_id: str) -> Transaction:
        found: Transaction = Transaction.get_by_id(transaction_id)
        return found

    def is_refused(self, reference: str, amount_cents: int | None = None) -> bool:
        try:
            self.refund(reference, amount_cents)
        except ServiceError as refusal:
            return refusal.code is Code.INVALID_AMOUNT
        return False


@pytest.fixture
def till(services: Services, clock: MovableClock) -> Till:
    return Till(services, clock)


def test_a_failed_refund_counts_until_its_provider_has_confirmed_the_failure(till: Till) -> None:
    first = till.refund("first")
    till.answer(first, FAILURE)
    assert till.row(first).status == "failed"
    assert till.is_refused("second")
    till.clock.advance(till.schedule.late_check_after)
    till.answer(first, FAILURE)
    assert not till.is_refused("second")


def test_a_failed_refund_that_succeeds_late_was_the_only_one(till: Till) -> None:
    first = till.refund("first", 300_000)
    till.answer(first, FAILURE)
    assert till.is_refused("too much", 200_001)
    second = till.refund("second", 200_000)
    till.answer(first, replace(SUCCESS, amount_cents=300_000))
    till.answer(second, replace(SUCCESS, amount_cents=200_000))
    assert [till.row(each).status for each in (first, second, till.original)] == ["succeeded", "succeeded", "reversed"]
    assert balances(till.call.client_id)["main"] == (10_000_000, 0)
    assert check_everything() == []


def test_a_failed_refund_counts_while_its_provider_takes_the_failure_back(till: Till) -> None:
    first = till.refund("first")
    till.answer(first, FAILURE)
    till.clock.advance(till.schedule.give_up_after + 1)
    till.answer(first, ProviderAnswer(Outcome.PENDING))
    assert till.is_refused("second")
    till.answer(first, FAILURE)
    assert not till.is_refused("second")


def test_a_failed_refund_of_which_another_amount_is_reported_counts_until_its_review_is_closed(till: Till) -> None:
    first = till.refund("first")
    till.answer(first, FAILURE)
    till.answer(first, replace(SUCCESS, amount_cents=1))
    assert till.row(first).due_at is None
    assert till.is_refused("second")
    till.services.reviews.end(EndReview(first, "asked MTN", "Ann", "Ben"), operator())
    assert check_everything() == [], "the decision is found under the refund"
    assert not till.is_refused("second")


def test_a_collection_given_back_twice_is_reversed_once(till: Till) -> None:
    first = till.refund("first")
    till.answer(first, FAILURE)
    till.clock.advance(till.schedule.late_check_after)
    till.answer(first, FAILURE)
    second = till.refund("second")
    till.answer(second, SUCCESS)
    till.answer(first, SUCCESS)
    assert till.row(first).late
    view = till.services.transactions.get(GetTransaction(till.original), till.call)
    assert [change.status for change in view.events].count("reversed") == 1
    assert check_everything() == [], "both have left, and operators review the late one"


def test_a_failed_refund_does_not_help_to_reverse_a_collection(till: Till) -> None:
    first = till.refund("first", 300_000)
    till.answer(first, FAILURE)
    second = till.refund("second", 200_000)
    till.answer(second, replace(SUCCESS, amount_cents=200_000))
    assert till.row(till.original).status == "succeeded"


@pytest.mark.parametrize("kind", ["disbursement", "transfer", "refund"])
def test_only_collections_are_given_back(till: Till, kind: str) -> None:
    if kind == "refund":
        made = till.refund("back")
    else:
        payee = {"to_phone_number": "+256770000001"} if kind == "transfer" else {}
        till.services.transactions.create(request(reference="c", account="+256770000000"), till.call)
        work(till.services, till.clock)
        made = till.services.transactions.create(
            request(kind, shillings=10, **payee), till.call
        ).transaction.transaction_id
    work(till.services, till.clock)
    assert till.row(made).status == "succeeded"
    with pytest.raises(ServiceError) as refusal:
        till.services.refunds.create(CreateRefund(made, "back of it"), till.call)
    assert refusal.value.code is Code.INVALID_REQUEST


def test_a_provider_that_gives_back_whole_payments_only_takes_no_part(
    till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SandboxProvider, "refunds_in_full_only", True)
    assert till.is_refused("part", 100_000)
    assert not till.is_refused("whole", 500_000)


class LockingSession:
    """A second connection to PostgreSQL that holds locks, and a third that counts who waits for them."""

    def __init__(self, stack: ExitStack, settings: Settings) -> None:
        self.holder = stack.enter_context(psycopg.connect(settings.database_url))
        self.watcher = stack.enter_context(psycopg.connect(settings.database_url, autocommit=True))
        self.pool = stack.enter_context(ThreadPoolExecutor(4))
        # Release the lock in any case, so that no thread waits for ever.
        stack.callback(self.holder.rollback)

    def lock(self, table: str, row_id: str, how: str = "") -> None:
        self.holder.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR NO KEY UPDATE {how}", (row_id,))  # type: ignore[arg-type]

    def until_waiting(self, count: int) -> None:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        eventually(lambda: self.watcher.execute(waiting).fetchone() == (count,))


def main_account(till: Till) -> str:
    account = Account.get(Account.client_id == till.call.client_id, Account.name == "main")
    release_connection()
    return str(account.id)


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_of_two_full_refunds_at_once_one_is_refused(till: Till, settings: Settings) -> None:
    account = main_account(till)
    with ExitStack() as stack:
        session = LockingSession(stack, settings)
        session.lock("ledger_accounts", account)
        refused = [session.pool.submit(till.is_refused, reference) for reference in ("one", "two")]
        session.until_waiting(2)
        session.holder.rollback()
        assert sorted(each.result() for each in refused) == [False, True]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_refund_that_succeeds_holds_no_account_while_it_waits_for_its_collection(
    till: Till, settings: Settings
) -> None:
    refund, account = till.refund("back"), main_account(till)
    with ExitStack() as stack:
        session = LockingSession(stack, settings)
        session.lock("transactions", till.original)
        succeeding = session.pool.submit(till.answer, refund, SUCCESS)
        session.until_waiting(1)
        # This is what recording another refund locks next; holding both would be a deadlock.
        session.lock("ledger_accounts", account, "NOWAIT")
        session.holder.rollback()
        succeeding.result()
    assert till.row(till.original).status == "reversed"


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_late_success_locks_its_accounts_in_the_order_of_all_others(
    services: Services, clock: MovableClock, settings: Settings
) -> None:
    context = a_client()
    # The provider's account is opened before the main one here, so it is locked first.
    services.transactions.create(request(reference="first", account="+256770000000"), context)
    work(services, clock)
    deposit(services, context, 5000)
    late = services.transactions.create(request("disbursement", "+256770000009"), context).transaction.transaction_id
    schedule = services.runtime.providers.get("sandbox").schedule  # type: ignore[union-attr]
    services.processing.apply_answer(late, schedule, FAILURE, Source.POLL, clock.now())
    ids = {account.name: account.id for account in Account.select().where(Account.client_id == context.client_id)}
    release_connection()
    assert ids["provider:sandbox"] < ids["main"]

    def succeed() -> None:
        services.processing.apply_answer(late, schedule, SUCCESS, Source.POLL, clock.now())
        release_connection()

    with ExitStack() as stack:
        session = LockingSession(stack, settings)
        session.lock("ledger_accounts", ids["provider:sandbox"])
        succeeding = session.pool.submit(succeed)
        session.until_waiting(1)
        session.lock("ledger_accounts", ids["main"], "NOWAIT")
        session.holder.rollback()
        succeeding.result()
    assert Transaction.get_by_id(late).late
    release_connection()


def test_a_client_cannot_take_the_names_of_refunds_by_operators(till: Till) -> None:
    name = f"operator-refund-{till.row(till.original).provider_reference}"
    refusal = "Names that begin with operator-refund- are the operators'"
    with pytest.raises(ServiceError, match=refusal):
        till.services.transactions.create(request(reference=name), till.call)
    with pytest.raises(ServiceError, match=refusal):
        till.refund(name, 100)
    refund = OperatorRefund(till.original, "paid twice", "Jane", "Mary", amount_cents=100_000)
    made = till.services.refunds.create_by_operators(refund, operator())
    assert (made.transaction.reference, made.replayed) == (name, False)
