"""Creation by many callers at once: written in batches, answered one by one."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.crowd import at_once, refusals
from tests.support.eventually import eventually
from tests.support.money import a_client, agree_fee, balances, deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import (
    DATABASE_ERRORS,
    GroupCommit,
    close_connections,
    release_connection,
    unit_of_work,
)
from ussd_server.models.ledger import Account
from ussd_server.models.transactions import Transaction
from ussd_server.redis.signals import WakeUpSignal
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.history import Batch, write_batch
from ussd_server.services.transactions.messages import CreatedTransaction, TransactionType
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

pytestmark = pytest.mark.both_databases

PAYER = "+256770000060"


def test_fifty_calls_with_one_reference_make_one_transaction(services: Services) -> None:
    call = a_client()
    answers = at_once([lambda: services.transactions.create(request(reference="one"), call)] * 50)
    assert Counter(answer.replayed for answer in answers) == {False: 1, True: 49}
    assert len({answer.transaction.transaction_id for answer in answers}) == 1
    assert Transaction.select().count() == 1
    assert check_everything() == []


def test_a_confirmation_is_the_name_of_one_payment_within_its_conversation(services: Services) -> None:
    call = a_client()

    def confirm(session: str, confirmation: str, reference: str) -> CreatedTransaction:
        given = request(reference=reference, session_id=session, confirmation=confirmation)
        return services.transactions.create(given, call)

    one, other = new_id(datetime.now(UTC)), new_id(datetime.now(UTC))
    first = confirm(one, "1", "a")
    assert not confirm(other, "1", "b").replayed, "in another conversation"
    assert not confirm(one, "2", "c").replayed, "in the same one"
    with pytest.raises(
        ServiceError, match=f"used for a different request: of transaction {first.transaction.transaction_id}"
    ):
        confirm(one, "1", "d")


def test_a_refused_request_does_not_harm_others_in_the_same_batch(services: Services) -> None:
    call, poor = a_client(), a_client("Poor")
    deposit(services, call, 10_000)
    services.transactions.create(request(reference="used"), call)

    def order(number: int) -> object:
        match number % 4:
            case 0:
                return services.transactions.create(request("disbursement", shillings=100, reference=f"{number}"), call)
            case 1:
                return services.transactions.create(request("disbursement", shillings=1, reference=f"{number}"), poor)
            case 2:
                return services.transactions.create(request(shillings=number, reference="used"), call)
            case _:
                return services.transactions.create(request(reference=f"{number}", shillings=number), call)

    answers = at_once([partial(order, number) for number in range(80)])
    named = Counter(refusal.partition(": of transaction")[0] for refusal in refusals(answers))
    assert named == {
        "Insufficient balance to complete the transaction": 20,
        "The reference or idempotency key was used for a different request": 20,
    }
    for number, answer in enumerate(answers):
        if number % 4 in (0, 3):
            assert answer.transaction.reference == str(number), "a caller got the reply of another"
    assert balances(call.client_id)["main"] == (1_000_000, 200_000)
    assert check_everything() == []


def test_accounts_that_several_name_for_the_first_time_are_opened_once(services: Services, clock: MovableClock) -> None:
    call = a_client()
    agree_fee(FeeTerms(call.client_id, TransactionType.TRANSFER, 10, 0))
    services.transactions.create(request(account=PAYER), call)
    work(services, clock)

    def transfer(number: int) -> object:
        payee = f"+25677000007{number % 3}"
        return services.transactions.create(
            request("transfer", PAYER, 1, to_phone_number=payee, reference=f"{number}"), call
        )

    answers = at_once([partial(transfer, number) for number in range(24)])
    assert {answer.transaction.status for answer in answers} == {"succeeded"}
    assert balances(call.client_id) == {
        PAYER: (500_000 - 24 * 110, 0), "fees": (240, 0), "provider:sandbox": (-500_000, 0),
        "+256770000070": (800, 0), "+256770000071": (800, 0), "+256770000072": (800, 0),
    }  # fmt: skip
    assert check_everything() == []


@pytest.fixture
def woken_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that send a wake-up signal of services which are built from now on."""
    threads: list[int] = []
    monkeypatch.setattr(WakeUpSignal, "send", lambda _: threads.append(threading.get_ident()))
    return threads


