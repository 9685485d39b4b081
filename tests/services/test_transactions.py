"""Transactions never lie: what is recorded, what is refused, and what each answer of a company does."""

from __future__ import annotations

import pytest
from peewee import IntegrityError

from tests.conftest import MovableClock
from tests.services.money import a_client, balances, deposit, wish, work
from ussd_server.house import Services
from ussd_server.messages.transactions import CreateRefund, GetTransaction, ListTransactions, TransactionView
from ussd_server.models.base import database, is_postgres, iso_milliseconds
from ussd_server.models.events import Event
from ussd_server.models.transactions import IdempotencyKey
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.services.providers import Providers
from ussd_server.services.recording import Recorder
from ussd_server.services.refunds import RefundService


def seen(house: Services, call: CallContext, transaction_id: str) -> TransactionView:
    return house.transactions.get(GetTransaction(transaction_id), call)


def made(house: Services, call: CallContext, *args: object, **kwargs: object) -> str:
    return house.transactions.create(wish(*args, **kwargs), call).transaction.transaction_id  # type: ignore[arg-type]


def story(view: TransactionView) -> list[tuple[str, str]]:
    return [(change.status.value, change.source.value) for change in view.events]


def test_a_collection_is_recorded_then_asked_then_paid_into_the_main_account(
    house: Services, clock: MovableClock
) -> None:
    call = a_client()
    recorded = house.transactions.create(wish(shillings=5000), call)
    assert (recorded.replayed, recorded.transaction.status) == (False, "created")
    assert balances(call.client_id) == {}
    work(house, clock)
    view = seen(house, call, recorded.transaction.transaction_id)
    assert story(view) == [("created", "submit"), ("submitted", "submit"), ("succeeded", "submit")]
    assert view.completed_at is not None
    assert view.next_check_at is None
    assert balances(call.client_id) == {"main": (500_000, 0), "provider:sandbox": (-500_000, 0)}


@pytest.mark.parametrize(
    ("number", "seconds", "status", "failure", "late", "statuses"),
    [
        ("00", 0, "succeeded", None, False, ["created", "submitted", "succeeded"]),
        ("01", 0, "failed", "INSUFFICIENT_BALANCE", False, ["created", "submitted", "failed"]),
        ("02", 0, "failed", "PAYER_DECLINED", False, ["created", "submitted", "failed"]),
        ("03", 8, "failed", "PAYER_TIMEOUT", False, ["created", "submitted", "pending", "failed"]),
        ("04", 5, "succeeded", None, False, ["created", "submitted", "pending", "succeeded"]),
        ("05", 5, "failed", "PROVIDER_ERROR", False, ["created", "submitted", "pending", "failed"]),
        ("06", 5, "succeeded", None, False, ["created", "submitted", "ambiguous", "succeeded"]),
        ("07", 40, "ambiguous", None, False, ["created", "submitted", "ambiguous"]),
        ("09", 12, "succeeded", None, True, ["created", "submitted", "pending", "failed", "succeeded"]),
        ("42", 3, "succeeded", None, False, ["created", "submitted", "pending", "succeeded"]),
    ],
)
def test_every_number_of_the_sandbox_tells_its_story(
    house: Services,
    clock: MovableClock,
    number: str,
    seconds: int,
    status: str,
    failure: str | None,
    late: bool,
    statuses: list[str],
) -> None:
    call = a_client()
    transaction_id = made(house, call, number=f"+2567700000{number}")
    work(house, clock, seconds)
    view = seen(house, call, transaction_id)
    assert [status for status, _ in story(view)] == statuses
    assert (view.status, view.failure and view.failure.code, view.late) == (status, failure, late)
    arrived = 500_000 if status == "succeeded" else 0
    assert balances(call.client_id).get("main", (0, 0)) == (arrived, 0)


def test_a_disbursement_reserves_when_it_is_created_and_pays_when_it_succeeds(
    house: Services, clock: MovableClock
) -> None:
    call = a_client()
    deposit(house, call, 10_000)
    made(house, call, "disbursement", shillings=4000)
    assert balances(call.client_id)["main"] == (1_000_000, 400_000)
    work(house, clock)
    assert balances(call.client_id)["main"] == (600_000, 0)


def test_a_failed_disbursement_releases_its_reservation(house: Services, clock: MovableClock) -> None:
    call = a_client()
    deposit(house, call, 10_000)
    made(house, call, "disbursement", "+256770000001", 4000)
    work(house, clock)
    assert balances(call.client_id)["main"] == (1_000_000, 0)


def test_an_ambiguous_disbursement_keeps_its_reservation(house: Services, clock: MovableClock) -> None:
    call = a_client()
    deposit(house, call, 10_000)
    transaction_id = made(house, call, "disbursement", "+256770000007", 4000)
    work(house, clock, 60)
    assert seen(house, call, transaction_id).status == "ambiguous"
    assert balances(call.client_id)["main"] == (1_000_000, 400_000)


