"""Follows the running balance of a statement: it proves the signs, the order and that no line is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ussd_server.providers.statement_format import LineStatus, LineType
from ussd_server.services.reconciliation.messages import BalanceBreak
from ussd_server.services.reconciliation.reading.statement_lines import ProviderLine

_MOST_RUNS = 100
_Charges = Callable[[ProviderLine], int]
_WAYS_OF_CHARGING: tuple[_Charges, ...] = (
    lambda _: 0,
    lambda line: line.fee_cents,
    lambda line: line.fee_cents + line.tax_cents,
)


@dataclass(slots=True)
class BalanceRun:
    """Lines whose balances follow each other without a break: the balance before the first and after the last line."""

    first: datetime
    last: datetime
    opening_cents: int
    closing_cents: int

    def extend(self, at: datetime) -> None:
        """Take the date of one more line."""
        self.first, self.last = min(self.first, at), max(self.last, at)


class RunningBalance:
    """Takes the lines of one statement one at a time, in constant memory.

    A file is read forwards and backwards at once, and with each way in which providers charge: the balance changes by
    the signed amount, by that less the fee, or by that less fee and tax. The way with the fewest breaks is the file's,
    of two such ways that in the direction of the dates, then that whose first break comes last.
    """

    def __init__(self) -> None:
        self._ways = [way(charges) for charges in _WAYS_OF_CHARGING for way in (_Forwards, _Backwards)]
        self._has_balance = False
        self._before: datetime | None = None
        self._steps_back = 0

    def follow(self, line: ProviderLine) -> None:
        """Take the next line."""
        self._has_balance = self._has_balance or line.balance_cents is not None
        if self._before and line.at != self._before:
            self._steps_back += 1 if line.at < self._before else -1
        self._before = line.at
        for way in self._ways:
            way.follow(line)

    @property
    def first_break(self) -> BalanceBreak | None:
        """The first line that does not follow; None where every line follows, or none has a balance."""
        return self._way().first_break

    def runs(self) -> list[BalanceRun] | None:
        """The unbroken runs in the order of the file; None for a file without balances.

        Empty for a file with more than 100 breaks: its balances prove nothing.
        """
        if not self._has_balance:
            return None
        runs = self._way().runs
        return runs if len(runs) <= _MOST_RUNS else []

    def _way(self) -> _Way:
        newest_first = self._steps_back > 0
        return min(self._ways, key=lambda way: (way.breaks, way.is_backwards is not newest_first, -way.first_line))


class _Way(ABC):
    """One direction and one way of charging. `_expected` are the balances that may follow, empty before a run."""

    is_backwards = False

    def __init__(self, charges: _Charges) -> None:
        self._charges = charges
        self._expected: tuple[int, ...] = ()
        self.breaks = 0
        self.first_break: BalanceBreak | None = None
        self.runs: list[BalanceRun] = []

    @abstractmethod
    def follow(self, line: ProviderLine) -> None:
        """Take the next line of the file."""

    @property
    def first_line(self) -> int:
        """The line of the first break, 0 without one."""
        return self.first_break.line if self.first_break else 0

    def _note_break(self, line: ProviderLine, expected_cents: int, shown_cents: int) -> None:
        self.breaks += 1
        if self.first_break is None:
            self.first_break = BalanceBreak(line.line, expected_cents, shown_cents)

    def _begin_run(self, line: ProviderLine, opening: int, closing: int) -> None:
        # One more than the most shows that there are too many.
        if len(self.runs) <= _MOST_RUNS:
            self.runs.append(BalanceRun(line.at, line.at, opening, closing))


class _Forwards(_Way):
    """The oldest line comes first. `_expected` are the balances before the next line."""

    def follow(self, line: ProviderLine) -> None:
        changes, balance_cents = _changes(line, self._charges), line.balance_cents
        expected = tuple(before + change for before in self._expected for change in changes)
        if balance_cents is None:
            # The balance of a later line shows whether this one was counted.
            self._expected = expected if len(changes) == 1 else ()
            if self._expected:
                self.runs[-1].extend(line.at)
                self.runs[-1].closing_cents = self._expected[0]
            return
        if balance_cents in expected:
            self.runs[-1].extend(line.at)
            self.runs[-1].closing_cents = balance_cents
        else:
            if expected:
                self._note_break(line, expected[0], balance_cents)
            self._begin_run(line, balance_cents - changes[0], balance_cents)
        self._expected = (balance_cents,)


class _Backwards(_Way):
    """The newest line comes first. `_expected` are the balances after the next line."""

    is_backwards = True

    def follow(self, line: ProviderLine) -> None:
        changes, balance_cents = _changes(line, self._charges), line.balance_cents
        if balance_cents is None:
            self._expected = tuple(each - changes[0] for each in self._expected) if len(changes) == 1 else ()
            if self._expected:
                self.runs[-1].extend(line.at)
                self.runs[-1].opening_cents = self._expected[0]
            return
        before = tuple(balance_cents - change for change in changes)
        if balance_cents in self._expected:
            self.runs[-1].extend(line.at)
            self.runs[-1].opening_cents = before[0]
        else:
            if self._expected:
                self._note_break(line, self._expected[0], balance_cents)
            self._begin_run(line, before[0], balance_cents)
        self._expected = before


def _changes(line: ProviderLine, charges: _Charges) -> tuple[int, ...]:
    """By what a line may change the balance: both signs of a line that does not show its direction, as a reversal."""
    if line.status is not LineStatus.SUCCEEDED:
        return (0,)
    amount, charge = (line.direction or -1) * line.amount_cents, charges(line)
    if line.type is LineType.REVERSAL or line.direction == 0:
        return amount - charge, -amount - charge
    return (amount - charge,)
