"""What is created, what is refused, and what each answer of a provider does."""

from __future__ import annotations

from typing import Any

import pytest
from peewee import IntegrityError

from tests.conftest import MovableClock
from tests.support.money import a_client, balances, deposit, request, work
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import database, is_postgres
from ussd_server.models.sending import Event
from ussd_server.models.transactions import IdempotencyKey
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.messages import (
    CreateRefund,
    GetTransaction,
    ListTransactions,
    TransactionView,
    WriteNote,
)
from ussd_server.services.transactions.refunds import RefundService
from ussd_server.services.webhooks.events import payloads_of
from ussd_server.status import Code, ServiceError
from ussd_server.wire import writer


def seen(services: Services, context: RequestContext, transaction_id: str) -> TransactionView:
    return services.transactions.get(GetTransaction(transaction_id), context)


def made(services: Services, context: RequestContext, *args: object, **kwargs: object) -> str:
    return services.transactions.create(request(*args, **kwargs), context).transaction.transaction_id  # type: ignore[arg-type]


def changes_of(view: TransactionView) -> list[tuple[str, str]]:
    return [(change.status.value, change.source.value) for change in view.events]


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
def test_every_number_of_the_sandbox_has_its_own_outcome(
    services: Services,
    clock: MovableClock,
    number: str,
    seconds: int,
    status: str,
    failure: str | None,
    late: bool,
    statuses: list[str],
) -> None:
    context = a_client()
    transaction_id = made(services, context, number=f"+2567700000{number}")
    work(services, clock, seconds)
    view = seen(services, context, transaction_id)
    assert [status for status, _ in changes_of(view)] == statuses
    assert (view.status, view.failure and view.failure.code, view.late) == (status, failure, late)
    arrived = 500_000 if status == "succeeded" else 0
    assert balances(context.client_id).get("main", (0, 0)) == (arrived, 0)


def test_a_late_success_of_a_released_disbursement_is_booked_as_a_shortfall(
    services: Services, clock: MovableClock
) -> None:
    context = a_client()
    deposit(services, context, 4000)
    transaction_id = made(services, context, "disbursement", "+256770000009", 4000)
    work(services, clock, 2)
    assert seen(services, context, transaction_id).status == "failed"
    made(services, context, "disbursement", "+256770000000", 4000, reference="spent meanwhile")
    work(services, clock, 10)
    assert seen(services, context, transaction_id).late
    event = Event.get(Event.object_id == transaction_id, Event.type == "transaction.succeeded")
    assert payloads_of([event])[event.id]["late"] is True
    assert balances(context.client_id)["main"] == (0, 0)
    assert balances(context.client_id)["shortfall"] == (-400_000, 0)


def test_a_transfer_moves_at_once_between_two_subscribers(services: Services, clock: MovableClock) -> None:
    context = a_client()
    made(services, context, account="+256770000000", shillings=900)
    work(services, clock)
    view = services.transactions.create(
        request("transfer", "+256770000000", 300, to_phone_number="+256770000004"), context
    ).transaction
    assert (view.status, view.provider, view.provider_reference) == ("succeeded", None, None)
    assert balances(context.client_id)["+256770000000"] == (60_000, 0)
    assert balances(context.client_id)["+256770000004"] == (30_000, 0)
    beyond = request("transfer", "+256770000000", 601, to_phone_number="+256770000004", reference="beyond")
    with pytest.raises(ServiceError) as refusal:
        services.transactions.create(beyond, context)
    assert refusal.value.code is Code.INSUFFICIENT_BALANCE


