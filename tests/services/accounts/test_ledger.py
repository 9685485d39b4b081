"""The ledger under concurrent callers: no deadlock, nothing is spent twice, and money adds up at every moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.commands import FORK_SERVER
from tests.support.money import a_client, agree_fee, balances, deposit, request, work
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import close_connections, database, release_connection
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.messages import CreateRefund, TransactionType
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

pytestmark = pytest.mark.both_databases

FIRST, SECOND = "+256770000010", "+256770000011"


def together(*jobs: Callable[[], object]) -> list[object]:
    """Do all jobs at once, each in a thread of its own; what one of them raises is raised here."""

    def done(job: Callable[[], object]) -> object:
        try:
            return job()
        finally:
            release_connection()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(done, jobs))


def test_transfers_that_cross_never_wait_for_one_another_for_ever(services: Services, clock: MovableClock) -> None:
    context = a_client()
    for kind in (TransactionType.TRANSFER, TransactionType.COLLECTION):
        agree_fee(FeeTerms(context.client_id, kind, 10, 0))
    for number in (FIRST, SECOND):
        services.transactions.create(request("collection", number, 1000, account=number), context)
    work(services, clock, 2)
    over = Event()

    def cross(name: str, payer: str, payee: str) -> None:
        for number in range(12):
            services.transactions.create(
                request("transfer", payer, 1, to_phone_number=payee, reference=f"{name} {number}"), context
            )

    def look() -> int:
        """Take the sum over all accounts, again and again, each time of one moment."""
        looks = 0
        while not over.is_set():
            assert database.execute_sql("SELECT sum(balance_cents) FROM ledger_accounts").fetchone() == (0,)
            looks += 1
        return looks

    def cross_all() -> None:
        try:
            together(
                *(
                    lambda name=f"{direction}{number}", pair=pair: cross(name, *pair)
                    for number in range(4)
                    for direction, pair in (("to", (FIRST, SECOND)), ("fro", (SECOND, FIRST)))
                )
            )
        finally:
            over.set()

    looks, _ = together(look, cross_all)
    assert isinstance(looks, int)
    assert looks > 10
    kept = balances(context.client_id)
    assert (kept[FIRST], kept[SECOND]) == ((100_000 - 10 - 480, 0), (100_000 - 10 - 480, 0))
    assert kept["fees"] == (20 + 2 * 480, 0)
    assert check_everything() == []


def test_accounts_opened_by_several_at_once_are_opened_once(services: Services, clock: MovableClock) -> None:
    context = a_client()
    for kind in (TransactionType.DISBURSEMENT, TransactionType.COLLECTION):
        agree_fee(FeeTerms(context.client_id, kind, 10, 0))
    for number in range(8):
        services.transactions.create(request("collection", shillings=100, reference=f"r{number}"), context)
    together(*[lambda: work(services, clock)] * 4)
    assert balances(context.client_id) == {"main": (80_000 - 80, 0), "fees": (80, 0), "provider:sandbox": (-80_000, 0)}


def test_everything_at_once_neither_deadlocks_nor_loses_money(services: Services, clock: MovableClock) -> None:
    """Late successes, simultaneous refunds, fees and shortfalls take their locks in one order."""
    context = a_client()
    for kind in ("collection", "disbursement", "refund"):
        agree_fee(FeeTerms(context.client_id, TransactionType(kind), 10, 0))
    deposit(services, context, 300)
    collected = services.transactions.create(request("collection", shillings=500), context).transaction
    work(services, clock)
    over = Event()

    def tried(job: Callable[[], object]) -> None:
        try:
            job()
        except ServiceError as refusal:
            if refusal.code not in (Code.INSUFFICIENT_BALANCE, Code.INVALID_AMOUNT):
                raise

    def pay(name: str, kind: str) -> None:
        for number in range(8):
            to = f"+25677000000{(0, 1, 9)[number % 3]}"
            payment = request(kind, to, 40, reference=f"{name} {number}")
            tried(partial(services.transactions.create, payment, context))

    def refund(name: str) -> None:
        for number in range(8):
            back = CreateRefund(collected.transaction_id, f"{name} {number}", 1_000)
            tried(lambda: services.refunds.create(back, context))  # noqa: B023

    def settle() -> None:
        while not over.is_set():
            work(services, clock, 0.5)

    def order() -> None:
        try:
            together(
                lambda: pay("a", "disbursement"),
                lambda: pay("b", "collection"),
                lambda: refund("c"),
                lambda: refund("d"),
            )
        finally:
            over.set()

    together(settle, settle, settle, order)
    # For some payments so much time has passed that enquiries about them are rare.
    work(services, clock, 8000, step=1000)
    assert check_everything() == []
    assert all(reserved == 0 for _, reserved in balances(context.client_id).values())


def test_a_contested_balance_is_spent_exactly_by_several_processes(services: Services, settings: Settings) -> None:
    context = a_client()
    deposit(services, context, 2050)
    release_connection()
    with FORK_SERVER.Pool(3) as pool:
        spent = pool.starmap(spend, [(settings, context, f"process {number}") for number in range(3)])
    assert sum(spent) == 20
    assert balances(context.client_id)["main"] == (205_000, 200_000)
    assert check_everything() == []


def spend(settings: Settings, context: RequestContext, name: str) -> int:
    """In a process of its own, with two threads: pay out hundreds until nothing is left; how many were accepted."""
    services = build_services(settings)

    def pay_out(thread: int) -> int:
        accepted = 0
        while True:
            ordered = request("disbursement", shillings=100, reference=f"{name} {thread} {accepted}")
            try:
                services.transactions.create(ordered, context)
            except ServiceError as refusal:
                if refusal.code is not Code.INSUFFICIENT_BALANCE:
                    raise
                return accepted
            accepted += 1

    try:
        return sum(together(lambda: pay_out(1), lambda: pay_out(2)))  # type: ignore[arg-type]
    finally:
        services.close()
        close_connections()
