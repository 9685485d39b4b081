"""The service's time while a day of example data is made: it begins a day ago and is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import dialect
from ussd_server.services.payouts.sending import PayoutSender
from ussd_server.services.settlement.settlement import Settlement
from ussd_server.services.transactions.create import TransactionCreator

_DAY = timedelta(hours=24)
_AT_ONCE = 50
_SESSIONS_AT_ONCE = 200


class MovingTime:
    """Moves the service's time of a process that runs alone, and does what the background worker would do in that time.

    The row of the service's time stays a day behind until the end: the database stamps ledger entries with its own time
    or the transfer's, whichever is later.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._timekeeper = services.timekeeper
        self._unfinished = services.settings.data_dir / "examples.unfinished"
        # A day is made in seconds, and the limiter counts by the real time.
        hurried = replace(services.runtime, within_pace=_within_any_pace)
        self._settlement = Settlement(hurried)
        self._sender = PayoutSender(hurried, services.subscriber_names, TransactionCreator(hurried))

    def end_interrupted(self) -> None:
        """Set the service's time right where an earlier process died while it moved it."""
        if self._unfinished.exists():
            self._end()

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Set the time back by a day for the block; it is right again afterwards."""
        self._unfinished.touch()
        try:
            self._timekeeper.set_time(self._services.clock.now() - _DAY)
            with dialect().without_syncs():
                yield
        finally:
            self._end()

    def now(self) -> datetime:
        """The service's time."""
        return self._services.clock.now()

    def wait(self, seconds: float) -> None:
        """Let `seconds` pass, then advance the payouts and settle the payments that are due."""
        self._services.clock.anchor(self.now() + timedelta(seconds=seconds))
        while payouts := self._sender.claim(_AT_ONCE):
            for payout_id in payouts:
                self._sender.advance(payout_id)
        while due := self._settlement.claim(_AT_ONCE):
            for claimed in due:
                self._settlement.advance(claimed)

    def wait_until(self, moment: datetime) -> None:
        """Let the time come to `moment`, if it is still ahead; then end expired sessions and relay events."""
        self.wait(max(0.0, (moment - self.now()).total_seconds()))
        self._services.api_sessions.end_expired(_SESSIONS_AT_ONCE)
        self._services.relay.run()

    def _end(self) -> None:
        self._timekeeper.set_time(None)
        self._unfinished.unlink(missing_ok=True)


def _within_any_pace(_provider: str) -> bool:
    return True
