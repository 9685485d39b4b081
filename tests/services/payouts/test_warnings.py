"""What is named before a person is paid twice, and what is kept of a file."""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.payouts.messages import CreatePayout, ListPayoutItems, PayoutView, RetryPayout
from ussd_server.services.providers.messages import SwitchProvider

PAID, DECLINED = "+256770000000", "+256770000002"
_DAY = 86_400


def half_paid(desk: PayoutDesk) -> PayoutView:
    """A completed payout of which one row succeeded and one failed."""
    draft = desk.draft(row("a", PAID, 1000), row("b", DECLINED, 2000))
    desk.approve(draft)
    desk.work(2)
    assert desk.states(draft) == ["succeeded", "failed"]
    return draft


def test_an_equal_payment_of_another_payout_is_named_for_a_week(desk: PayoutDesk, clock: MovableClock) -> None:
    half_paid(desk)
    again = desk.draft(row("a", PAID, 1000), row("b", PAID, 1001), row("c", DECLINED, 2000), reference="P2")
    first, second, third = (item.warning for item in desk.items(again))
    assert "number occurs in rows 1, 2; equal payment in payout P1 of " in (first or "")
    assert second == "number occurs in rows 1, 2"
    assert third is None, "the other payment failed"
    assert desk.payouts.equal_payment_count(again.payout_id, desk.maker) == 1
    clock.advance(timedelta(days=7, hours=1).total_seconds())
    late = desk.draft(row("a", PAID, 1000), reference="P3")
    assert [item.warning for item in desk.items(late)] == [None]


def test_of_a_later_round_only_its_own_rows_equal_payments_of_other_payouts(desk: PayoutDesk) -> None:
    payout = half_paid(desk)
    other = desk.draft(row("x", PAID, 1000), reference="P2")
    desk.approve(other)
    desk.work(6)
    desk.payouts.retry(RetryPayout(payout.payout_id), desk.maker)
    assert desk.payouts.equal_payment_count(payout.payout_id, desk.maker) == 0, "its own row failed everywhere"
    assert [item.warning for item in desk.items(payout)] == [None, None]


def test_further_columns_of_a_file_come_back_in_the_result(desk: PayoutDesk) -> None:
    headings = ",".join(["phone", "amount", "reference", "state", *(f"Column {each}" for each in range(12))])
    cells = ",".join(["0770000000", "1000", "a", "old", "", "x" * 120, *map(str, range(2, 12))])
    file = f"{headings}\n{cells}\n".encode()
    draft = desk.payouts.create(CreatePayout("P1", file=file), desk.maker).payout
    (item,) = desk.items(draft)
    kept = {"Column 1": "x" * 100} | {f"Column {each}": str(each) for each in range(2, 10)}
    assert item.metadata == kept
    text = b"".join(desk.payouts.csv(ListPayoutItems(draft.payout_id), desk.maker)).decode()
    (line,) = csv.DictReader(StringIO(text))
    assert {name: line[name] for name in kept} == kept
    assert line["state"] == "ready"


def test_a_payout_names_the_provider_that_it_waits_for(desk: PayoutDesk, services: Services) -> None:
    def awaited(payout: PayoutView) -> list[tuple[str, bool]]:
        found = desk.payouts.details(payout.payout_id, desk.maker).awaited
        return [(each.provider, each.is_off) for each in found]

    draft = desk.draft(row("a", PAID, 1000), row("b", PAID, 0))
    assert awaited(draft) == []
    services.provider_states.switch(SwitchProvider("sandbox", True, "maintenance"), operator_context())
    assert awaited(draft) == [("sandbox", True)]
    desk.approve(draft)
    assert awaited(draft) == [("sandbox", True)]
    desk.cancel(draft)
    assert awaited(draft) == []


def test_the_sum_of_invalid_rows_is_known_as_far_as_it_can_be_read(desk: PayoutDesk) -> None:
    draft = desk.draft(row("a", PAID, 1000), row("b", "0770", 2000), row("c", PAID, "abc"))
    assert desk.payouts.details(draft.payout_id, desk.maker).unpaid_cents == 200_000
