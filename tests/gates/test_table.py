"""The table of cases: what has the money of a receipt, and what is told of it, on one day and over a closed one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

import pytest

from tests.gates.two_records import PAYER, RECEIPT, held, main_of, other_client
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.days.closing import at_hour, close, cover
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import operator
from ussd_server.services.movements.messages import EndMovement, MovementView
from ussd_server.values import KAMPALA

pytestmark = pytest.mark.both_databases


class Case(NamedTuple):
    """The world of one case: the money was paid at `paid_at`, and `ours` is the collection of the client's own."""

    world: World
    tea: ExampleClient
    ours: Enquired
    paid_at: datetime


class Books(NamedTuple):
    """What the case came to: payments that count for the client and the other one, unexplained movements, a review."""

    own: int
    other: int
    held: int
    review: bool = False


def _held(case: Case) -> MovementView:
    case.world.till.pay("thanks", SHILLINGS, RECEIPT, number=None, at=case.paid_at)
    return held(case.world)[0]


def _ended(case: Case, *, is_own: bool) -> None:
    uses, end = case.world.services.movement_uses, EndMovement(_held(case).movement_id, "Asked", BY, SECOND)
    (uses.take_as_own if is_own else uses.mark_returned)(end, operator())


def _earlier(case: Case) -> None:
    way = Enquired(case.world, "earlier", "+256772000001", RECEIPT)
    way.prepare()
    way.report()


HAS_IT: dict[str, Callable[[Case], object]] = {
    "nothing": lambda _: None,
    "a held movement": _held,
    "a collection": _earlier,
    "a payer's payment": lambda case: case.world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=None, at=case.paid_at),
    "another client's": lambda case: case.world.till.pay("TEA1", SHILLINGS, RECEIPT, number=None, at=case.paid_at),
    "the operator": lambda case: _ended(case, is_own=True),
    "a return": lambda case: _ended(case, is_own=False),
}


def _line(case: Case) -> list[str]:
    line = Enquired(case.world, "", "+256772000002", "").line(RECEIPT, "")
    line[2] = f"{case.paid_at.astimezone(KAMPALA):%Y-%m-%d %H:%M:%S}"
    return line


TOLD: dict[str, Callable[[Case], object]] = {
    "a notice": lambda case: case.world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=None, at=case.paid_at),
    "a line": lambda case: reconcile(case.world.services, [_line(case)]),
    "our success": lambda case: case.ours.report(),
    "a line with our name": lambda case: (
        case.ours.report(),
        reconcile(case.world.services, [mtn_row(case.ours.row, Id=RECEIPT)]),
    ),
}
_COUNTED, _OURS_TWICE = Books(1, 0, 0), Books(1, 0, 0, review=True)
TABLE = {
    "nothing": {"a notice": _COUNTED, "a line": Books(0, 0, 1), "our success": _COUNTED},
    "a held movement": {"a notice": _COUNTED, "a line": Books(0, 0, 1), "our success": _COUNTED},
    "a collection": {"a notice": _COUNTED, "a line": _COUNTED, "our success": _OURS_TWICE},
    "a payer's payment": {"a notice": _COUNTED, "a line": _COUNTED, "our success": _COUNTED},
    "another client's": {
        "a notice": Books(0, 1, 0),
        "a line": Books(0, 1, 0),
        "our success": Books(0, 1, 0, review=True),
    },
    "the operator": {
        "a notice": Books(0, 0, 0),
        "a line": Books(0, 0, 0),
        "our success": Books(0, 0, 0, review=True),
    },
    "a return": {
        "a notice": Books(0, 0, 1),
        "a line": Books(0, 0, 1),
        "our success": Books(0, 0, 1, review=True),
    },
}
# What a notice tells of a closed day, whose statement does not have it.
OVER_A_CLOSED_DAY = {("nothing", "a notice"): Books(0, 0, 1)}


@pytest.fixture
def case(world: World) -> Case:
    at_hour(world.clock, 9)
    made = Case(world, other_client(world.services), Enquired(world, "ours", PAYER, RECEIPT), world.clock.now())
    made.ours.prepare()
    return made


def _close(case: Case, has_it: str) -> None:
    """Close the day of the money with a statement that has what is known of it by then."""
    world, day = case.world, case.paid_at.astimezone(KAMPALA).date()
    other = Enquired(world, "filler", "+256772000009", "F1")
    other.prepare()
    other.report()
    lines = [mtn_row(other.row)] + ([] if has_it == "nothing" else [_line(case)])
    statement_id = reconcile(world.services, lines).statement.statement_id
    world.clock.advance(timedelta(days=1).total_seconds())
    cover(world.services, statement_id, day)
    close(world.services, date.fromisoformat(day.isoformat()), SECOND)


@pytest.mark.parametrize("over_a_closed_day", [False, True], ids=["one day", "over a closed day"])
@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("has_it", HAS_IT)
def test_each_cell_of_the_table(case: Case, has_it: str, told: str, *, over_a_closed_day: bool) -> None:
    world = case.world
    before = main_of(world.client.id)
    HAS_IT[has_it](case)
    if over_a_closed_day:
        _close(case, has_it)
    world.clock.advance(60)
    TOLD[told](case)
    fillers = int(over_a_closed_day)
    # A line with our name tells what our success told, and nothing new.
    row = TABLE[has_it]["our success" if told == "a line with our name" else told]
    expected = OVER_A_CLOSED_DAY.get((has_it, told), row) if over_a_closed_day else row
    own = (main_of(world.client.id) - before) // CENTS - fillers
    found = Books(own, main_of(case.tea.id) // CENTS, len(held(world)), bool(case.ours.row.is_in_review))
    assert found == expected
    assert bool(check_everything()) == (found.review and case.ours.row.contested_id is not None)