def test_the_worker_is_woken_for_each_payment_that_needs_a_provider(
    woken_by: list[int], services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = a_client()
    deposit(services, call, 100)
    assert woken_by == [], "what needs no provider is over already"
    written_by: dict[int, list[int]] = defaultdict(list)

    def write(batch: Batch) -> None:
        write_batch(batch)
        written_by[threading.get_ident()].append(len(batch.transactions))

    monkeypatch.setattr("ussd_server.services.transactions.create.write_batch", write)
    at_once([partial(services.transactions.create, request(reference=f"{number}"), call) for number in range(40)])
    assert sum(map(sum, written_by.values())) == 40
    assert Counter(woken_by) == {who: len(groups) for who, groups in written_by.items()}


@pytest.mark.parametrize("reference", ["no_overdraft", "another_fee_was_agreed"])
def test_a_reference_that_reads_like_a_rule_of_the_database_is_a_reference(services: Services, reference: str) -> None:
    call = a_client()
    first = services.transactions.create(request(reference=reference), call)
    assert services.transactions.create(request(reference=reference), call).transaction == first.transaction
    with pytest.raises(ServiceError) as refusal:
        services.transactions.create(request(reference=reference, shillings=1), call)
    assert refusal.value.code is Code.IDEMPOTENCY_KEY_REUSED


def test_nothing_is_created_from_within_a_unit_of_work(services: Services) -> None:
    call = a_client()
    with pytest.raises(AssertionError, match="still to come"), unit_of_work():
        services.transactions.create(request(), call)
    assert not Transaction.select().exists()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("taken_for", ["a", "b"])
def test_a_key_that_another_call_is_binding_is_waited_for(
    services: Services, settings: Settings, taken_for: str
) -> None:
    call = a_client()
    ids = {
        name: services.transactions.create(request(reference=name), call).transaction.transaction_id for name in "ab"
    }
    release_connection()

    def repeat() -> bool | Code:
        try:
            return services.transactions.create(request(reference="a", idempotency_key="K"), call).replayed
        except ServiceError as refusal:
            return refusal.code
        finally:
            release_connection()

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1))
        session, watcher = (
            stack.enter_context(psycopg.connect(settings.database_url, autocommit=own)) for own in (0, 1)
        )
        session.execute("INSERT INTO idempotency_keys VALUES (%s, 'K', %s, now())", (call.client_id, ids[taken_for]))
        repeated = pool.submit(repeat)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        eventually(lambda: watcher.execute(waiting).fetchone() == (1,))
        session.commit()
        assert repeated.result() == (True if taken_for == "a" else Code.IDEMPOTENCY_KEY_REUSED)


def test_one_key_at_once_for_a_repeat_and_for_something_else_names_one_of_them(services: Services) -> None:
    call = a_client()
    services.transactions.create(request(reference="a"), call)
    for number in range(5):
        key, new = f"K{number}", f"b{number}"
        actions = [
            partial(services.transactions.create, request(reference=name, idempotency_key=key), call)
            for name in ("a", new, "a", new)
        ]
        answers = at_once(actions)
        named = {answer.transaction.reference for answer in answers if not isinstance(answer, ServiceError)}
        assert len(named) == 1
        assert len(refusals(answers)) == 2
        with pytest.raises(ServiceError):
            services.transactions.create(request(reference="other", idempotency_key=key), call)


def gather_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next batch begin when a second caller has queued."""
    batches: list[GroupCommit[Any]] = []
    do = GroupCommit.do

    def note(batch: GroupCommit[Any], item: Any) -> Sequence[Any]:
        batches.append(batch)
        return do(batch, item)

    def pause(_: float) -> None:
        monkeypatch.setattr("ussd_server.threads.time", time)
        eventually(lambda: batches[0].queued == 1)

    monkeypatch.setattr(GroupCommit, "do", note)
    monkeypatch.setattr("ussd_server.threads.time", SimpleNamespace(sleep=pause))


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_batch_that_ran_into_a_deadlock_is_inserted_all_the_same(
    services: Services, clock: MovableClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = a_client()
    services.transactions.create(request(account=PAYER), call)
    deposit(services, call, 10)
    work(services, clock)
    opened = Account.select().where(Account.client_id == call.client_id, Account.name.in_(["main", PAYER]))
    first, second = opened.order_by(Account.id)
    release_connection()

    def pay_out(account: str, number: int) -> CreatedTransaction:
        ordered = request("disbursement", shillings=1, account=account, reference=f"{account} {number}")
        try:
            return services.transactions.create(ordered, call)
        finally:
            release_connection()

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        watcher, crosser = (
            stack.enter_context(psycopg.connect(settings.database_url, autocommit=own)) for own in (True, False)
        )

        def lock(account: Account) -> None:
            crosser.execute("SELECT 1 FROM ledger_accounts WHERE id = %s FOR NO KEY UPDATE", (account.id,))

        gather_two(monkeypatch)
        # The batch must detect the deadlock, not this session.
        crosser.execute("SET LOCAL deadlock_timeout = '1min'")
        lock(second)
        answers = [pool.submit(pay_out, account.name, 1) for account in (first, second)]
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        eventually(lambda: watcher.execute(waiting).fetchone() == (1,))
        # The batch has this account and waits for the other: it is rolled back, or this session would wait for ever.
        lock(first)
        crosser.rollback()
        assert {answer.result().replayed for answer in answers} == {False}
    assert balances(call.client_id)["main"][1] + balances(call.client_id)[PAYER][1] == 200
    assert check_everything() == []


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_connection_that_is_cut_loses_nothing_that_was_answered(services: Services, settings: Settings) -> None:
    call = a_client()
    deposit(services, call, 900_000)
    over, progressed = threading.Event(), threading.Event()
    answered: list[str] = []
    troubles: list[Exception] = []

    def order(name: int) -> None:
        for number in range(40):
            kind = ("collection", "disbursement")[number % 2]
            try:
                created = services.transactions.create(request(kind, shillings=10, reference=f"{name} {number}"), call)
            except DATABASE_ERRORS as trouble:
                troubles.append(trouble)
                close_connections()
            else:
                answered.append(created.transaction.transaction_id)
                progressed.set()

    def cut() -> None:
        with psycopg.connect(settings.database_url, autocommit=True) as session:
            # Cut after progress, not by the clock: a busy machine takes longer to connect than a clock would wait.
            while progressed.wait() and not over.is_set():
                progressed.clear()
                session.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    cutter = threading.Thread(target=cut)
    cutter.start()
    at_once([partial(order, name) for name in range(12)])
    over.set()
    progressed.set()
    cutter.join()
    close_connections()
    assert troubles, "nothing was cut"
    assert len(answered) > 12
    assert set(answered) <= {row.id for row in Transaction.select(Transaction.id)}
    assert check_everything() == []
