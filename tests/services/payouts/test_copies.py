"""Copies of payouts, and what is named before a person is paid twice."""

from __future__ import annotations

import csv
from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.payouts.messages import CopyPayout, CreatePayout, ListPayoutItems, PayoutView, ReplacePayout
from ussd_server.services.payouts.rows import FIELDS
from ussd_server.services.providers.messages import SwitchProvider
from ussd_server.services.transactions.messages import GetTransaction
from ussd_server.status import ServiceError

PAID, DECLINED = "+256770000000", "+256770000002"
_DAY = 86_400


def half_paid(desk: PayoutDesk) -> PayoutView:
    """A completed payout of which one row succeeded and one failed."""
    draft = desk.draft(row("a", PAID, 1000), row("b", DECLINED, 2000))
    desk.approve(draft)
    desk.work(2)
    assert desk.states(draft) == ["succeeded", "failed"]
    return draft


def copied(desk: PayoutDesk, payout: PayoutView, reference: str, **more: Any) -> PayoutView:
    return desk.payouts.copy(CopyPayout(payout.payout_id, reference, **more), desk.maker).payout


def test_a_copy_pays_no_row_again_unless_it_is_asked_to(desk: PayoutDesk) -> None:
    payout = half_paid(desk)
    with pytest.raises(ServiceError, match="1 of the payout's rows was paid already"):
        copied(desk, payout, "P2")
    failed = copied(desk, payout, "P2", only_state="failed")
    assert [(item.reference, item.amount_cents) for item in desk.items(failed)] == [("b", 200_000)]
    assert copied(desk, payout, "P3", again=True).item_count == 2
    with pytest.raises(ServiceError, match="No row of the payout failed"):
        copied(desk, failed, "P4", only_state="failed")


def test_a_copy_pays_no_row_that_may_still_be_paid(desk: PayoutDesk, clock: MovableClock) -> None:
    draft = desk.draft(row("a", "+256770000004", 1000))
    dated = desk.draft(row("a", PAID, 2000), reference="D1", send_at=clock.now() + timedelta(days=9))
    assert copied(desk, draft, "of a draft").item_count == 1
    desk.approve(draft)
    desk.approve(dated)
    refused = partial(pytest.raises, ServiceError, match="1 of the payout's rows was paid already, or may still be")
    assert (desk.states(draft), desk.states(dated)) == (["queued"], ["ready"])
    for payout in (draft, dated):
        with refused():
            copied(desk, payout, "P2")
    desk.work()
    assert desk.states(draft) == ["sent"]
    with refused():
        copied(desk, draft, "P2")
    assert copied(desk, draft, "P2", again=True).item_count == 1
    desk.cancel(dated)
    assert copied(desk, dated, "D2").item_count == 1, "nothing of a cancelled payout is paid any more"


def test_of_copies_of_one_draft_only_one_pays_a_row(desk: PayoutDesk, clock: MovableClock) -> None:
    draft = desk.draft(row("a", PAID, 1000), row("b", DECLINED, 2000))
    copies = [copied(desk, draft, name) for name in ("P2", "P3")]
    of_copy = copied(desk, copies[0], "P4")
    dated = copied(desk, draft, "P5", send_at=clock.now() + timedelta(days=9))
    wanted = copied(desk, draft, "P6", again=True)
    desk.approve(dated)
    refused = partial(pytest.raises, ServiceError)
    for each in (draft, *copies, of_copy):
        with refused(match="2 of the payout's rows were paid already, or may still be, by P5"):
            desk.approve(each)
    desk.cancel(dated)
    desk.approve(of_copy)
    with refused(match="2 of the payout's rows were paid already, or may still be, by P4"):
        desk.approve(draft)
    desk.work(2)
    assert desk.states(of_copy) == ["succeeded", "failed"]
    with refused(match="1 of the payout's rows was paid already, or may still be, by P4"):
        desk.approve(draft)
    assert desk.approve(wanted).status == "approved"
    rest = copied(desk, of_copy, "P7", only_state="failed")
    assert desk.approve(rest).status == "approved"


def test_a_row_that_succeeded_late_is_not_paid_by_its_copy(desk: PayoutDesk, clock: MovableClock) -> None:
    draft = desk.draft(row("a", "+256770000009", 1000), row("b", DECLINED, 2000))
    desk.approve(draft)
    desk.work(1.5)
    assert desk.states(draft) == ["failed", "failed"]
    copy = copied(desk, draft, "P2", only_state="failed", send_at=clock.now() + timedelta(hours=1))
    far = copied(desk, draft, "P3", only_state="failed", send_at=clock.now() + timedelta(days=2))
    desk.approve(copy)
    desk.work(10)
    assert desk.states(draft) == ["succeeded", "failed"]
    clock.advance(3600)
    desk.work(2)
    assert desk.states(copy) == ["cancelled", "failed"]
    asked = GetTransaction(desk.items(copy)[0].transaction_id or "")
    history = desk.services.transactions.get(asked, desk.maker).events
    assert "The payout P1 has paid this row already" in str(history[-1])
    assert desk.main() == (49_900_000, 0)
    with pytest.raises(ServiceError, match="1 of the payout's rows was paid already"):
        desk.approve(far)


def test_a_corrected_draft_stays_a_copy(desk: PayoutDesk) -> None:
    first = desk.draft(row("a", PAID, 1000), row("b", "0770", 2000))
    copy = copied(desk, first, "P2")
    for known in (first, copy):
        typed = dict.fromkeys(FIELDS, "") | {"reference": "b", "phone_number": PAID, "amount": "2000"}
        corrected = desk.payouts.replace(ReplacePayout(known.payout_id, corrections={2: typed}), desk.maker).payout
        if known is first:
            desk.approve(corrected)
        else:
            with pytest.raises(ServiceError, match="2 of the payout's rows were paid already"):
                desk.approve(corrected)


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


def test_further_columns_of_a_file_come_back_in_the_result_and_in_copies(desk: PayoutDesk) -> None:
    headings = ",".join(["phone", "amount", "reference", "state", *(f"Column {each}" for each in range(12))])
    cells = ",".join(["0770000000", "1000", "a", "old", "", "x" * 120, *map(str, range(2, 12))])
    file = f"{headings}\n{cells}\n".encode()
    draft = desk.payouts.create(CreatePayout("P1", file=file), desk.maker).payout
    (item,) = desk.items(draft)
    kept = {"Column 1": "x" * 100} | {f"Column {each}": str(each) for each in range(2, 10)}
    assert item.metadata == kept
    for payout in (draft, copied(desk, draft, "P2")):
        wanted = ListPayoutItems(payout.payout_id)
        text = b"".join(desk.payouts.csv(wanted, desk.maker)).decode()
        (line,) = csv.DictReader(StringIO(text))
        assert {name: line[name] for name in kept} == kept
        assert line["state"] == "ready"


def test_a_payout_names_the_provider_that_it_waits_for(desk: PayoutDesk, services: Services) -> None:
    def awaited(payout: PayoutView) -> list[tuple[str, bool]]:
        found = desk.payouts.providers_awaited(payout.payout_id, desk.maker)
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
    assert desk.payouts.unpaid_cents(draft.payout_id, desk.maker) == 200_000
