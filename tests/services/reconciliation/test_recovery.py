"""After a restore: what providers have and the database lost is booked by two, and a client's repeat finds it."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import csv_file, kampala, mtn_row, reconcile
from tests.support.books import check_everything
from tests.support.competitors import competing
from tests.support.money import a_client, balances, deposit, operator, request, work
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import IN
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.receipts import money_of
from ussd_server.services.movements.messages import ListMovements
from ussd_server.services.reconciliation.messages import BookLost, Claim, FindLost, LostPayment, RecoveredPayment
from ussd_server.services.transactions.messages import CreateRefund, ListTransactions, TransactionType
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

NUMBER = "+256770000000"


@pytest.fixture
def client() -> RequestContext:
    return a_client()


def line(
    services: Services, client: RequestContext, clock: MovableClock, kind: str = "collection", **more: Any
) -> list[str]:
    """The provider's line of a payment of UGX 5,000 under the reference R1 whose commit was lost."""
    name = services.runtime.references.of_reference(client.client_id, TransactionType(kind), "R1")
    party = f"FRI:{NUMBER[1:]}/MSISDN"
    values = {
        "Id": "990001",
        "External id": name,
        "Date": kampala(clock.now()),
        "Status": "Successful",
        "Type": "Payment" if kind == "collection" else "Transfer",
        "From": party if kind == "collection" else "FRI:41000001/MM",
        "To": party if kind == "disbursement" else "FRI:41000001/MM",
        "Amount": "5,000.00",
        "Currency": "UGX",
        "Fee": "0",
        "Balance": "",
    }
    return list((values | more).values())


def find(services: Services, clock: MovableClock, *rows: list[str]) -> tuple[LostPayment, ...]:
    since = clock.now() - timedelta(hours=1)
    return services.recovery.find(FindLost(since, [("sandbox", io.BytesIO(csv_file(rows)))]), operator())


def book(services: Services, lost: tuple[LostPayment, ...], *claims: Claim) -> tuple[RecoveredPayment, ...]:
    return services.recovery.book(BookLost(lost, claims, "Mary Akello", "John Okot"), operator())


def test_a_lost_collection_is_found_booked_once_and_answers_its_clients_repeat(
    services: Services, clock: MovableClock, client: RequestContext
) -> None:
    known = services.transactions.create(request(reference="known"), client).transaction
    work(services, clock, 5)
    lost = find(services, clock, mtn_row(Transaction.get_by_id(known.transaction_id)), line(services, client, clock))
    (found,) = lost
    assert (found.provider_id, found.type, found.amount_cents, found.phone_number) == (
        "990001",
        "collection",
        500_000,
        NUMBER,
    )
    claim = Claim("sandbox", "990001", client.client_id, "R1")
    (booked,) = book(services, lost, claim)
    assert not booked.replayed
    assert [each.replayed for each in book(services, lost, claim)] == [True]
    assert find(services, clock, line(services, client, clock)) == ()
    # The command finds nothing any more when the same file is booked again.
    assert [(each.transaction_id, each.replayed) for each in book(services, (), claim)] == [
        (booked.transaction_id, True)
    ]
    with pytest.raises(ServiceError, match="is not among the lost payments"):
        book(services, (), replace(claim, reference="known"))
    repeated = services.transactions.create(request(reference="R1", description="as the client sent it"), client)
    assert (repeated.replayed, repeated.transaction.transaction_id) == (True, booked.transaction_id)
    with pytest.raises(ServiceError) as refused:
        services.transactions.create(request(reference="R1", shillings=6000), client)
    assert refused.value.code is Code.IDEMPOTENCY_KEY_REUSED
    assert balances(client.client_id)["main"] == (1_000_000, 0)
    assert check_everything() == []


