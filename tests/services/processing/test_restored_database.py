"""A database that lost commits: repeated requests reach the provider under the same names, and are paid once."""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from testbed.postgres import create_database, drop_database
from tests.conftest import MovableClock
from tests.faults.workers import catch_up, services_of
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.books import check_everything
from tests.support.example_client import OPERATOR
from tests.support.money import a_client, balances, call_with_key, deposit, operator, request
from tests.support.shop import CODE, Shop
from tests.support.stand_ins import airtel_settings, mtn_settings
from ussd_server.app import create_app
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.transactions import Transaction
from ussd_server.services.payouts.messages import ApprovePayout, CancelPayout, RetryPayout
from ussd_server.services.processing.outcomes import REVIEW_AMOUNT, REVIEW_ANOTHER
from ussd_server.services.transactions.messages import CreateRefund, OperatorRefund
from ussd_server.services.ussd.messages import BeginSession, EnterText
from ussd_server.settings import Settings

pytestmark = pytest.mark.slow

NUMBERS = {"mtn": "+256772123456", "airtel": "+256752123456"}
_REPEATS = 8
_FAILURE_IS_FINAL_SECONDS = 3600


class Town:
    """Services on a database that can be put back to an earlier time, and the stand-in of one provider."""

    def __init__(self, stack: ExitStack, settings: Settings, clock: MovableClock, provider: str) -> None:
        self.provider, self.number, self.clock = provider, NUMBERS[provider], clock
        mtn = mtn_settings("")
        self.stand_in: Any = (
            MtnMomo(
                MtnSettings(
                    "mtnuganda",
                    "UGX",
                    api_user=mtn["USSD_MTN_COLLECTION_API_USER"],
                    api_key=mtn["USSD_MTN_COLLECTION_API_KEY"],
                )
            )
            if provider == "mtn"
            else AirtelMoney(AirtelSettings())
        )
        url = stack.enter_context(run(self.stand_in))
        self._places = mtn_settings(url) if provider == "mtn" else airtel_settings(url)
        self._stack, self._settings, self._copies = stack, settings, 0
        self.services = self._open()

    def _open(self) -> Services:
        return self._stack.enter_context(services_of(self._settings, self.clock, **self._places))

    def copy_database(self) -> str:
        """A copy of the database as it is now."""
        close_connections()
        url = self._settings.database_url
        if url.startswith("sqlite"):
            path = url.removeprefix("sqlite:///")
            copied = f"{path}.{self._copies}"
            self._copies += 1
            shutil.copy(path, copied)
            return f"sqlite:///{copied}"
        copied = create_database(url, url.rpartition("/")[2])
        self._stack.callback(drop_database, url, copied)
        return copied

    def restore(self, copied: str) -> None:
        """Go on with a copy of the database."""
        close_connections()
        self._settings = replace(self._settings, database_url=copied)
        self.services = self._open()

    def settle(self) -> None:
        catch_up(self.services, self.clock)

    def paid(self) -> list[int]:
        """The amounts in the provider's book, in cents."""
        return [each.amount_cents for each in self.stand_in.book.payments() if each.paid_at is not None]


@pytest.fixture
def settings(settings: Settings, migrated_postgres: str) -> Iterator[Settings]:
    """Settings with a database that can be copied, because nothing else is connected to it."""
    if settings.database_url.startswith("sqlite"):
        yield settings
        return
    url = create_database(migrated_postgres, migrated_postgres.rpartition("/")[2])
    yield replace(settings, database_url=url)
    drop_database(migrated_postgres, url)


@pytest.fixture(params=NUMBERS)
def town(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Town]:
    with ExitStack() as stack:
        yield Town(stack, settings, clock, request.param)


@contextmanager
def forgotten(town: Town) -> Iterator[None]:
    """Restore the database after the block; the provider keeps what happened."""
    before = town.copy_database()
    yield
    town.settle()
    assert check_everything() == []
    town.restore(before)


