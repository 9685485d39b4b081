"""The bridge of a day from our sum to theirs, computed from our payments, the lines and the differences of the day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from peewee import chunked

from ussd_server.models.clients import Client
from ussd_server.models.movements import Movement, MovementUse
from ussd_server.models.statements import ClosedDay, DifferenceInStatement, StatementDifference
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.given_back import is_given_back
from ussd_server.services.reconciliation.comparing.our_payments import AT_PROVIDERS, LONGEST_PAYMENT, direction_sign
from ussd_server.services.reconciliation.days.coverage import Coverage
from ussd_server.services.reconciliation.days.explained import HELD, ExplainedLines
from ussd_server.services.reconciliation.days.lines import DayLine
from ussd_server.services.reconciliation.messages import BridgeStep, Verdict
from ussd_server.services.transactions.messages import SUCCESSFUL, Origin, TransactionType
from ussd_server.values import bounds_of_day, kampala_day

LATE_CHANGE, TIMING, OTHER_DAY = "late_change", "timing", "other_day"
SETTLES_WITHIN = timedelta(minutes=1)
"""So long after a moment, the database has every payment that ended before it."""

_NEAR_MIDNIGHT = timedelta(minutes=30)
_DAY = timedelta(days=1)
_AT_ONCE = 1000
_ORDER = (*(verdict.value for verdict in Verdict), HELD, LATE_CHANGE, TIMING, OTHER_DAY)
# What one operator may sign: what agrees, the provider's charges, and differences, whose reviews have ended.
_FOR_ONE = {TIMING, *(verdict.value for verdict in Verdict)}


class DayPayment(NamedTuple):
    """A payment of ours that became final on a day. `began` is when it was created, or when its payer paid."""

    id: str
    provider_id: str | None
    reference: str | None
    signed_cents: int
    began: datetime
    completed_at: datetime
    is_late: bool

    @property
    def began_on(self) -> str:
        """The day in Kampala on which it began."""
        return kampala_day(self.began)

    @property
    def latest(self) -> datetime:
        """The latest moment at which the provider can have dated it."""
        return min(self.completed_at, self.began + LONGEST_PAYMENT)

    @property
    def came_later(self) -> bool:
        """Whether it became final long after the provider can have dated it."""
        return self.is_late or self.completed_at > self.latest


@dataclass(frozen=True, slots=True)
class DayBridge:
    """Both sums of a day and the steps between them.

    `missing` are payments of ours without a line and without a difference, which cannot be explained. `open_count` are
    differences whose reviews are open. `held_ids` are the movements without a use that any of the statements told of,
    `replaced_ids` those of them whose payment the newest statement matches.
    `content` is a digest of the payments, lines and differences. `undecided_count` are held movements that may be
    payments of ours.
    """

    ours_cents: int
    theirs_cents: int
    steps: tuple[BridgeStep, ...]
    missing: tuple[DayPayment, ...]
    open_count: int
    held_ids: frozenset[str]
    replaced_ids: frozenset[str]
    content: str
    undecided_count: int = 0

    @property
    def steps_for_two(self) -> tuple[BridgeStep, ...]:
        """The steps that take a second operator. What matches adds nothing, unless two statements contradict."""
        return tuple(
            step
            for step in self.steps
            if step.verdict not in _FOR_ONE or (step.verdict == Verdict.MATCHED and step.amount_cents)
        )


def bridge_of(account: str, day: date, coverage: Coverage, closed_at: datetime) -> DayBridge:
    """Compute the bridge of a day from the statements that cover it.

    `closed_at` is when the day is or was closed: earlier days that were closed by then have late changes, and what is
    given back later, or so shortly before that it may not be seen yet, still counts on the day.
    """
    bridge = _Bridge(account, day, coverage, closed_at)
    paired, of_other_days = bridge.add_lines()
    bridge.add_lines_of_other_days(of_other_days)
    given_back = _given_back(account, *bridge.bounds)
    missing, open_count = bridge.add_payments_without_line(paired, given_back)
    given_back_cents = bridge.add_given_back(given_back)
    ours_cents = sum(bridge.ours.values()) - given_back_cents
    steps, content = bridge.steps_in_order(), bridge.content.hexdigest()
    held = bridge.held_ids, bridge.replaced_ids
    return DayBridge(ours_cents, bridge.theirs_cents, steps, missing, open_count, *held, content)


class _Bridge:
    """A bridge while it is added up: each method adds the steps of one kind, and digests what they were made of.

    `ours` are the signed cents of our payments of the day, by id. A line without our payment, or a payment without a
    line, is the whole of a step; where both are there, a step is what is left between them.
    """

    def __init__(self, account: str, day: date, coverage: Coverage, closed_at: datetime) -> None:
        self._account, self._day, self._coverage, self._closed_at = account, day, coverage, closed_at
        self.bounds = bounds_of_day(day)
        self.lines = ExplainedLines(coverage.statement_ids, closed_at - SETTLES_WITHIN)
        self.ours, self.theirs_cents, self.content = _amounts_of(account, *self.bounds, closed_at), 0, sha256()
        self._amounts: Counter[tuple[str, str]] = Counter()
        self._counts: Counter[tuple[str, str]] = Counter()
        for payment in self.ours.items():
            self.content.update(orjson.dumps(payment))

    def add_lines(self) -> tuple[dict[str, str], list[DayLine]]:
        """The lines of the day by their verdicts, beside the payments of ours that they are about.

        Returns the verdicts of these payments; and the lines whose payments ended here on another day, not added yet.
        """
        paired, of_other_days = dict[str, str](), list[DayLine]()
        for line in self.lines.of_days([self._day.isoformat()]):
            self.content.update(line.written())
            self.theirs_cents += line.cents
            is_ours = line.is_pair and line.transaction_id in self.ours
            if is_ours and (line.is_difference or line.transaction_id not in paired):
                paired[line.transaction_id] = line.verdict
            if line.is_pair and line.cents and not is_ours and not line.is_difference:
                of_other_days.append(line)
            else:
                self._add(line.verdict, -line.cents)
        for name, verdict in paired.items():
            self._add(verdict, self.ours[name], count=0)
        return paired, of_other_days

    def add_lines_of_other_days(self, lines: Sequence[DayLine]) -> None:
        """Lines of the day whose payments ended here on another day."""
        for line, ended_at in _with_their_ends(lines):
            self._add(step_between(line.at, ended_at, *self.bounds), -line.cents)

    def add_payments_without_line(
        self, paired: Mapping[str, str], given_back: Sequence[_GivenBack]
    ) -> tuple[tuple[DayPayment, ...], int]:
        """Payments of ours that have no line on the day. Returns those that nothing explains, and the open reviews."""
        unpaired = {name: cents for name, cents in self.ours.items() if name not in paired}
        alone = _payments(unpaired, self._account, *self.bounds, self._closed_at)
        names = {each.id: each.id for each in alone} | {each.id: each.counted_id for each in given_back}
        dated = _dates_of_lines(alone, names, self._day, self.lines)
        differences = _differences(self._coverage.statement_ids, *self.bounds, paired.keys() | dated.keys())
        self.content.update(orjson.dumps([tuple(row) for row in differences]))
        moved = {row.movement_id: row.transaction_id for row in differences if row.movement_id is not None}
        self.held_ids = frozenset(filter(self.lines.is_held, moved))
        self.replaced_ids = frozenset(
            each for each in self.held_ids if paired.get(moved[each] or "") == Verdict.MATCHED
        )
        not_theirs = {row.transaction_id for row in differences if row.verdict == Verdict.NOT_THEIRS}
        # A payment changes an earlier day, never its own: that one is closed by the time the bridge is computed again.
        earlier = {each.began_on for each in alone if each.came_later} - {self._day.isoformat()}
        closed = _closed_days(self._account, earlier, self._closed_at)
        missing = []
        for each in alone:
            if each.id in not_theirs:
                self._add(Verdict.NOT_THEIRS, each.signed_cents)
            elif each.came_later and each.began_on in closed:
                self._add(LATE_CHANGE, each.signed_cents, late_for=each.began_on)
            elif each.id in dated:
                self._add(step_between(dated[each.id], each.completed_at, *self.bounds), each.signed_cents)
            elif self._coverage.first_at <= each.began and each.latest <= self._coverage.last_at:
                missing.append(each)
            else:
                # A payment that was under way at midnight may be in the neighbouring statement.
                near = step_between(each.began, each.completed_at, *self.bounds)
                self._add(OTHER_DAY if each.came_later else near, each.signed_cents)
        return tuple(missing), sum(row.ended_at is None and row.movement_id is None for row in differences)

    def add_given_back(self, given_back: Sequence[_GivenBack]) -> int:
        """What counts nowhere since the day, after its own was closed. Returns its cents."""
        late_cents = 0
        for reversal in given_back:
            if reversal.closed_day is not None:
                self.content.update(orjson.dumps((reversal.id, -reversal.cents)))
                self._add(LATE_CHANGE, -reversal.cents, late_for=reversal.closed_day)
                late_cents += reversal.cents
        return late_cents

    def steps_in_order(self) -> tuple[BridgeStep, ...]:
        keys = sorted(self._counts, key=lambda key: (_ORDER.index(key[0]), key[1]))
        return tuple(BridgeStep(key[0], self._counts[key], self._amounts[key], key[1] or None) for key in keys)

    def _add(self, step: str, cents: int, *, count: int = 1, late_for: str = "") -> None:
        """Add to a step, which is a verdict and the day that it changes."""
        self._amounts[str(step), late_for] += cents
        self._counts[str(step), late_for] += count


def step_between(dated: datetime, ended_at: datetime | None, *midnights: datetime) -> str:
    """`timing` where both dates lie within thirty minutes of one of the midnights, else `other_day`."""
    is_near = ended_at is not None and any(
        max(abs(dated - midnight), abs(ended_at - midnight)) <= _NEAR_MIDNIGHT for midnight in midnights
    )
    return TIMING if is_near else OTHER_DAY


def _amounts_of(account: str, begin: datetime, end: datetime, closed_at: datetime) -> dict[str, int]:
    """The signed cents of our payments that became final on a day, in the order of their ids."""
    rows: Any = Transaction.select(Transaction.id, Transaction.type, Transaction.effect, Transaction.amount_cents)
    rows = rows.where(ended_within(account, begin, end, closed_at)).order_by(Transaction.id).tuples().iterator()
    return {name: direction_sign(kind, effect) * cents for name, kind, effect, cents in rows}


def _payments(
    amounts: Mapping[str, int], account: str, begin: datetime, end: datetime, closed_at: datetime
) -> list[DayPayment]:
    """Some payments of a day, with what is needed of those that have no line on it."""
    paid_at = _paid_at(account, begin, end, closed_at) if amounts else {}
    payments = []
    for transaction_ids in chunked(amounts, _AT_ONCE):
        rows: Any = Transaction.select(
            Transaction.id,
            Transaction.provider_transaction_id,
            Transaction.provider_reference,
            Transaction.created_at,
            Transaction.completed_at,
            Transaction.late,
        ).where(Transaction.id.in_(transaction_ids))
        for id_, receipt, reference, created_at, completed_at, is_late in rows.order_by(Transaction.id).tuples():
            began = paid_at.get(id_, created_at)
            payments.append(DayPayment(id_, receipt, reference, amounts[id_], began, completed_at, bool(is_late)))
    return payments


class _GivenBack(NamedTuple):
    """A payment whose money counted nowhere, or as that of our collection `counted_id`, from a day on.

    `closed_day` is its own day, if that was closed with it before; else None.
    """

    id: str
    counted_id: str
    cents: int
    closed_day: str | None


def _given_back(account: str, begin: datetime, end: datetime) -> list[_GivenBack]:
    """The payments and corrections whose money counts nowhere since a day, in the order of their ids."""
    rows: Any = (
        Transaction.select(
            Transaction.id,
            Transaction.same_money_as,
            Transaction.type,
            Transaction.effect,
            Transaction.amount_cents,
            Transaction.completed_at,
            Transaction.released_at,
        )
        .where(Transaction.released_at >= begin, Transaction.released_at < end, Transaction.provider_account == account)
        .where(Transaction.client_id.in_(Client.select(Client.id)))
        .order_by(Transaction.id)
        .tuples()
    )
    found = [
        (name, counted or name, direction_sign(kind, effect) * cents, kampala_day(ended), released)
        for name, counted, kind, effect, cents, ended, released in rows
    ]
    days = ClosedDay.select().where(ClosedDay.account == account, ClosedDay.day.in_({row[3] for row in found}))
    closed = {row.day: row.closed_at - SETTLES_WITHIN for row in days}
    return [
        _GivenBack(name, counted_id, cents, day if day in closed and closed[day] < given_back_at else None)
        for name, counted_id, cents, day, given_back_at in found
    ]


def ended_within(account: str, begin: datetime, end: datetime, moment: datetime) -> Any:
    """The condition on what succeeded at a provider on a day, by its end here, and was not given back before a moment.

    What was given back so shortly before that it may not be seen yet counts as given back after it.
    """
    return (
        (Transaction.completed_at >= begin)
        & (Transaction.completed_at < end)
        & (Transaction.provider_account == account)
        & Transaction.status.in_(SUCCESSFUL)
        & ~is_given_back(moment - SETTLES_WITHIN)
        & Transaction.type.in_(AT_PROVIDERS)
        & Transaction.client_id.in_(Client.select(Client.id))
    )


def _paid_at(account: str, begin: datetime, end: datetime, closed_at: datetime) -> dict[str, datetime]:
    """When what was booked on a day had moved, by its transaction, as the movement was told that it used."""
    rows: Any = (
        MovementUse.select(MovementUse.transaction_id, Movement.at)
        .join(Transaction, on=(Transaction.id == MovementUse.transaction_id))
        .join_from(MovementUse, Movement, on=(Movement.id == MovementUse.movement_id))
        .where(ended_within(account, begin, end, closed_at), Movement.at.is_null(False))
        .where((Transaction.origin == Origin.PAYER) | (Transaction.type == TransactionType.CORRECTION))
        .tuples()
    )
    return dict(rows)


def _closed_days(account: str, days: Collection[str], closed_at: datetime) -> set[str]:
    rows = ClosedDay.select(ClosedDay.day).where(
        ClosedDay.account == account, ClosedDay.day.in_(list(days)), ClosedDay.closed_at <= closed_at
    )
    return {row.day for row in rows}


def _with_their_ends(lines: Sequence[DayLine]) -> Iterator[tuple[DayLine, datetime | None]]:
    """Lines with the moments at which their payments became final here."""
    for some in chunked(lines, _AT_ONCE):
        rows: Any = Transaction.select(Transaction.id, Transaction.completed_at).where(
            Transaction.id.in_([line.transaction_id for line in some])
        )
        ends = dict(rows.tuples())
        yield from ((line, ends.get(line.transaction_id)) for line in some)


def _dates_of_lines(
    alone: Sequence[DayPayment], names: Mapping[str, str], day: date, lines: ExplainedLines
) -> dict[str, datetime]:
    """The dates of the lines that payments have on other days, by payment; `names` are the payments of lines."""
    if not alone:
        return {}
    days = {date.fromisoformat(each.began_on) for each in alone} | {day}
    near = {(each + step * _DAY).isoformat() for each in days for step in (-1, 0, 1)} - {day.isoformat()}
    return {
        names[line.transaction_id]: line.at
        for line in lines.of_days(near)
        if line.is_pair and line.transaction_id in names
    }


class _DayDifference(NamedTuple):
    id: str
    verdict: str
    transaction_id: str | None
    movement_id: str | None
    ours: Any
    theirs: Any
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None


def _differences(
    statement_ids: Collection[str], begin: datetime, end: datetime, with_line: Collection[str]
) -> list[_DayDifference]:
    """The differences of the day that the statements have, without those of payments that another statement has."""
    in_statement = DifferenceInStatement
    columns = (getattr(StatementDifference, name) for name in _DayDifference._fields)
    rows: Any = (
        StatementDifference.select(*columns)
        .join(in_statement, on=(in_statement.difference_id == StatementDifference.id))
        .where(in_statement.statement_id.in_(list(statement_ids)))
        .where(in_statement.at.is_null() | ((in_statement.at >= begin) & (in_statement.at < end)))
        .distinct()
        .order_by(StatementDifference.id)
    )
    differences = (_DayDifference(*row) for row in rows.tuples())
    return [row for row in differences if row.verdict != Verdict.NOT_THEIRS or row.transaction_id not in with_line]
