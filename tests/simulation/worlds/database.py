"""The real database under the scheduler: points between transactions, the virtual time, and lost commits."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from peewee import OperationalError

from tests.simulation.worlds.scheduler import Scheduler
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database
from ussd_server.security.key_ring import Keyring

# Their writes are no work for other tasks.
_SILENT_STEPS = ("heartbeat", "timekeeper")
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH")
_DUE = "(SELECT min(due_at) FROM {0} WHERE due_at IS NOT NULL AND leased_until IS NULL)"
_LEASED = "(SELECT min(leased_until) FROM {0} WHERE due_at IS NOT NULL)"
_OF_EACH = ", ".join(f"{_DUE}, {_LEASED}".format(table) for table in ("transactions", "payouts", "deliveries"))
_WORK_DUE = f"SELECT EXISTS (SELECT 1 FROM pending_events), (SELECT ahead_ms FROM service_clock), {_OF_EACH}"
_plain = sqlite3.connect(":memory:")


class SqliteWorld:
    """A SQLite file in memory. Between any two transactions other tasks run; within one none does, as in SQLite."""

    def __init__(self, scheduler: Scheduler, folder: Path) -> None:
        self._scheduler = scheduler
        self._path = folder / "world.db"
        self._copies = folder / "copies"
        self._copies.mkdir(exist_ok=True)
        for leftover in folder.glob("world.db*"):
            leftover.unlink()
        shutil.copy(_template(folder), self._path)
        open_database(f"sqlite:///{self._path}", 4)
        pool = database.obj
        pool.__class__ = _switching(type(pool))
        pool.scheduler = scheduler
        pool.register_function(_virtual("strftime"), "strftime", -1)
        pool.register_function(_virtual("julianday"), "julianday", -1)

    @property
    def url(self) -> str:
        """The address of the database."""
        return f"sqlite:///{self._path}"

    def copy(self, name: str) -> None:
        """Keep a copy of the database as it is now. Call outside of every task."""
        close_connections()
        shutil.copy(self._path, self._copies / name)

    def restore(self, name: str) -> None:
        """Lose every commit since the copy. Call outside of every task."""
        close_connections()
        shutil.copy(self._copies / name, self._path)
        self._scheduler.note_activity()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query of the simulation itself."""
        return list(database.execute_sql(query).fetchall())

    def work_due(self) -> tuple[bool, list[float]]:
        """Whether events wait for the relay, and when transactions, payouts and deliveries are due and leases end."""
        ((pending, ahead_ms, *moments),) = self.rows(_WORK_DUE)
        # The service's time may have become that of a clock that was set.
        ahead = TIME.database_ahead + ahead_ms / 1000
        return bool(pending), [_seconds_of(moment) - ahead for moment in moments]

    def close(self) -> None:
        """Close the connections."""
        close_connections()


def _seconds_of(moment: str | None) -> float:
    """A moment of the database in seconds since the start, infinite for none."""
    return (datetime.fromisoformat(moment) - STARTED_AT).total_seconds() if moment else float("inf")


@cache
def _template(folder: Path) -> Path:
    """A migrated database, and the keys with which each seed names its payments."""
    random.seed(0)
    Keyring.create(folder / "secrets.json")
    path = folder / "template.db"
    open_database(f"sqlite:///{path}", 2)
    migrate()
    close_connections()
    return path


def _virtual(name: str) -> Any:
    """A function of SQLite for which `now` is the virtual time."""

    def function(*given: Any) -> Any:
        moment = f"{TIME.database_now():%Y-%m-%dT%H:%M:%S.%f}"[:-3]
        shown = [moment if each == "now" else each for each in given]
        return _plain.execute(f"SELECT {name}({', '.join('?' * len(shown))})", shown).fetchone()[0]

    return function


@cache
def _switching(pool: type) -> type:
    """A pool of the same kind whose transactions are points of the scheduler."""

    class Switching(pool):  # type: ignore[misc, valid-type]
        scheduler: Scheduler

        @contextmanager
        def atomic(self, *given: Any, **named: Any) -> Iterator[Any]:
            if self.in_transaction():
                with super().atomic(*given, **named) as savepoint:
                    yield savepoint
                return
            self.scheduler.point("before a transaction")
            with super().atomic(*given, **named) as transaction:
                yield transaction
                self.scheduler.point("before the commit", may_switch=False)
            self._committed()

        def execute_sql(self, sql: str, params: Any = None) -> Any:
            if self.in_transaction() or not sql.lstrip().upper().startswith(_WRITES):
                return super().execute_sql(sql, params)
            self.scheduler.point("before a transaction")
            cursor = super().execute_sql(sql, params)
            self._committed()
            return cursor

        def _committed(self) -> None:
            task = self.scheduler.current
            if task is not None and task.step not in _SILENT_STEPS:
                self.scheduler.note_activity()
            self.scheduler.point("after the commit")

    return Switching


def trouble() -> OperationalError:
    """What the program sees when the connection breaks: unknown, when a commit was under way."""
    return OperationalError("the connection broke")
