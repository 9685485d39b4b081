"""Messages about statements of providers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from ussd_server.messages.reconciliation.differences import ComparedLine, Verdict


@dataclass(frozen=True, slots=True)
class ReconcileStatement:
    """Request to compare a statement with our transactions.

    `source` is the file, open for reading bytes and seekable; `file_name` is its name for people. `on_progress` is
    called with the number of lines read so far, then `on_line` with the result for every line, in their order, before
    anything is stored. A dry run stores nothing. `is_confirmed` stores a statement in spite of a doubt.
    """

    provider: str
    file_name: str
    source: BinaryIO
    on_line: Callable[[ComparedLine], object] = lambda _: None
    on_progress: Callable[[int], object] = lambda _: None
    is_dry_run: bool = False
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True)
class ProviderStatementView:
    """A statement that was imported.

    `lines` counts lines by verdict; `difference_count` are those that went to review. `ours_cents` and `theirs_cents`
    are what succeeded, money to us less money from us.
    """

    statement_id: str
    provider: str
    file_name: str
    first_at: datetime
    last_at: datetime
    lines: Mapping[Verdict, int]
    difference_count: int
    ours_cents: int
    theirs_cents: int
    imported_at: datetime


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of a comparison. `differences` reads them again from a file at every call, in constant memory.

    `is_stored`: the statement has been imported, now or before; otherwise the id of `statement` names nothing.
    `is_repeat`: it was imported before, and nothing was stored now. `doubt` is a sentence, when the statement has more
    than 1,000 differences or differs in more than half of its lines, and was not imported before.
    """

    statement: ProviderStatementView
    is_stored: bool
    is_repeat: bool
    doubt: str | None
    differences: Callable[[], Iterator[ComparedLine]]


@dataclass(frozen=True, slots=True)
class UndoImport:
    """Request to take an import back. `by` and `second` name two people; `reason` has 1 to 200 characters."""

    statement_id: str
    by: str
    second: str
    reason: str = "the import was undone"


@dataclass(frozen=True, slots=True)
class ListProviderStatements:
    """Request for a page of imported statements, newest first."""

    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ProviderStatementPage:
    """A page of statements and the cursor of the next one."""

    items: tuple[ProviderStatementView, ...]
    next_cursor: str | None
