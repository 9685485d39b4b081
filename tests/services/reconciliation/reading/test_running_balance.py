"""The running balance of a statement proves its signs and its order, and that no line is missing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.services.reconciliation.statement_files import csv_file, reconcile
from ussd_server.bootstrap import Services
from ussd_server.models.statements import ProviderStatement
from ussd_server.services.reconciliation.messages import BalanceBreak
from ussd_server.status import ServiceError

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
HEADINGS = ("Id", "Date", "Status", "Type", "Amount", "Fee", "Tax", "Balance")
# The first line stands in row 4 of the file, after a title, an empty row and the headings.
FIRST = 4


def file_of(*moves: tuple[int, int, str]) -> list[list[str]]:
    """Lines with an amount, its sign included, a fee and a balance."""
    return [
        [f"R{number}", f"2026-11-20 09:{number:02}:00", "Successful", "Payment" if amount > 0 else "Transfer",
         str(amount), str(fee), "", balance]
        for number, (amount, fee, balance) in enumerate(moves, 1)
    ]  # fmt: skip


def break_of(
    services: Services, rows: Sequence[Sequence[str]], headings: Sequence[str] = HEADINGS
) -> BalanceBreak | None:
    return reconcile(services, csv_file(rows, headings), is_dry_run=True).balance


PLAIN = file_of((5000, 0, "105000"), (30000, 0, "135000"), (-7000, 390, "128000"), (4000, 0, "132000"))
LESS_FEE = file_of((5000, 10, "104990"), (30000, 0, "134990"), (-7000, 390, "127600"), (4000, 0, "131600"))


@ON_SQLITE
@pytest.mark.parametrize("rows", [PLAIN, LESS_FEE], ids=["amount alone", "amount less fee"])
def test_balances_follow_in_both_directions(services: Services, rows: list[list[str]]) -> None:
    assert break_of(services, rows) is None
    assert break_of(services, rows[::-1]) is None


@ON_SQLITE
def test_balances_may_take_fee_and_tax_from_each_line_of_a_file(services: Services) -> None:
    less_both = file_of((5000, 10, "104989"), (30000, 5, "134983"), (-7000, 390, "127591"))
    rows = [[*row[:6], tax, row[7]] for row, tax in zip(less_both, ("1", "1", "2"), strict=True)]
    assert break_of(services, rows) is None
    assert break_of(services, rows[::-1]) is None
    another_way = [*rows[:2], [*rows[2][:7], "127983"]]
    assert break_of(services, another_way) == BalanceBreak(FIRST + 2, 127_591_00, 127_983_00)


@ON_SQLITE
def test_a_missing_line_a_turned_sign_and_another_order_are_named_by_their_line(services: Services) -> None:
    assert break_of(services, [PLAIN[0], *PLAIN[2:]]) == BalanceBreak(FIRST + 1, 98_000_00, 128_000_00)
    turned = [*PLAIN[:2], [*PLAIN[2][:3], "Payment", "7000", *PLAIN[2][5:]], PLAIN[3]]
    assert break_of(services, turned) == BalanceBreak(FIRST + 2, 142_000_00, 128_000_00)
    swapped = [PLAIN[0], PLAIN[2], PLAIN[1], PLAIN[3]]
    found = break_of(services, swapped)
    assert found is not None
    assert found.line == FIRST + 1
    backwards = [PLAIN[3], PLAIN[2], PLAIN[0]]
    assert break_of(services, backwards) == BalanceBreak(FIRST + 2, 135_000_00, 105_000_00)


@ON_SQLITE
def test_failed_lines_change_nothing_and_lines_without_a_balance_count_for_the_next(services: Services) -> None:
    failed = ["R9", "2026-11-20 09:01:30", "Failed", "Payment", "2000", "0", "", "105000"]
    assert break_of(services, [PLAIN[0], failed, *PLAIN[1:]]) is None
    moved = [*failed[:7], "107000"]
    assert break_of(services, [PLAIN[0], moved, *PLAIN[1:]]) == BalanceBreak(FIRST + 1, 105_000_00, 107_000_00)
    empty = [*PLAIN[1][:7], ""]
    assert break_of(services, [PLAIN[0], empty, *PLAIN[2:]]) is None
    assert break_of(services, [PLAIN[3], PLAIN[2], empty, PLAIN[0]]) is None
    assert break_of(services, [PLAIN[0], [*empty[:4], "29000", *empty[5:]], *PLAIN[2:]]) is not None


@ON_SQLITE
def test_a_reversal_may_go_either_way_and_a_file_without_balances_has_no_break(services: Services) -> None:
    for balance in ("106000", "104000"):
        reversal = ["R9", "2026-11-20 09:01:30", "Successful", "Reversal", "1000", "0", "", balance]
        assert break_of(services, [PLAIN[0], reversal]) is None
    assert break_of(services, [[*row[:7], ""] for row in PLAIN]) is None
    assert break_of(services, [row[:7] for row in PLAIN], HEADINGS[:7]) is None


@ON_SQLITE
def test_a_balance_or_fee_that_cannot_be_read_refuses_the_file(services: Services) -> None:
    with pytest.raises(ServiceError, match="Row 4, column H: the balance 'much' cannot be read"):
        break_of(services, [[*PLAIN[0][:7], "much"]])
    with pytest.raises(ServiceError, match="Row 4, column F: the fee 'a little' cannot be read"):
        break_of(services, [[*PLAIN[0][:5], "a little", *PLAIN[0][6:]]])


def test_a_file_whose_balance_breaks_is_stored_with_a_confirmation_only(services: Services) -> None:
    rows = csv_file([PLAIN[0], *PLAIN[2:]], HEADINGS)
    refused = reconcile(services, rows, is_confirmed=False)
    assert refused.doubt is not None
    assert refused.doubt.endswith(
        "The running balance of line 5 is UGX 128,000, and UGX 98,000 would follow from the line beside it: a line is "
        "missing, or has another amount or sign."
    )
    assert (refused.is_stored, ProviderStatement.select().count()) == (False, 0)
    assert reconcile(services, rows, is_confirmed=True).is_stored
    again = reconcile(services, rows, is_confirmed=False)
    assert (again.is_repeat, again.doubt, again.balance) == (True, None, refused.balance)