def test_a_disbursement_beyond_the_balance_is_refused_and_leaves_no_trace(house: Services, clock: MovableClock) -> None:
    call = a_client()
    deposit(house, call, 3999)
    with pytest.raises(ServiceError) as refusal:
        house.transactions.create(wish("disbursement", shillings=4000, reference="r"), call)
    assert refusal.value.code is Code.INSUFFICIENT_BALANCE
    deposit(house, call, 1, "more")
    assert not house.transactions.create(wish("disbursement", shillings=4000, reference="r"), call).replayed


def test_a_late_success_of_a_released_disbursement_is_booked_as_a_shortfall(
    house: Services, clock: MovableClock
) -> None:
    call = a_client()
    deposit(house, call, 4000)
    transaction_id = made(house, call, "disbursement", "+256770000009", 4000)
    work(house, clock, 2)
    assert seen(house, call, transaction_id).status == "failed"
    made(house, call, "disbursement", "+256770000000", 4000, reference="spent meanwhile")
    work(house, clock, 10)
    assert seen(house, call, transaction_id).late
    told = Event.get(Event.object_id == transaction_id, Event.type == "transaction.succeeded")
    assert told.payload["late"] is True
    assert balances(call.client_id)["main"] == (0, 0)
    assert balances(call.client_id)["shortfall"] == (-400_000, 0)


def test_a_transfer_moves_at_once_between_two_subscribers(house: Services, clock: MovableClock) -> None:
    call = a_client()
    made(house, call, account="+256770000000", shillings=900)
    work(house, clock)
    view = house.transactions.create(
        wish("transfer", "+256770000000", 300, to_phone_number="+256770000004"), call
    ).transaction
    assert (view.status, view.provider, view.provider_reference) == ("succeeded", None, None)
    assert balances(call.client_id)["+256770000000"] == (60_000, 0)
    assert balances(call.client_id)["+256770000004"] == (30_000, 0)


def test_a_repeated_collection_takes_money_once(house: Services, clock: MovableClock) -> None:
    call = a_client()
    first = house.transactions.create(wish(), call)
    work(house, clock)
    again = house.transactions.create(wish(), call)
    assert (again.replayed, again.transaction.transaction_id) == (True, first.transaction.transaction_id)
    assert again.transaction.status == "succeeded"
    work(house, clock, 5)
    assert balances(call.client_id)["main"] == (500_000, 0)


def test_a_reference_or_key_used_for_something_else_is_refused(house: Services) -> None:
    call = a_client()
    house.transactions.create(wish(reference="r", idempotency_key="k"), call)
    for other in (
        wish(reference="r", shillings=1),
        wish(reference="other", idempotency_key="k"),
    ):
        with pytest.raises(ServiceError) as refusal:
            house.transactions.create(other, call)
        assert refusal.value.code is Code.IDEMPOTENCY_KEY_REUSED


def test_a_key_that_came_with_a_repeat_belongs_to_what_was_repeated(house: Services, clock: MovableClock) -> None:
    call, other = a_client(), a_client("Other")
    first = house.transactions.create(wish(reference="a", idempotency_key="K1"), call).transaction.transaction_id
    keyless = house.transactions.create(wish(reference="none"), call).transaction.transaction_id
    work(house, clock)
    back = house.refunds.create(CreateRefund(first, "back"), call).transaction.transaction_id
    for _ in range(2):
        for key in ("K2", "K1", "K3"):
            again = house.transactions.create(wish(reference="a", idempotency_key=key), call)
            assert (again.replayed, again.transaction.transaction_id) == (True, first)
        again = house.transactions.create(wish(reference="none", idempotency_key="K4"), call)
        assert (again.replayed, again.transaction.transaction_id) == (True, keyless)
        again = house.refunds.create(CreateRefund(first, "back", idempotency_key="K5"), call)
        assert (again.replayed, again.transaction.transaction_id) == (True, back)
    for key in ("K1", "K2", "K3", "K4", "K5"):
        for reused in (wish(reference="b", idempotency_key=key), wish(reference="none", idempotency_key=key)):
            if (reused.reference, key) != ("none", "K4"):
                with pytest.raises(ServiceError) as refusal:
                    house.transactions.create(reused, call)
                assert refusal.value.code is Code.IDEMPOTENCY_KEY_REUSED
    with pytest.raises(ServiceError):
        house.transactions.create(wish(reference="a", idempotency_key="K4"), call)
    assert not house.transactions.create(wish(reference="b", idempotency_key="K2"), other).replayed
    assert not house.transactions.create(wish(reference="b"), call).replayed, "a refusal uses no name up"


def test_a_key_of_a_repeat_that_was_refused_stays_free(house: Services) -> None:
    call = a_client()
    house.transactions.create(wish(reference="a", idempotency_key="K1"), call)
    with pytest.raises(ServiceError):
        house.transactions.create(wish(reference="a", shillings=1, idempotency_key="K2"), call)
    assert not house.transactions.create(wish(reference="b", idempotency_key="K2"), call).replayed


