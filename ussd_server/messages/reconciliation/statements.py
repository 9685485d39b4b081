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

    `source` is the file, open for reading bytes and seekable; `file_name` is its name for people. `on_line` is called
    with the result for every line, in their order, before anything is stored.
    """

    provider: str
    file_name: str
    source: BinaryIO
    on_line: Callable[[ComparedLine], object] = lambda _: None


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

    `is_repeat`: the same file was imported before, and nothing was stored.
    """

    statement: ProviderStatementView
    is_repeat: bool
    differences: Callable[[], Iterator[ComparedLine]]


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
