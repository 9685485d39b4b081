"""Each kind of payment while the address of its provider changes: lost answers, deaths, a restore, settings that go."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import MovableClock
from tests.services.processing.moves import Move, old_connection
from tests.support.books import check_everything
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.transactions import Transaction
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.settings import Settings

_TROUBLES: list[dict[str, object]] = [
    {},
    {"silent_after_accept": True, "calls": ["submit"], "times": 2},
    {"silent_before_accept": True, "calls": ["submit"], "times": 2},
    {"error_status": 500, "calls": ["submit"], "times": 1},
    {"error_status": 500, "calls": ["submit"], "times": 1, "carried_out": False},
    {"hidden_seconds": 40.0},
]
_DEATHS = ["send.recorded", "send.answered", "answer.applied"]
_BY_DAY, _BY_NIGHT = range(4, 60, 7), range(60)


class Death(BaseException):
    """A worker dies here."""


class Deaths:
    """Stands for `os.kill`: the worker dies at its kill point, once this many deaths later; never while it is None."""

    after: int | None = None

    def __call__(self, process: int, number: int) -> None:
        if self.after is not None:
            self.after -= 1
            if self.after < 0:
                raise Death


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deaths]:
    standing_in = Deaths()
    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", standing_in)
        yield standing_in


def work(move: Move, seconds: int) -> None:
    """Do what falls due within so many seconds, on the clocks of everybody."""
    for _ in range(seconds // 30):
        for claimed in move.services.processing.claim(10):
            move.services.processing.advance(claimed)
        for clock in (move.clock, move.old.clock, move.new.clock):
            clock.advance(30)


def copy(source: Path, target: Path) -> None:
    """Copy a database over another one, of which nobody has a connection."""
    close_connections()
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def times_paid(move: Move, row: Transaction, original: Transaction) -> int:
    """How often the money of a payment has moved, at both addresses. Airtel knows refunds by their collection."""
    payments = [each for stand_in in (move.old, move.new) for each in stand_in.book.payments() if each.paid_at]
    if row.refund_of and move.provider == "airtel":
        return sum(each.original == original.provider_reference.replace("-", "") for each in payments)
    return sum(each.reference.replace("-", "") == row.provider_reference.replace("-", "") for each in payments)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "seed",
    [pytest.param(each, marks=[] if each in _BY_DAY else [pytest.mark.nightly]) for each in _BY_NIGHT],
)
def test_nothing_is_paid_twice_or_lost(
    seed: int, settings: Settings, clock: MovableClock, deaths: Deaths, tmp_path: Path
) -> None:
    rng, saved = random.Random(seed), tmp_path / "saved.db"
    database = Path(settings.database_url.removeprefix("sqlite:///"))
    mortal = replace(settings, kill_point=rng.choice(_DEATHS))
    keeps_old, restores = rng.random() < 0.6, rng.random() < 0.4
    with ExitStack() as stack:
        move = Move(stack, mortal, clock, ("mtn", "airtel")[seed % 2])
        original = Transaction.get_by_id(move.pay("collection", "original", 900))
        work(move, 600)
        move.old.switches.change({"approve_delay_seconds": rng.choice([0.0, 30.0, 250.0]), **rng.choice(_TROUBLES)})
        made = [move.pay("disbursement", "sent", 600), move.pay("collection", "asked", 700)]
        made.append(
            move.services.refunds.create(CreateRefund(original.id, "back"), move.client).transaction.transaction_id
        )
        if restores and (is_unsent := rng.random() < 0.5):
            copy(database, saved)
        deaths.after = rng.choice([None, 0, 1, 2])
        with suppress(Death):
            work(move, rng.choice([30, 90]))
        deaths.after = None
        if restores:
            if not is_unsent:
                copy(database, saved)
                work(move, 90)
            copy(saved, database)
            move.start(move.new, USSD_HOLD_MONEY="1", **old_connection(move))
            work(move, 120)
        move.start(move.new, **(old_connection(move) if keeps_old or restores else {}))
        made += [move.pay("disbursement", "sent later", 650), move.pay("collection", "asked later", 750)]
        work(move, 600)
        if not keeps_old:
            move.start(move.new, **old_connection(move))
        work(move, 5000)
        original = Transaction.get_by_id(original.id)
        for row in Transaction.select().where(Transaction.id.in_([*made, original.id])):
            paid = times_paid(move, row, original)
            assert paid <= 1, row.reference
            # Airtel cannot be asked about a refund whose answer was lost.
            assert row.completed_at or row.is_in_review, row.reference
            assert row.is_in_review or paid == (row.status != "failed"), (row.reference, row.status)
        assert check_everything() == []