def test_a_name_that_its_provider_got_without_hyphens_proves_a_lost_payment(
    services: Services, clock: MovableClock, client: RequestContext
) -> None:
    name = services.runtime.references.of_reference(client.client_id, TransactionType.COLLECTION, "R1")
    lost = find(services, clock, line(services, client, clock, **{"External id": name.replace("-", "")}))
    book(services, lost, Claim("sandbox", "990001", client.client_id, "R1"))
    assert services.transactions.create(request(reference="R1"), client).replayed
    assert check_everything() == []


def test_a_lost_disbursement_needs_the_money_that_it_took(
    services: Services, clock: MovableClock, client: RequestContext
) -> None:
    lost = find(services, clock, line(services, client, clock, "disbursement"))
    claim = Claim("sandbox", "990001", client.client_id, "R1")
    with pytest.raises(ServiceError) as refused:
        book(services, lost, claim)
    assert refused.value.code is Code.INSUFFICIENT_BALANCE
    deposit(services, client, 8000)
    book(services, lost, claim)
    assert balances(client.client_id)["main"] == (300_000, 0)
    assert check_everything() == []


@pytest.fixture
def collected(services: Services, clock: MovableClock, client: RequestContext) -> Transaction:
    """A collection of UGX 5,000 whose refund the database lost."""
    made = services.transactions.create(request(reference="known"), client).transaction
    work(services, clock, 5)
    row: Transaction = Transaction.get_by_id(made.transaction_id)
    assert row.status == "succeeded"
    return row


@pytest.mark.parametrize("kind", ["Transfer", "Reversal"])
def test_a_lost_refund_is_booked_and_its_collection_is_reversed(
    services: Services, clock: MovableClock, client: RequestContext, collected: Transaction, kind: str
) -> None:
    to_payer = {"Type": kind, "From": "FRI:41000001/MM", "To": f"FRI:{NUMBER[1:]}/MSISDN"}
    lost = find(services, clock, line(services, client, clock, "refund", **to_payer))
    claim = Claim("sandbox", "990001", client.client_id, "R1")
    (booked,) = book(services, lost, claim)
    assert [each.replayed for each in book(services, lost, claim)] == [True]
    row = Transaction.get_by_id(booked.transaction_id)
    assert (row.type, row.refund_of, row.status) == ("refund", collected.id, "succeeded")
    assert Transaction.get_by_id(collected.id).status == "reversed"
    assert balances(client.client_id)["main"] == (0, 0)
    repeated = services.refunds.create(CreateRefund(collected.id, "R1"), client)
    assert (repeated.replayed, repeated.transaction.transaction_id) == (True, booked.transaction_id)
    assert check_everything() == []


def test_a_lost_refund_whose_line_names_its_collection_alone_is_found_beside_a_known_one(
    services: Services, clock: MovableClock, client: RequestContext, collected: Transaction
) -> None:
    services.refunds.create(CreateRefund(collected.id, "first", 100_000), client)
    work(services, clock, 5)
    lost = find(services, clock, mtn_row(collected), mtn_row(collected, Id="REV2", Type="Reversal", Amount="2,000.00"))
    assert [(each.provider_id, each.type, each.amount_cents) for each in lost] == [("REV2", "refund", 200_000)]


@pytest.mark.both_databases
@pytest.mark.parametrize("amount", ["5,000.00", "+5,000.00"])
def test_what_came_back_of_a_lost_disbursement_is_no_lost_payment_and_is_held_as_money_that_came(
    services: Services, clock: MovableClock, client: RequestContext, amount: str
) -> None:
    rows = [
        line(services, client, clock, "disbursement"),
        line(services, client, clock, "disbursement", Id="REV1", Type="Reversal", Amount=amount),
    ]
    assert [each.provider_id for each in find(services, clock, *reversed(rows))] == ["990001"]
    for row in rows:
        reconcile(services, [row])
    held = services.movements.list(ListMovements(is_held=True), operator()).items
    assert [(each.direction, *each.receipts) for each in held] == [("in", "REV1"), ("out", "990001")]
    assert check_everything() == []


