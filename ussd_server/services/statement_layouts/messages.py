"""Messages about layouts: how a statement is read, and the layouts that operators keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, BinaryIO

from ussd_server.providers.statement_format import LineStatus, LineType, StatementField
from ussd_server.services.reconciliation.messages import BalanceBreak, StatementReading
from ussd_server.services.reconciliation.reading.stated_direction import NOT_STATED, StatedDirection
from ussd_server.wire import SignedCents


@dataclass(frozen=True, slots=True)
class PreviewStatement:
    """Request to read a file and store nothing. `provider` is None for the one whose headings fit best."""

    source: BinaryIO
    provider: str | None = None
    reading: StatementReading = field(default_factory=StatementReading)


class ColumnSource(StrEnum):
    """How it is known what a column holds: from the provider's table, a kept layout, or the request."""

    KNOWN = "known"
    KEPT = "kept"
    SAID = "said"


@dataclass(frozen=True, slots=True)
class ColumnView:
    heading: Annotated[str, "Its heading."]
    field: Annotated[StatementField | None, "What it holds; null for a column that is not read."]
    how: Annotated[ColumnSource | None, "How this is known; null for a column that is not read."]


@dataclass(frozen=True, slots=True)
class LineView:
    """A line as it is read."""

    line: Annotated[int, "The line in the file."]
    id: Annotated[str, "The provider's id."]
    at: Annotated[datetime, "Its date."]
    amount_cents: Annotated[SignedCents, "Shillings, negative for money that went out."]
    kind: Annotated[LineType, "What it is."]
    status: Annotated[LineStatus, "Its outcome."]


@dataclass(frozen=True, slots=True)
class StatementPreview:
    """How a file is read: its columns, its first lines, and what all lines that succeeded add up to.

    `first_at` and `last_at` are None without a line. `problem` is the sentence for a file that is refused; the lines
    and the sums are then those before it, and nothing of the file may be used.
    """

    provider: str
    columns: tuple[ColumnView, ...]
    lines: tuple[LineView, ...] = ()
    in_cents: int = 0
    out_cents: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    balance: BalanceBreak | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class KeepLayout:
    """Request to keep how a file is read. `by` is the name of the operator.

    `columns` are headings by field; None: as the file is read already. `direction` is what lines without a type mean.
    """

    provider: str
    source: BinaryIO
    columns: Mapping[str, str] | None
    by: str
    direction: StatedDirection = NOT_STATED


@dataclass(frozen=True, slots=True)
class RemoveLayout:
    """Request to forget a layout. `by` is the name of the operator."""

    layout_id: str
    by: str


@dataclass(frozen=True, slots=True)
class LayoutView:
    """A layout that was kept: `columns` are headings by field, `headings` all of the table."""

    layout_id: str
    provider: str
    headings: tuple[str, ...]
    columns: Mapping[str, str]
    all_in: bool
    our_number: str | None
    created_by: str
    created_at: datetime
