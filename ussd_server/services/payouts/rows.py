"""Rows of a payout: what each cell must be, and the problems of those that are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ussd_server.values import PHONE_NUMBER, cents_of

_LONGEST = {"reference": 64, "description": 200, "name": 100}
# How many characters of an invalid cell are kept, so that its sender recognises it.
_LONGEST_KEPT = 64
_MOST_LINES_NAMED = 5

PHONE_NUMBER_PROBLEM = "phone_number: Must be +256 followed by nine digits."
REFERENCE_PROBLEMS = ("reference: Used in rows ", "reference: Was used before.")
"""How the problems begin that depend on other rows and payments."""
AMOUNT_PROBLEM = "amount: Must be greater than 0 and less than 1000000, with at most two decimals."


@dataclass(slots=True)
class PayoutRow:
    """One row: its place, its values where they are valid, and what is wrong with it, in sentences.

    `sent` is a row with problems as it was sent, where its values do not show all of it.
    """

    line: int
    phone_number: str | None = None
    amount_cents: int | None = None
    amount_text: str | None = None
    reference: str | None = None
    description: str | None = None
    name: str | None = None
    provider: str | None = None
    fee_cents: int | None = None
    problems: list[str] = field(default_factory=list)
    sent: Any = None

    @property
    def is_ready(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.problems

    @property
    def content(self) -> tuple[Any, ...]:
        """The values that distinguish this row from another one."""
        values = (self.line, self.phone_number, self.amount_cents, self.reference, self.description, self.name)
        return values if self.sent is None else (*values, self.sent)


def row_of(line: int, values: Mapping[str, Any]) -> PayoutRow:
    """A row of values as JSON has them; nothing is trimmed or rewritten."""
    row = PayoutRow(line)
    number, amount = values.get("phone_number"), values.get("amount")
    row.phone_number = _kept(number)
    if not isinstance(number, str) or not PHONE_NUMBER.fullmatch(number):
        row.problems.append(PHONE_NUMBER_PROBLEM)
    row.amount_cents = cents_of(amount)
    if row.amount_cents is None:
        row.problems.append(AMOUNT_PROBLEM)
        row.amount_text = _kept(str(amount) if isinstance(amount, str | int | float | Decimal) else None)
    for name, longest in _LONGEST.items():
        value = values.get(name)
        setattr(row, name, _kept(value, longest))
        if value is None or value == "":
            if name == "reference":
                row.problems.append("reference: Missing.")
        elif not isinstance(value, str) or len(value) > longest:
            row.problems.append(f"{name}: Must be text of at most {longest} characters.")
        elif any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
            row.problems.append(f"{name}: Must not contain line breaks or control characters.")
    if row.problems:
        row.sent = dict(values)
    return row


def judge_references(rows: Sequence[PayoutRow], payout: str, used: Callable[[Collection[str]], set[str]]) -> None:
    """Add the problems of references that the rows repeat, or that were used before.

    `used` returns those of the given references of transactions that the client has already.
    """
    lines = defaultdict(list)
    for row in rows:
        if row.reference:
            lines[row.reference].append(row)
    for same in lines.values():
        if len(same) > 1:
            named = [str(row.line) for row in same[:_MOST_LINES_NAMED]]
            last = f"{len(same) - _MOST_LINES_NAMED} more" if len(same) > _MOST_LINES_NAMED else named.pop()
            for row in same:
                row.problems.append(f"reference: Used in rows {', '.join(named)} and {last}; each must be unique.")
    taken = used([transaction_reference(payout, reference) for reference in lines])
    for reference, same in lines.items():
        if transaction_reference(payout, reference) in taken:
            for row in same:
                row.problems.append("reference: Was used before.")


def transaction_reference(payout: str, row: str) -> str:
    """The reference of the transaction that a row becomes."""
    return f"{payout}/{row}"


def _kept(value: object, longest: int = _LONGEST_KEPT) -> str | None:
    return value[:longest] if isinstance(value, str) and value else None