def test_a_key_that_came_with_a_repeat_belongs_to_what_was_repeated(services: Services, clock: MovableClock) -> None:
    context, other = a_client(), a_client("Other")
    first = services.transactions.create(
        request(reference="a", idempotency_key="K1"), context
    ).transaction.transaction_id
    keyless = services.transactions.create(request(reference="none"), context).transaction.transaction_id
    work(services, clock)
    back = services.refunds.create(CreateRefund(first, "back"), context).transaction.transaction_id
    for _ in range(2):
        for key in ("K2", "K1", "K3"):
            again = services.transactions.create(request(reference="a", idempotency_key=key), context)
            assert (again.replayed, again.transaction.transaction_id) == (True, first)
        again = services.transactions.create(request(reference="none", idempotency_key="K4"), context)
        assert (again.replayed, again.transaction.transaction_id) == (True, keyless)
        again = services.refunds.create(CreateRefund(first, "back", idempotency_key="K5"), context)
        assert (again.replayed, again.transaction.transaction_id) == (True, back)
    for key in ("K1", "K2", "K3", "K4", "K5"):
        for reused in (request(reference="b", idempotency_key=key), request(reference="none", idempotency_key=key)):
            if (reused.reference, key) != ("none", "K4"):
                with pytest.raises(ServiceError) as refusal:
                    services.transactions.create(reused, context)
                assert refusal.value.code is Code.IDEMPOTENCY_KEY_REUSED
    with pytest.raises(ServiceError):
        services.transactions.create(request(reference="a", idempotency_key="K4"), context)
    assert not services.transactions.create(request(reference="b", idempotency_key="K2"), other).replayed
    assert not services.transactions.create(request(reference="b"), context).replayed, "a refusal uses no name up"


def test_a_key_of_a_repeat_that_was_refused_stays_free(services: Services) -> None:
    context = a_client()
    services.transactions.create(request(reference="a", idempotency_key="K1"), context)
    with pytest.raises(ServiceError):
        services.transactions.create(request(reference="a", shillings=1, idempotency_key="K2"), context)
    assert not services.transactions.create(request(reference="b", idempotency_key="K2"), context).replayed


def test_the_keys_of_transactions_are_never_changed_or_removed(services: Services) -> None:
    context = a_client()
    services.transactions.create(request(reference="a", idempotency_key="K1"), context)
    services.transactions.create(request(reference="a", idempotency_key="K2"), context)
    replace = "REPLACE INTO idempotency_keys SELECT client_id, 'K1', transaction_id, created_at FROM idempotency_keys"
    for edit in ("UPDATE idempotency_keys SET key = 'K3'", "DELETE FROM idempotency_keys", replace):
        if not (edit is replace and is_postgres()):
            with pytest.raises(IntegrityError):
                database.execute_sql(edit)
    assert {each.key for each in IdempotencyKey.select()} == {"K1", "K2"}


def test_a_repeat_returns_the_transaction_although_a_new_request_would_be_refused(
    services: Services, clock: MovableClock
) -> None:
    context = a_client()
    deposit(services, context, 4000)
    spent = request("disbursement", shillings=4000, reference="spent")
    first = made(services, context, "disbursement", shillings=4000, reference="spent")
    collected = made(services, context, shillings=5000, reference="collected")
    work(services, clock)
    back = CreateRefund(collected, "back")
    services.refunds.create(back, context)
    work(services, clock)
    assert seen(services, context, collected).status == "reversed", "no refund of it would be taken now"
    without_providers = other_runtime(services, providers=Providers([]))
    switched_off = RefundService(without_providers, TransactionCreator(without_providers), services.transactions)
    assert services.transactions.create(spent, context).transaction.transaction_id == first
    for refunds in (services.refunds, switched_off):
        assert refunds.create(back, context).replayed


def test_an_operator_and_a_client_take_no_names_from_each_other(services: Services) -> None:
    context = a_client()
    deposit(services, context, 1000, "march")
    assert not services.transactions.create(request("disbursement", shillings=100, reference="march"), context).replayed
    services.transactions.create(request(reference="april"), context)
    deposit(services, context, 500, "april")
    deposit(services, context, 500, "april")
    assert balances(context.client_id)["main"] == (150_000, 10_000)
    listed = services.transactions.list(ListTransactions(reference="april"), context).items
    assert sorted(item.type for item in listed) == ["collection", "deposit"]


