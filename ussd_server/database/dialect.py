"""Differences by database: each method has one implementation in `postgres.py` and one in `sqlite.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from peewee import OperationalError

if TYPE_CHECKING:
    from ussd_server.database.unit_of_work import LendingPool


class ReadOnlyDatabaseError(OperationalError):
    """The database takes no writes: it is a standby or set to read-only. A new connection may reach the primary."""


NO_ROOM = "no room left on the database's disk"
LOCKED = "a lock of the database was not free in time"
AWAY = "the database is away"


class UnsupportedDatabaseError(Exception):
    """The service cannot use this database; the message says why."""


class Dialect(ABC):
    """What differs between PostgreSQL and SQLite, for the open database.

    Texts of SQL name their parameters as `:name`; `run_query` runs them.
    """

    name: ClassVar[str]
    clock: ClassVar[str]
    """The expression for the time of the database's clock."""

    def __init__(self, pool: LendingPool) -> None:
        self.pool = pool
        pool.dialect = self

    # The server.

    @abstractmethod
    def check_version(self) -> None:
        """Raise UnsupportedDatabaseError for a version of the database that is too old."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the time of the database's clock (UTC)."""

    @abstractmethod
    def is_read_only(self) -> bool:
        """Ask whether the server takes no writes now."""

    @abstractmethod
    def has_room(self) -> bool:
        """Ask whether the disk of the database takes another megabyte."""

    @abstractmethod
    def reason_of(self, error: Exception) -> str:
        """Return what one of `DATABASE_ERRORS` says about the database, in words for the log."""

    @abstractmethod
    def was_rolled_back(self, error: Exception) -> bool:
        """Return whether the database reports that it rolled back, so that the caller may retry at once."""

    @abstractmethod
    def broken_rule(self, error: Exception) -> str:
        """Return the constraint that an IntegrityError is about, or a text with its name; `` when unknown."""

    # Connections and transactions.

    @abstractmethod
    def without_timeouts(self) -> AbstractContextManager[None]:
        """Wait for replies to this thread's statements without a limit. The timeouts of PostgreSQL itself stay."""

    @abstractmethod
    def without_syncs(self) -> AbstractContextManager[None]:
        """Let this thread's commits on SQLite not wait for the disk. A power cut may lose them, but damages nothing."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Begin a read-only transaction for queries by ranges of ids; all of them see the same snapshot."""

    @abstractmethod
    def allow_statements(self, milliseconds: int) -> None:
        """Set the statement timeout of this unit of work."""

    @abstractmethod
    def for_update(self, rows: Any) -> Any:
        """Lock the rows of a query until the unit of work ends; on SQLite a writer has locked the whole file."""

    @abstractmethod
    def skip_locked(self, rows: Any) -> Any:
        """Lock the rows of a query until the unit of work ends, and leave out rows that are locked already."""

    @abstractmethod
    def advisory_lock(self, number: int) -> None:
        """Take the advisory lock `number` until the unit of work ends, over all processes. SQLite has one writer."""

    @abstractmethod
    def lock_table(self, table: str) -> None:
        """Keep other writers from a table until the unit of work ends."""

    @abstractmethod
    def let_others_write(self, seconds: float) -> None:
        """Call after a unit of work that took `seconds`: on SQLite, pauses so that other writers get the lock."""

    # Migrations.

    @abstractmethod
    def only_migration(self) -> AbstractContextManager[None]:
        """Wait until no other process migrates this database, and keep others waiting."""

    @abstractmethod
    def line_of_schema(self, line: str) -> str:
        """Return a line of a statement, which is written in PostgreSQL's types, for this database."""

    @abstractmethod
    def without_parameters(self, statement: str) -> str:
        """Return a statement without parameters as the driver takes it."""

    # Expressions, and sources of rows.

    @abstractmethod
    def named(self, query: str) -> str:
        """Return a query whose parameters are written `:name` as the driver takes it."""

    @abstractmethod
    def moment(self, column: str) -> str:
        """A column as the text that `iso_milliseconds` returns."""

    @abstractmethod
    def text(self, column: str) -> str:
        """A column as text."""

    @abstractmethod
    def seconds_between(self, began: str, ended: str) -> str:
        """The seconds from one moment to another, with a fraction."""

    @abstractmethod
    def microseconds(self, moment: str) -> str:
        """The microseconds of a moment since 1970; on SQLite in whole seconds."""

    @abstractmethod
    def kampala_day(self, moment: str) -> str:
        """The day of a moment in Kampala as text: `2026-11-20`."""

    @abstractmethod
    def json_value(self, document: str, key: str, kind: str) -> str:
        """The value of a key of a JSON object, in the type that PostgreSQL calls `kind`."""

    @abstractmethod
    def json_rows(self, columns: Mapping[str, str]) -> str:
        """A table of the JSON array `:rows`. `columns` have the types as PostgreSQL calls them."""

    @abstractmethod
    def rows_of(self, table: str, columns: Sequence[str]) -> str:
        """A SELECT of rows for a table from the JSON array `:rows`."""

    # Functions of the schema on PostgreSQL. On SQLite statements do the same.

    @abstractmethod
    def post(self, document: str) -> None:
        """Write postings: a JSON object with `accounts` and `legs`. Raises IntegrityError."""

    @abstractmethod
    def record_transactions(self, document: str, columns: Mapping[str, Sequence[str]]) -> None:
        """Write a batch of transactions, all of it or nothing. Raises IntegrityError.

        `columns` has those of the document's lists that are rows of tables.
        """

    @abstractmethod
    def write_steps(self, steps: Sequence[Mapping[str, Any]]) -> set[int]:
        """Write the steps whose condition holds; return their places, counted from 1."""
