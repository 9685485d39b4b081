"""Messages about statements of providers: what the comparison found, and the review of differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, BinaryIO

from ussd_server.providers.statement_format import DateOrder, Thousands
from ussd_server.services.reconciliation.reading.stated_direction import NOT_STATED, StatedDirection
from ussd_server.values import shillings
from ussd_server.wire import Form, Internal, Key, ListPage, SignedCents


@dataclass(frozen=True, slots=True)
class StatementReading:
    """What an operator says of a file that its lines do not show; None leaves it to the lines.

    `columns` are headings by field, in place of all headings that are known. `direction` is what lines without a type
    and without a sign mean.
    """

    dates: DateOrder | None = None
    thousands: Thousands | None = None
    columns: Mapping[str, str] | None = None
    direction: StatedDirection = NOT_STATED


@dataclass(frozen=True, slots=True)
class ReconcileStatement:
    """Request to compare a statement with our transactions.

    `source` is the file, open for reading bytes and seekable; `file_name` is its name for people. `on_progress` is
    called with the number of lines read so far, then `on_line` with the result for every line, in their order, before
    anything is stored. A dry run stores nothing. `is_confirmed` stores a statement in spite of a doubt. `covers` are
    the first and the last day in Kampala of which the file has every line, as two operators state: `by` and `second`.
    `reading` is how the file is read.
    """

    account: str
    file_name: str
    source: BinaryIO
    on_line: Callable[[ComparedLine], object] = lambda _: None
    on_progress: Callable[[int], object] = lambda _: None
    is_dry_run: bool = False
    is_confirmed: bool = False
    covers: tuple[date, date] | None = None
    by: str = ""
    second: str = ""
    reading: StatementReading = field(default_factory=StatementReading)


@dataclass(frozen=True, slots=True)
class ProviderStatementView:
    """A statement that was imported.

    `lines` counts lines by verdict; `difference_count` are those that went to review. `ours_cents` and `theirs_cents`
    are what succeeded, money to us less money from us.
    """

    statement_id: str
    account: str
    file_name: str
    first_at: datetime
    last_at: datetime
    lines: Mapping[Verdict, int]
    difference_count: int
    ours_cents: int
    theirs_cents: int
    imported_at: datetime


@dataclass(frozen=True, slots=True)
class BalanceBreak:
    """The first line whose running balance does not follow from that of its neighbour in the file."""

    line: Annotated[int, "The line."]
    expected_cents: Annotated[SignedCents, "The balance that would follow."]
    found_cents: Annotated[SignedCents, "The balance that it has."]


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of a comparison. `differences` reads them again from a file at every call, in constant memory.

    `is_stored`: the statement has been imported, now or before; otherwise the id of `statement` names nothing.
    `is_repeat`: it was imported before, and nothing was stored now. `balance` is where the running balance breaks, None
    where it follows or is absent. `doubt` says what needs a confirmation: such a break, more than 1,000 differences, or
    differences in more than half of the lines; None for a file that was imported before.
    """

    statement: ProviderStatementView
    is_stored: bool
    is_repeat: bool
    balance: BalanceBreak | None
    doubt: str | None
    differences: Callable[[], Iterator[ComparedLine]]


@dataclass(frozen=True, slots=True)
class CoverDays:
    """Request of two operators: a stored statement has every line of the days from `first` to `last`, in Kampala."""

    statement_id: str
    first: date
    last: date
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class UndoImport:
    """Request to take an import back. `by` and `second` name two people; `reason` has 1 to 200 characters."""

    statement_id: str
    by: str
    second: str
    reason: str = "the import was undone"


class Verdict(StrEnum):
    """What the comparison found for a line, or for a transaction that the statement lacks (wire contract 13)."""

    MATCHED = "matched"
    AMOUNT_DIFFERS = "amount_differs"
    STATUS_DIFFERS = "status_differs"
    NOT_OURS = "not_ours"
    NOT_THEIRS = "not_theirs"
    REVERSAL = "reversal"
    FEE = "fee"


MAY_DIFFER = tuple(verdict for verdict in Verdict if verdict not in (Verdict.MATCHED, Verdict.FEE))
"""The verdicts that differences have. Of reversals, only those that no refund of ours explains are differences."""


def _written(value: int | str) -> int | float | str:
    return shillings(value) if isinstance(value, int) else value