def test_a_lost_refund_that_fits_two_collections_needs_the_name_of_one(
    services: Services, clock: MovableClock, client: RequestContext, collected: Transaction
) -> None:
    services.transactions.create(request(reference="another"), client)
    work(services, clock, 5)
    to_payer = {"Type": "Transfer", "From": "FRI:41000001/MM", "To": f"FRI:{NUMBER[1:]}/MSISDN"}
    lost = find(services, clock, line(services, client, clock, "refund", **to_payer))
    claim = Claim("sandbox", "990001", client.client_id, "R1")
    for unclear in (claim, replace(claim, refund_of="no id")):
        with pytest.raises(ServiceError, match="refund_of"):
            book(services, lost, unclear)
    book(services, lost, replace(claim, refund_of=collected.id))
    assert Transaction.get_by_id(collected.id).status == "reversed"
    assert check_everything() == []


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_lost_payments_wait_for_all_their_receipts_before_they_lock_an_account(
    services: Services, clock: MovableClock, client: RequestContext
) -> None:
    second = str(services.runtime.references.of_reference(client.client_id, TransactionType.COLLECTION, "R2"))
    rows = line(services, client, clock), line(services, client, clock, Id="990002", **{"External id": second})
    claims = [Claim("sandbox", f"99000{each}", client.client_id, f"R{each}") for each in (1, 2)]
    lost = find(services, clock, *rows)
    with competing() as compete:
        with unit_of_work():
            money_of("sandbox", IN, "990002")
            booking = compete(partial(book, services, lost, *claims))
            deposit(services, client, 1000)
        assert len(booking.result()) == 2
    assert balances(client.client_id)["main"] == (1_100_000, 0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reference": "R2"}, "is not the collection of this client under the reference 'R2'"),
        ({"client": None}, "is not the collection of this client"),
        ({"provider_id": "990002"}, "is not among the lost payments"),
    ],
)
def test_only_the_reference_under_which_the_provider_has_a_payment_books_it(
    services: Services, clock: MovableClock, client: RequestContext, change: dict[str, str | None], problem: str
) -> None:
    lost = find(services, clock, line(services, client, clock))
    claim = Claim("sandbox", "990001", client.client_id, "R1")
    if change == {"client": None}:
        change = {"client": a_client("other").client_id}
    with pytest.raises(ServiceError, match=problem):
        book(services, lost, claim, replace(claim, **change))
    assert Transaction.select().count() == 0, "the good claim is not booked either"


def test_failed_lines_and_older_ones_are_not_lost(
    services: Services, clock: MovableClock, client: RequestContext
) -> None:
    old = kampala(clock.now() - timedelta(hours=2))
    rows = [
        line(services, client, clock, Id="1", Status="Failed"),
        line(services, client, clock, Id="2", Date=old),
        line(services, client, clock, Id="3"),
    ]
    assert [each.provider_id for each in find(services, clock, *rows)] == ["3"]


def test_while_money_is_held_nothing_is_created_or_sent_and_everything_is_read(
    services: Services, settings: Settings, clock: MovableClock, client: RequestContext
) -> None:
    deposit(services, client, 100_000)
    known = request(reference="known")
    sent = services.transactions.create(known, client).transaction
    held = build_services(replace(settings, hold_money=True), clock)
    try:
        with pytest.raises(ServiceError) as refused:
            held.transactions.create(request(reference="new"), client)
        assert (refused.value.code, refused.value.retry_after_seconds) == (Code.SERVICE_UNAVAILABLE, 60)
        assert "nothing was recorded" in refused.value.message
        assert held.transactions.create(known, client).replayed
        assert held.processing.claim(10) == []
        assert len(held.transactions.list(ListTransactions(), client).items) == 2
        deposit(held, client, 1, "an operator's deposit")
        Transaction.update(asked_at=clock.now(), status="submitted").where(
            Transaction.id == sent.transaction_id
        ).execute()
        assert [row.id for row in held.processing.claim(10)] == [sent.transaction_id], "it may have been sent: enquire"
    finally:
        held.close()