def repeat_after_loss(town: Town, action: Callable[[], object]) -> None:
    """Do something, lose it, and do it again."""
    with forgotten(town):
        action()
    assert Transaction.select().where(Transaction.status == "created").count() == 0
    action()
    town.settle()


def statuses() -> set[str]:
    return {each.status for each in Transaction.select().where(Transaction.provider.is_null(False))}


@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_a_payment_that_is_repeated_after_a_lost_commit_is_paid_once(town: Town, kind: str) -> None:
    client = a_client()
    deposit(town.services, client, 20_000)

    def pay() -> None:
        for place in range(_REPEATS):
            order = request(kind, town.number, 600 + place, reference=f"{kind}-{place}")
            town.services.transactions.create(order, client)

    repeat_after_loss(town, pay)
    amounts = [(600 + place) * 100 for place in range(_REPEATS)]
    assert sorted(town.paid()) == amounts
    assert statuses() == {"succeeded"}
    moved = sum(amounts) if kind == "collection" else -sum(amounts)
    assert balances(client.client_id)["main"] == (2_000_000 + moved, 0)
    assert check_everything() == []


@pytest.mark.parametrize("by_operators", [False, True])
def test_a_refund_that_is_repeated_after_a_lost_commit_is_paid_once(town: Town, by_operators: bool) -> None:
    client = a_client()
    order = request("collection", town.number, 5000)
    collected = town.services.transactions.create(order, client).transaction
    town.settle()

    def give_back() -> None:
        refunds = town.services.refunds
        if by_operators:
            again = OperatorRefund(collected.transaction_id, "asked for", "Ann", "Ben")
            refunds.create_by_operators(again, operator())
        else:
            refunds.create(CreateRefund(collected.transaction_id, "back"), client)

    repeat_after_loss(town, give_back)
    assert town.paid() == [500_000, 500_000]
    assert statuses() == {"succeeded", "reversed"}
    assert balances(client.client_id)["main"] == (0, 0)
    assert check_everything() == []


def test_an_operators_refund_is_paid_once_although_the_collection_was_lost_too(town: Town) -> None:
    client = a_client()

    def collect_and_give_back() -> None:
        order = request("collection", town.number, 5000)
        collected = town.services.transactions.create(order, client).transaction
        town.settle()
        again = OperatorRefund(collected.transaction_id, "asked for", "Ann", "Ben")
        town.services.refunds.create_by_operators(again, operator())

    repeat_after_loss(town, collect_and_give_back)
    assert town.paid() == [500_000, 500_000]
    assert check_everything() == []


def test_a_payout_that_is_repeated_after_a_lost_commit_is_paid_once(town: Town) -> None:
    desk = PayoutDesk(town.services, town.clock)

    def pay_out() -> None:
        desk.services, desk.payouts = town.services, town.services.payouts
        rows = [row(f"r{place}", town.number, 500 + place) for place in range(_REPEATS)]
        desk.approve(desk.draft(*rows))
        desk.work(20)

    repeat_after_loss(town, pay_out)
    desk.work(40)
    assert sorted(town.paid()) == [(500 + place) * 100 for place in range(_REPEATS)]
    assert statuses() == {"succeeded"}
    assert check_everything() == []


class ApprovedTwice(PayoutDesk):
    """A payout of two rows whose first approval is withdrawn before anything is sent."""

    def __init__(self, town: Town) -> None:
        super().__init__(town.services, town.clock)
        self.town, self.second = town, call_with_key(town.services, self.maker, "payouts:*")
        self.payout = self.draft(row("r1", town.number, 500), row("r2", town.number, 600))

    def approve_first(self) -> None:
        self.approve(self.payout)

    def withdraw_and_approve_again(self) -> None:
        services = self.town.services
        services.api_keys.set_active(self.approver.caller.key_id, False, OPERATOR)
        services.payouts.approve(ApprovePayout(self.payout.payout_id), self.second)

    def send(self) -> None:
        self.services = self.town.services
        self.work(40)

    def assert_paid_once(self) -> None:
        self.town.settle()
        self.tick()
        assert (sorted(self.town.paid()), self.main()) == ([50_000, 60_000], (50_000_000 - 110_000, 0))
        assert check_everything(vault=self.town.services.runtime.vault) == []