def test_a_key_of_a_transaction_that_is_older_than_the_table_of_keys_still_belongs_to_it(house: Services) -> None:
    call = a_client()
    execute = database.execute_sql
    execute("DROP TRIGGER transactions_bind_key" + (" ON transactions" if is_postgres() else ""))
    house.transactions.create(wish(reference="a", idempotency_key="K1"), call)
    assert IdempotencyKey.select().count() == 0
    assert house.transactions.create(wish(reference="a", idempotency_key="K1"), call).replayed
    with pytest.raises(ServiceError) as refusal:
        house.transactions.create(wish(reference="b", idempotency_key="K1"), call)
    assert refusal.value.code is Code.IDEMPOTENCY_KEY_REUSED


def test_the_keys_of_transactions_are_never_changed_or_removed(house: Services) -> None:
    call = a_client()
    house.transactions.create(wish(reference="a", idempotency_key="K1"), call)
    house.transactions.create(wish(reference="a", idempotency_key="K2"), call)
    replace = "REPLACE INTO idempotency_keys SELECT client_id, 'K1', transaction_id, created_at FROM idempotency_keys"
    for edit in ("UPDATE idempotency_keys SET key = 'K3'", "DELETE FROM idempotency_keys", replace):
        if not (edit is replace and is_postgres()):
            with pytest.raises(IntegrityError):
                database.execute_sql(edit)
    assert {each.key for each in IdempotencyKey.select()} == {"K1", "K2"}


def test_a_repeat_is_answered_although_the_wish_would_be_refused_by_now(house: Services, clock: MovableClock) -> None:
    call = a_client()
    deposit(house, call, 4000)
    spent = wish("disbursement", shillings=4000, reference="spent")
    first = made(house, call, "disbursement", shillings=4000, reference="spent")
    collected = made(house, call, shillings=5000, reference="collected")
    work(house, clock)
    back = CreateRefund(collected, "back")
    house.refunds.create(back, call)
    work(house, clock)
    assert seen(house, call, collected).status == "reversed", "no refund of it would be taken now"
    switched_off = RefundService(Recorder(clock, lambda: None), Providers([], lambda _: None))
    assert house.transactions.create(spent, call).transaction.transaction_id == first
    for refunds in (house.refunds, switched_off):
        assert refunds.create(back, call).replayed


def test_an_operator_and_a_client_take_no_names_from_each_other(house: Services) -> None:
    call = a_client()
    deposit(house, call, 1000, "march")
    assert not house.transactions.create(wish("disbursement", shillings=100, reference="march"), call).replayed
    house.transactions.create(wish(reference="april"), call)
    deposit(house, call, 500, "april")
    deposit(house, call, 500, "april")
    assert balances(call.client_id)["main"] == (150_000, 10_000)
    listed = house.transactions.list(ListTransactions(reference="april"), call).items
    assert sorted(item.type for item in listed) == ["collection", "deposit"]


def test_the_same_reference_of_another_client_is_another_transaction(house: Services) -> None:
    one, other = a_client(), a_client("Other")
    assert made(house, one, reference="r") != made(house, other, reference="r")
    with pytest.raises(ServiceError) as refusal:
        seen(house, other, made(house, one, reference="r"))
    assert refusal.value.code is Code.TRANSACTION_NOT_FOUND


def test_a_collection_given_back_wholly_is_reversed(house: Services, clock: MovableClock) -> None:
    call = a_client()
    original = made(house, call, shillings=5000)
    work(house, clock)
    house.refunds.create(CreateRefund(original, "part", 200_000), call)
    work(house, clock)
    assert seen(house, call, original).status == "succeeded"
    house.refunds.create(CreateRefund(original, "rest"), call)
    work(house, clock)
    assert seen(house, call, original).status == "reversed"
    assert balances(call.client_id) == {"main": (0, 0), "provider:sandbox": (0, 0)}
    with pytest.raises(ServiceError):
        house.refunds.create(CreateRefund(original, "once more"), call)


def test_refunds_never_give_back_more_than_was_collected(house: Services, clock: MovableClock) -> None:
    call = a_client()
    original = made(house, call, shillings=5000)
    work(house, clock)
    deposit(house, call, 100_000)
    house.refunds.create(CreateRefund(original, "one", 300_000), call)
    with pytest.raises(ServiceError) as refusal:
        house.refunds.create(CreateRefund(original, "two", 300_000), call)
    assert refusal.value.code is Code.INVALID_AMOUNT


def test_an_event_tells_the_next_look_as_the_record_does(house: Services, clock: MovableClock) -> None:
    call = a_client()
    transaction_id = made(house, call, number="+256770000009")
    for status, seconds in (("pending", 0), ("failed", 1.5), ("succeeded", 6)):
        work(house, clock, seconds)
        event = Event.get(Event.object_id == transaction_id, Event.type == f"transaction.{status}")
        next_look = seen(house, call, transaction_id).next_check_at
        assert event.payload["next_check_at"] == (next_look and iso_milliseconds(next_look))
