"""Timekeeping: how the clocks of all processes follow the database's time, and each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from operator import itemgetter
from threading import Event, Thread

from peewee import PeeweeException

from ussd_server.clock import Clock
from ussd_server.database.unit_of_work import close_connections, release_connection
from ussd_server.logs import Logger
from ussd_server.models.operations import (
    ClockReading,
    Decision,
    note_seen,
    put_ahead,
    read_service_clock,
    set_service_time,
)

log = Logger(__name__)

SYNC_SECONDS = 1.0
# A process that waits for a processor reads late. An answer within 10 ms is near enough, else the fastest of five is.
_READINGS = 5
_FAST_SECONDS = 0.01
# No machine's clock drifts so far between two looks, and no wait for a processor looks like it: one of them was set.
_JUMP_SECONDS = 1.0
# `last_seen_at` is written at most every 5 s, because each write is a commit, and only by a process whose clock agreed
# with the database in its last 5 looks.
_SEEN_EVERY = timedelta(seconds=5)
_LOOKS_IN_AGREEMENT = 5
# The database's time counts as confirmed by other processes when `last_seen_at` is within 10 s of it. Gaps up to 20 s
# are never taken as confirmed: a moment written before the step would still be within 10 s of the new time.
_CONFIRMED_WITHIN = timedelta(seconds=10)
_CONFIRMED_FROM_SECONDS = 20
_SET_BACK = timedelta(seconds=1)
_OTHERS_NOTICE_SECONDS = 1.5 * SYNC_SECONDS


class Timekeeper:
    """Keeps a process's clock at the service's time: the database's time plus an offset in one row that all share.

    When the database's clock is stepped, the first process that notices writes the opposite offset to that row, so the
    service's time goes on as if nothing had happened, in every process and in those that start later. The offset then
    shrinks by 10 ms a second. A process whose own clock is wrong follows the others instead: it sees that they wrote a
    new offset, or that one of them has just seen the database's time.
    """

    def __init__(
        self,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """From now on the first use of `clock` reads the database's time (`look`)."""
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._decision: Decision | None = None
        self._in_agreement = 0
        self._is_away = False
        clock.set_first = self.look

    def start(self) -> None:
        """Follow the database's time on a thread of this process until it ends; the first look is made at once."""
        self._try_to_look()
        Thread(target=self.follow, args=(Event(),), name="timekeeper", daemon=True).start()

    def follow(self, stop: Event) -> None:
        """Look at the database's time every second until `stop` is set, also when the database is away."""
        while not stop.wait(SYNC_SECONDS):
            self._try_to_look()

    def set_time(self, moment: datetime | None) -> None:
        """Set the service's time and the clock to `moment`, None for the database's time.

        Only while no other process of the service runs: the others would follow.
        """
        self._clock.anchor(set_service_time(moment))

    def look(self) -> None:
        """Compare the clock with the database's time and correct it. Raises one of `DATABASE_ERRORS`."""
        reading, there, read_at, uncertain = self._read()
        is_new_decision, self._decision = reading.decision != self._decision, reading.decision
        if not self._clock.is_set:
            if reading.last_seen_at is not None and reading.last_seen_at - there > _SET_BACK:
                # The database's clock was set back. The running processes write the offset meanwhile.
                self._sleep(_OTHERS_NOTICE_SECONDS)
                reading, there, read_at, _ = self._read()
                there = max(there, reading.last_seen_at or there)
            self._clock.anchor(there, read_at)
            return
        if reading.decided_at is None:
            return
        # Both at the moment of the reading: a busy machine may have held up this thread since then.
        gap = (there - self._clock.exact(read_at)).total_seconds()
        if abs(gap) <= _JUMP_SECONDS + uncertain:
            self._clock.slew(max(gap - uncertain, 0.0) if gap > 0 else min(gap + uncertain, 0.0))
            self._in_agreement += 1
            is_due = reading.last_seen_at is None or there - reading.last_seen_at > _SEEN_EVERY
            if is_due and self._in_agreement >= _LOOKS_IN_AGREEMENT:
                note_seen(there)
            return
        self._in_agreement = 0
        is_confirmed = (
            abs(gap) > _CONFIRMED_FROM_SECONDS
            and reading.last_seen_at is not None
            and abs(there - reading.last_seen_at) < _CONFIRMED_WITHIN
        )
        if is_new_decision or is_confirmed:
            log.warning("the clock was set to the time of the other processes", gap_seconds=round(gap, 3))
            self._clock.anchor(there, read_at)
        elif decision := put_ahead(reading, reading.ahead - timedelta(seconds=gap)):
            log.warning("the database's clock was set: the service's time goes on", gap_seconds=round(gap, 3))
            self._decision = decision

    def _read(self) -> tuple[ClockReading, datetime, float, float]:
        """Read the database's time; return the service's time, the monotonic time then, and by how many s it may err.

        The database read its clock at some moment between question and answer.
        """
        readings = []
        for _ in range(_READINGS):
            asked_at = self._monotonic()
            reading = read_service_clock()
            answered_at = self._monotonic()
            readings.append((answered_at - asked_at, answered_at, reading))
            if answered_at - asked_at <= _FAST_SECONDS:
                break
        took, answered_at, reading = min(readings, key=itemgetter(0))
        return reading, reading.service_at + timedelta(seconds=took / 2), answered_at, took / 2

    def _try_to_look(self) -> None:
        try:
            self.look()
        except PeeweeException as error:
            close_connections()
            if not self._is_away:
                self._is_away = True
                log.warning("the clock cannot be compared with the database's", error=type(error).__name__)
        else:
            self._is_away = False
        finally:
            release_connection()
