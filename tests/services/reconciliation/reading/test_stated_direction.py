"""Files without a type are read as operators say: every line came in, or our own number shows the direction."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.services.reconciliation.statement_files import reconcile
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.services.reconciliation.messages import StatementReading
from ussd_server.services.reconciliation.reading.stated_direction import StatedDirection
from ussd_server.services.statement_layouts.messages import KeepLayout, PreviewStatement, StatementPreview
from ussd_server.status import ServiceError

FILES = Path(__file__).parent / "files"
RECEIPTS, PORTAL = ((FILES / f"mtn_{name}.csv").read_bytes() for name in ("received_only", "portal_balance_only"))
ALL_IN, OUR_NUMBER = StatedDirection(all_in=True), StatedDirection(our_number="0772000999")


def preview(services: Services, content: bytes, direction: StatedDirection) -> StatementPreview:
    request = PreviewStatement(io.BytesIO(content), "mtn", StatementReading(direction=direction))
    return services.statement_layouts.preview(request, operator())


def test_a_list_of_receipts_is_read_once_somebody_says_that_every_line_came_in(services: Services) -> None:
    problem = preview(services, RECEIPTS, StatedDirection()).problem
    assert problem
    assert "say --all-in or --our-number" in problem
    shown = preview(services, RECEIPTS, ALL_IN)
    assert [line.amount_cents for line in shown.lines] == [1_300_000, 750_000]
    assert (shown.in_cents, shown.out_cents, shown.problem) == (2_050_000, 0, None)
    result = reconcile(services, RECEIPTS, "mtn", reading=StatementReading(direction=ALL_IN))
    assert result.statement.theirs_cents == 2_050_000


@pytest.mark.parametrize("number", ["0772000999", "+256772000999", "256772000999"])
def test_the_side_of_our_number_is_the_direction_and_the_balance_proves_it(services: Services, number: str) -> None:
    shown = preview(services, PORTAL, StatedDirection(our_number=number))
    assert [line.amount_cents for line in shown.lines] == [200_000, -500_000, 300_000]
    assert (shown.balance, shown.problem) == (None, None)


def test_an_account_that_is_no_phone_number_is_our_number_too(services: Services) -> None:
    content = PORTAL.replace(b"FRI:256772000999/MSISDN", b"FRI:214000493/MM")
    assert preview(services, content, StatedDirection(our_number="214000493")).in_cents == 500_000


def test_what_is_said_is_kept_with_the_layout(services: Services) -> None:
    request = KeepLayout("mtn", io.BytesIO(PORTAL), None, "Ann", OUR_NUMBER)
    kept = services.statement_layouts.keep(request, operator())
    assert (kept.our_number, kept.all_in, kept.columns["sender"]) == ("0772000999", False, "From")
    assert preview(services, PORTAL, StatedDirection()).in_cents == 500_000
    assert reconcile(services, PORTAL, "mtn").statement.theirs_cents == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_line_that_says_otherwise_refuses_the_file(services: Services) -> None:
    negative = RECEIPTS.replace(b'"7,500.00"', b'"-7,500.00"')
    assert "another direction than is said" in (preview(services, negative, ALL_IN).problem or "")
    ours = b"FRI:256772000999/MSISDN"
    neither, both = (
        PORTAL.replace(ours, b"FRI:256772000777/MSISDN", 1),
        PORTAL.replace(b"FRI:256772000101/MSISDN", ours),
    )
    assert "is on neither side" in (preview(services, neither, OUR_NUMBER).problem or "")
    assert "is on both sides" in (preview(services, both, OUR_NUMBER).problem or "")
    for wrong in (StatedDirection(our_number="ACME"), StatedDirection(all_in=True, our_number="0772000999")):
        with pytest.raises(ServiceError, match="ur number"):
            preview(services, RECEIPTS, wrong)