def test_a_payout_that_was_sent_before_the_loss_is_paid_once_when_another_approval_takes_its_place(town: Town) -> None:
    desk = ApprovedTwice(town)
    desk.approve_first()
    with forgotten(town):
        desk.send()
    desk.withdraw_and_approve_again()
    desk.send()
    desk.assert_paid_once()


def test_a_payout_whose_second_approval_was_lost_is_paid_once(town: Town) -> None:
    desk = ApprovedTwice(town)
    desk.approve_first()
    with forgotten(town):
        desk.withdraw_and_approve_again()
        desk.send()
    desk.send()
    desk.assert_paid_once()


def test_a_payout_that_is_approved_a_third_time_after_the_loss_is_paid_once(town: Town) -> None:
    desk = ApprovedTwice(town)
    desk.approve_first()
    desk.withdraw_and_approve_again()
    with forgotten(town):
        desk.send()
    third = call_with_key(town.services, desk.maker, "payouts:*")
    town.services.api_keys.set_active(desk.second.caller.key_id, False, OPERATOR)
    town.services.payouts.approve(ApprovePayout(desk.payout.payout_id), third)
    desk.send()
    desk.assert_paid_once()


def test_a_payout_that_was_sent_before_the_loss_is_paid_once_when_its_cancelled_rows_are_retried(town: Town) -> None:
    desk = ApprovedTwice(town)
    desk.approve_first()
    with forgotten(town):
        desk.send()
    desk.services = town.services
    payouts, payout_id = town.services.payouts, desk.payout.payout_id
    payouts.cancel(CancelPayout(payout_id), desk.maker)
    for number in (2, 3):
        payouts.retry(RetryPayout(payout_id), desk.maker)
        if number == 2:
            payouts.cancel(CancelPayout(payout_id), desk.maker)
    payouts.approve(ApprovePayout(payout_id, 3), desk.approver)
    desk.send()
    desk.assert_paid_once()


def test_a_round_that_was_lost_goes_to_the_provider_under_its_old_names(town: Town) -> None:
    town.stand_in.switches.change({"opening_balance": 0})
    desk = PayoutDesk(town.services, town.clock)
    payout = desk.draft(row("r", town.number, 500))
    desk.approve(payout)
    desk.work(20)
    town.settle()
    town.clock.advance(_FAILURE_IS_FINAL_SECONDS)
    desk.work(1)
    town.stand_in.switches.change({"opening_balance": 1000})

    def pay_again() -> None:
        desk.services, desk.payouts = town.services, town.services.payouts
        desk.payouts.retry(RetryPayout(payout.payout_id), desk.maker)
        desk.payouts.approve(ApprovePayout(payout.payout_id, 2), desk.approver)
        desk.work(20)

    repeat_after_loss(town, pay_again)
    assert (town.paid(), len(town.stand_in.book.payments())) == ([50_000], 2)
    assert (desk.states(payout), desk.main()) == (["succeeded"], (50_000_000 - 50_000, 0))
    assert check_everything(vault=town.services.runtime.vault) == []


def test_a_row_of_a_payout_and_a_payment_of_the_same_name_are_one_payment(town: Town) -> None:
    desk = PayoutDesk(town.services, town.clock)
    with forgotten(town):
        desk.approve(desk.draft(row("r", town.number, 500), reference="p"))
        desk.work(5)
    order = request("disbursement", town.number, 500, reference="p/r")
    town.services.transactions.create(order, desk.maker)
    town.settle()
    assert (town.paid(), statuses()) == ([50_000], {"succeeded"})