_Compared = Annotated[int | str, Form({"type": ["number", "string"]}, _written)]


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """The result for one line; `line` is None for a transaction that the statement lacks.

    `ours` and `theirs` are what was compared: statuses for
    `status_differs`, else cents with a sign, positive for money to us; None on a side that has nothing.
    `is_difference` says whether an operator must look at it. `moved_cents` is what the line moved, with a sign, 0 for
    nothing. `dated` and `party` are as in the statement. `at` is the
    date of the line (UTC), or when a transaction without a line became final here.
    """

    line: Annotated[int | None, "The line in the statement; null where it has none."]
    verdict: Annotated[Verdict, "What the comparison found."]
    provider_id: Annotated[str | None, "The provider's name for the payment."]
    reference: Annotated[str | None, "Our name for the payment at the provider."]
    transaction_id: Annotated[str | None, "Our transaction."]
    ours: Annotated[_Compared | None, "What we have: a status, or an amount in shillings with its sign."]
    theirs: Annotated[_Compared | None, "What the statement has."]
    is_difference: Internal[bool]
    dated: Internal[str | None] = None
    party: Internal[str | None] = None
    at: Internal[datetime | None] = None
    moved_cents: Internal[int] = 0


@dataclass(frozen=True, slots=True)
class ListDifferences(ListPage):
    """Request for a page of differences: those of one statement in its order, or else the open ones, newest first.

    With `verdict` only those of a statement that have it.
    """

    statement_id: str | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A difference and its review; `statement_id`, `file_name` and the line are of the first statement that had it.

    One whose line moved money has `movement_id` in place of a review. `reason` and `ended_by` say how the review ended;
    they and `ended_at` are None while it is open.
    """

    difference_id: str
    account: str
    statement_id: str
    file_name: str
    line: int | None
    verdict: Verdict
    provider_id: str | None
    reference: str | None
    transaction_id: str | None
    movement_id: str | None
    ours: int | str | None
    theirs: int | str | None
    dated: str | None
    party: str | None
    opened_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class EndDifference:
    """Request to end the review of a difference. `reason` is 1 to 200 characters, `by` the name of the operator."""

    difference_id: str
    reason: str
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class ConcludeFromStatement:
    """Request to conclude a payment that succeeded for the provider, and is unfinished or failed here.

    `by` and `second` are the names of two different people.
    """

    difference_id: str
    reason: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class CloseDay:
    """Request to close a day in Kampala for an account at a provider; `by` is the name of the operator.

    `is_empty`: the provider's statement of the day has no lines, so there is none to import. `second` is the name of
    another operator, for a bridge that takes two.
    """

    date: date
    account: str
    by: str
    is_empty: bool = False
    second: str | None = None


@dataclass(frozen=True, slots=True)
class BridgeStep:
    """One reconciling item between our total of a day and the provider's: the lines of one verdict.

    Beside the verdicts of lines: `held`, movements that had no use yet; `late_change`, what came on this day and
    changes the closed day `late_for`; `timing`, what one of us dated before midnight and the other after it, within
    thirty minutes; and `other_day`, what the provider dated on another day than that.
    """

    verdict: str
    count: int
    amount_cents: SignedCents
    late_for: str | None = None


@dataclass(frozen=True, slots=True)
class ClosedDayView:
    """A closed day of an account at a provider. The steps of the bridge add up to the difference, ours less theirs.

    `confirmed_by` is the second operator, where the bridge took two.
    """

    date: str
    account: Annotated[str, Key("provider")]
    ours_cents: SignedCents
    theirs_cents: SignedCents
    difference_cents: SignedCents
    bridge: tuple[BridgeStep, ...]
    closed_by: str
    closed_at: datetime
    confirmed_by: str | None = None


@dataclass(frozen=True, slots=True)
class DayState:
    """A past day of an account; `closed` is None while it is open, `is_covered` says whether statements cover it."""

    date: str
    account: Annotated[str, Key("provider")]
    closed: ClosedDayView | None
    is_covered: bool


@dataclass(frozen=True, slots=True)
class FindLost:
    """Request for the payments since a moment that statements have and we do not: statements by their accounts.

    `reading` is how every one of them is read.
    """

    since: datetime
    statements: Sequence[tuple[str, BinaryIO]]
    reading: StatementReading = field(default_factory=StatementReading)


@dataclass(frozen=True, slots=True)
class LostPayment:
    """A success in a provider's statement that we do not know: its commit was lost, or it was never ours.

    `reference` is our name for the payment at the provider, empty for a payment that was never ours. `type` is
    `collection`, `disbursement` for what left, or `refund` where the statement says so; `refund_of` is the payment that
    it names then.
    """

    account: str
    provider_id: str
    reference: str
    at: datetime
    type: str
    amount_cents: int
    phone_number: str | None
    refund_of: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A client's name for a lost payment: the reference under which it had requested it.

    `refund_of` is the collection that a refund gave back; None for the only one that fits.
    """

    account: str
    provider_id: str
    client: str
    reference: str
    refund_of: str | None = None


@dataclass(frozen=True, slots=True)
class BookLost:
    """Request of two operators to book lost payments under the references that clients named."""

    lost: Sequence[LostPayment]
    claims: Sequence[Claim]
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class RecoveredPayment:
    """A lost payment that is booked. `replayed`: it was booked before."""

    transaction_id: str
    account: str
    provider_id: str
    client_id: str
    reference: str
    amount_cents: int
    replayed: bool