def test_payments_of_an_amount_are_listed(services: Services) -> None:
    context = a_client()
    wanted = made(services, context, shillings=5001)
    made(services, context, shillings=5000)
    for list_payments in (services.transactions.list, services.transactions.list_collected):
        listed = list_payments(ListTransactions(amount_cents=500_100), context).items
        assert [item.transaction_id for item in listed] == [wanted]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_payments_of_a_number_and_an_amount_are_found_among_those_of_the_number(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, statements = a_client(), list[tuple[str, Any]]()
    wanted = made(services, context, shillings=5001)
    execute = database.obj.execute_sql
    monkeypatch.setattr(
        database.obj, "execute_sql", lambda sql, *more: statements.append((sql, *more)) or execute(sql, *more)
    )
    both = ListTransactions(amount_cents=500_100, phone_number="+256770000000")
    listed = services.transactions.list(both, context).items
    assert [item.transaction_id for item in listed] == [wanted]
    # Statistics are not there: SQLite would read all payments of a usual amount.
    plans = [str(execute(f"EXPLAIN QUERY PLAN {sql}", *more).fetchall()) for sql, *more in statements]
    assert any("transactions_newest_of_phone" in plan for plan in plans)
    assert not any("transactions_newest_of_amount" in plan for plan in plans)


def test_a_note_on_a_payment_stays_with_who_wrote_it(services: Services, clock: MovableClock) -> None:
    context = a_client()
    payment = made(services, context)
    services.notes.write(WriteNote(payment, " The payer called; she paid twice. "), context)
    clock.advance(1)
    services.notes.write(WriteNote(payment, "=1+1"), context)
    assert [note.text for note in services.notes.list(payment, context)] == [
        "The payer called; she paid twice.",
        "=1+1",
    ]
    assert services.notes.list(payment, a_client("Other")) == ()
    with pytest.raises(ServiceError) as foreign:
        services.notes.write(WriteNote(payment, "hers"), a_client("Third"))
    assert foreign.value.code is Code.TRANSACTION_NOT_FOUND
    for text in (" ", "x" * 201):
        with pytest.raises(ServiceError) as refused:
            services.notes.write(WriteNote(payment, text), context)
        assert refused.value.code is Code.INVALID_REQUEST


def test_the_same_reference_of_another_client_is_another_transaction(services: Services) -> None:
    one, other = a_client(), a_client("Other")
    assert made(services, one, reference="r") != made(services, other, reference="r")
    with pytest.raises(ServiceError) as refusal:
        seen(services, other, made(services, one, reference="r"))
    assert refusal.value.code is Code.TRANSACTION_NOT_FOUND


def test_a_collection_given_back_wholly_is_reversed(services: Services, clock: MovableClock) -> None:
    context = a_client()
    original = made(services, context, shillings=5000)
    work(services, clock)
    services.refunds.create(CreateRefund(original, "part", 200_000), context)
    work(services, clock)
    assert seen(services, context, original).status == "succeeded"
    services.refunds.create(CreateRefund(original, "rest"), context)
    work(services, clock)
    reversal = seen(services, context, original).events[-1]
    assert (reversal.status, reversal.detail.note) == ("reversed", "Its refunds add up to its whole amount")
    assert reversal.detail.provider_code is None
    assert balances(context.client_id) == {"main": (0, 0), "provider:sandbox": (0, 0)}
    with pytest.raises(ServiceError):
        services.refunds.create(CreateRefund(original, "once more"), context)


def test_refunds_never_give_back_more_than_was_collected(services: Services, clock: MovableClock) -> None:
    context = a_client()
    original = made(services, context, shillings=5000)
    work(services, clock)
    deposit(services, context, 100_000)
    services.refunds.create(CreateRefund(original, "one", 300_000), context)
    with pytest.raises(ServiceError) as refusal:
        services.refunds.create(CreateRefund(original, "two", 300_000), context)
    assert refusal.value.code is Code.INVALID_AMOUNT


def test_the_payload_of_an_event_is_the_record_that_the_api_shows(services: Services, clock: MovableClock) -> None:
    context = a_client()
    metadata = {"basket": [17, "ü"]}
    transaction_id = made(services, context, number="+256770000009", metadata=metadata, description="Order")
    for status, seconds in (("created", None), ("pending", 0), ("failed", 1.5), ("succeeded", 6)):
        if seconds is not None:
            work(services, clock, seconds)
        event = Event.get(Event.object_id == transaction_id, Event.type == f"transaction.{status}")
        record = writer(TransactionView)(seen(services, context, transaction_id))
        assert list(payloads_of([event])[event.id].items()) == list(record.items())
        assert status != "created" or None not in event.payload.values()