def pay_by_phone(town: Town, shop: Shop, session: str, shillings: int, number: str | None = None) -> None:
    """Walk to the confirmation and confirm, in the steps that Africa's Talking sends."""
    web = create_app(town.services).test_client()

    def step(*entries: str) -> str:
        form = {"sessionId": session, "phoneNumber": number or town.number, "networkCode": "64110", "serviceCode": CODE}
        return web.post(shop.channel.gateway_path, data=form | {"text": "*".join(entries)}).text

    # The outcome of the payment before is shown first.
    dialled = ["0"] if "Your payment" in step() else []
    entries = [*dialled, "1", str(shillings), "1"]
    screens = [step(*entries[: place + 1]) for place in range(len(entries))]
    assert "Approve" in screens[-1], screens


def test_a_conversation_that_was_lost_whole_pays_once(town: Town) -> None:
    shop = Shop(town.services)
    # Two numbers in turn, because one may begin no more than 30 conversations in a minute.
    numbers = town.number, f"{town.number[:-1]}9"

    def pay() -> None:
        for place in range(_REPEATS):
            pay_by_phone(town, shop, f"call-{place}", 600 + place, numbers[place % 2])
            town.settle()

    repeat_after_loss(town, pay)
    assert sorted(town.paid()) == [(600 + place) * 100 for place in range(_REPEATS)]
    assert statuses() == {"succeeded"}
    assert check_everything() == []


def test_a_conversation_may_confirm_at_one_node_twice_and_each_is_paid_once(town: Town) -> None:
    shop = Shop(town.services)

    def pay_twice() -> None:
        for _ in range(2):
            pay_by_phone(town, shop, "call", 600)
            town.settle()

    repeat_after_loss(town, pay_twice)
    assert town.paid() == [60_000, 60_000]
    assert statuses() == {"succeeded"}
    assert check_everything() == []


def test_a_session_of_the_api_pays_at_each_of_its_confirmations(town: Town) -> None:
    shop = Shop(town.services, code=CODE)
    sessions = town.services.api_sessions
    for _ in range(2):
        session = sessions.begin(BeginSession(town.number, CODE), shop.call)
        for text in ("1", "600", "1"):
            sessions.enter(EnterText(session.session_id, text), shop.call)
    town.settle()
    assert town.paid() == [60_000, 60_000]


def lost_order(town: Town, client: RequestContext, number: str, shillings: int) -> Transaction:
    """A reference that the database forgot, used again for something else."""
    with forgotten(town):
        order = request("collection", town.number, 5000, reference="same")
        town.services.transactions.create(order, client)
    order = request("collection", number, shillings, reference="same", provider=town.provider)
    made = town.services.transactions.create(order, client).transaction
    found: Transaction = Transaction.get_by_id(made.transaction_id)
    deadline = time.monotonic() + 30
    while found.review_opened_at is None:
        assert time.monotonic() < deadline, found.status
        for claimed in town.services.processing.claim(10):
            town.services.processing.advance(claimed)
        town.clock.advance(60)
        found = Transaction.get_by_id(made.transaction_id)
    return found


def test_a_lost_reference_that_comes_back_with_another_amount_is_reviewed(town: Town) -> None:
    client = a_client()
    found = lost_order(town, client, town.number, 7000)
    assert found.review_reason == REVIEW_AMOUNT.format("UGX 5,000")
    assert (town.paid(), balances(client.client_id)) == ([500_000], {})


@pytest.mark.parametrize("town", ["mtn"], indirect=True)
def test_a_lost_reference_that_comes_back_with_another_number_is_reviewed(town: Town) -> None:
    client = a_client()
    found = lost_order(town, client, "+256772999999", 5000)
    assert (found.status, found.review_reason) == ("ambiguous", REVIEW_ANOTHER)
    assert (town.paid(), balances(client.client_id)) == ([500_000], {})


def test_a_payment_that_failed_before_it_was_lost_fails_again_and_is_not_sent_anew(town: Town) -> None:
    town.number = {"mtn": "+46733123451", "airtel": "+256750000008"}[town.provider]
    client = a_client()
    order = replace(request("collection", "+256770000000", 5000), phone_number=town.number, provider=town.provider)
    repeat_after_loss(town, lambda: town.services.transactions.create(copy.copy(order), client))
    assert (statuses(), town.paid(), len(town.stand_in.book.payments())) == ({"failed"}, [], 1)
