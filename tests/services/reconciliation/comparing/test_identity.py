"""Reconciliation: which payment a line is about, which payments a statement must have, and when a difference is new."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import kampala, mtn_row, open_reviews, reconcile
from tests.support.money import operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.models.transactions import Transaction
from ussd_server.services.movements.messages import ListMovements
from ussd_server.services.reconciliation.messages import ConcludeFromStatement, Verdict
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import ServiceError

SLOW, SILENT = "+256770000004", "+256770000007"


def pay(services: Services, call: RequestContext, reference: str, **more: str) -> Callable[[], Transaction]:
    """A new collection; the function reads it as it is now."""
    made = services.transactions.create(request(reference=reference, **more), call).transaction
    return partial(Transaction.get_by_id, made.transaction_id)


def paid(services: Services, call: RequestContext, clock: MovableClock, reference: str, **more: str) -> Transaction:
    row = pay(services, call, reference, **more)
    work(services, clock, 2)
    return row()


def test_a_failure_of_theirs_concludes_no_payment(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    silent = paid(services, call, clock, "silent", number=SILENT)
    reconcile(services, [mtn_row(silent, Id="S-1", Status="Failed")])
    (found,) = open_reviews(services)
    assert (found.verdict, found.theirs) == (Verdict.STATUS_DIFFERS, "failed")
    with pytest.raises(ServiceError, match="Only a success"):
        services.differences.conclude(
            ConcludeFromStatement(found.difference_id, "line 5", "Jane Doe", "Mary Roe"), operator()
        )
    assert Transaction.get_by_id(silent.id).status == "ambiguous"


def test_a_payment_through_another_provider_is_never_matched(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    line = mtn_row(paid(services, call, clock, "sandbox's"))
    with pytest.raises(ServiceError, match="The file is not of the account mtn"):
        reconcile(services, [line], "mtn")
    line[1] = "payment 4711"
    assert reconcile(services, [line], "mtn").statement.lines == {Verdict.NOT_OURS: 1}


def test_a_payment_under_way_at_either_end_of_a_long_statement_may_be_in_its_neighbour(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    listed = []
    for end in ("first", "last"):
        # The line's second begins after both were made, however long that took, and ends before either is asked about.
        _, row = (pay(services, call, f"{end} {name}", number=SLOW) for name in ("not listed", "listed"))
        work(services, clock, 5)
        clock.advance(86_400)
        listed.append(mtn_row(row(), Date=kampala(row().created_at + timedelta(seconds=1))))
    assert reconcile(services, listed).statement.lines == {Verdict.MATCHED: 2}


@pytest.mark.parametrize("is_told", [True, False])
def test_a_payment_under_way_at_the_end_of_a_short_statement_is_not_missing_where_its_neighbour_has_it(
    services: Services, call: RequestContext, clock: MovableClock, is_told: bool
) -> None:
    row = pay(services, call, "learned of late", number=SLOW)
    work(services, clock, 1)
    clock.advance(2 * 3600)
    work(services, clock, 5)
    line = mtn_row(row(), Date=kampala(row().created_at + timedelta(minutes=2)))
    strange = mtn_row(row(), Id="7", Date=kampala(row().created_at + timedelta(minutes=30)), **{"External id": "8"})
    if is_told:
        reconcile(services, [line])
    found = [each.verdict for each in reconcile(services, [strange]).differences()]
    assert found == [Verdict.NOT_OURS, *([] if is_told else [Verdict.NOT_THEIRS])]


def test_reversals_that_name_their_collection_alone_find_the_refunds_of_their_receipts(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    collection = paid(services, call, clock, "collection")
    parts = (100_000, 200_000)
    for cents in parts:
        services.refunds.create(CreateRefund(collection.id, f"back-{cents}", cents), call)
    work(services, clock, 2)
    refunds = {row.amount_cents: row for row in Transaction.select().where(Transaction.refund_of == collection.id)}
    lines = [mtn_row(refunds[cents], **{"External id": collection.provider_reference}) for cents in reversed(parts)]
    found = reconcile(services, [mtn_row(collection), *lines])
    assert found.statement.lines == {Verdict.MATCHED: 1, Verdict.REVERSAL: 2}
    assert list(found.differences()) == []


def test_a_line_that_comes_again_with_another_amount_is_another_movement(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    payment = paid(services, call, clock, "payment")
    for amount in ("4,000", "3,000", "4,000"):
        reconcile(services, [mtn_row(payment, Amount=amount, Balance=amount)])
    assert open_reviews(services) == ()
    found = services.movements.list(ListMovements(is_held=True), operator()).items
    assert sorted(each.amount_cents for each in found) == [300_000, 400_000]
