"""The background worker. It decides when work is done; services do the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any, TypeVar

from ussd_server.bootstrap import Services
from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, reason_of, release_connection
from ussd_server.logs import Logger, now_about, trace_of
from ussd_server.services.mail.sending import THREADS as MAIL_THREADS
from ussd_server.services.operations.heartbeat import BEAT_SECONDS
from ussd_server.services.sms.sending import THREADS as SMS_THREADS

Work = TypeVar("Work")

log = Logger(__name__)

_TICK_SECONDS = 0.5
_SHORT_TICK_SECONDS = 0.2
_NOTICES_SECONDS = 1.0
_HOUSEKEEPING_SECONDS = 10.0
_TAKE_OVER_SECONDS = 1.0
_SESSIONS_AT_ONCE = 200
_IMPORT_BATCHES = 20
# A thread waits for a provider while it looks up names.
_PAYOUT_THREADS = 2


@dataclass(frozen=True, slots=True)
class WorkKind:
    """One kind of work. Its own threads keep it from waiting for another kind.

    `claim` takes the number of free threads and returns what is due, `advance` does the work of one of these, and
    `rest` waits for more, given what is still running.
    """

    name: str
    threads: int
    claim: Callable[[int], Sequence[Any]]
    advance: Callable[[Any], None]
    rest: Callable[[set[Future[None]]], object]


class Worker:
    """Settles transactions, and sends payouts, mails, messages and events. Any number of worker processes may run."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._next_notices = 0.0
        self._next_housekeeping = 0.0
        self._pause = Event()

    def run(self, stop: Event) -> None:
        """Work until `stop` is set, then finish what was claimed and return."""
        self._pause = stop
        finished = Event()
        # Without a heartbeat no other worker would free the leases of this one after its death.
        while not self._send_heartbeat():
            if stop.wait(_TICK_SECONDS):
                return
        beside = [
            Thread(target=self._services.timekeeper.follow, args=(finished,), name="timekeeper"),
            Thread(target=self._keep_alive, args=(finished,), name="heartbeat"),
            *(Thread(target=self._repeat, args=(*each, stop), name=each[0]) for each in self._repeated_work()),
        ]
        processing, *kinds = self._kinds(stop)
        others = [Thread(target=self._serve, args=(kind, stop), name=kind.name) for kind in kinds]
        for thread in [*beside, *others]:
            thread.start()
        self._serve(processing, stop, self.clean_up)
        for thread in others:
            thread.join()
        # The claimed work is finished, so its leases no longer need the heartbeat.
        finished.set()
        for thread in beside:
            thread.join()
        self._attempt("write counts of calls", self._services.call_history.write)
        self._attempt("end its heartbeat", self._services.runtime.heartbeat.end)
        release_connection()

    def _keep_alive(self, finished: Event) -> None:
        """Send heartbeats and free the leases of silent workers, on a thread that no other work delays."""
        next_beat = time.monotonic() + BEAT_SECONDS
        while not finished.wait(_TAKE_OVER_SECONDS):
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + BEAT_SECONDS
                self._send_heartbeat()
            self._attempt("take over from silent workers", self._services.runtime.heartbeat.take_over)
            release_connection()

    def _repeated_work(self) -> Sequence[tuple[str, float, Callable[[], object]]]:
        """Work that repeats after some seconds. It may be slow, so each item has a thread of its own."""
        services = self._services
        return (
            ("query floats", 5.0, services.floats.query),
            ("write digests of past days", 600.0, services.history_digests.write),
            ("decide waiting movements", 1.0, services.notices.decide_waiting),
            ("write counts of calls", 60.0, services.call_history.write),
            ("look at outages", 15.0, services.outage_watch.look),
            ("write notices of expiry", 60.0, services.key_notices.write_expiring),
            ("withdraw what expired keys approved", 20.0, services.payout_withdrawals.withdraw_expired),
            ("write notices of refused addresses", 10.0, services.key_notices.write_refused),
            ("write reminders", 60.0, services.mail_reminders.write),
            ("write report files", 60.0, services.report_files.write),
        )

    def _repeat(self, what: str, seconds: float, work: Callable[[], object], stop: Event) -> None:
        while not stop.wait(seconds):
            self._attempt(what, work)
            release_connection()

    def _send_heartbeat(self) -> bool:
        """Send a heartbeat. Returns False when that failed."""
        sent_at = self._attempt("send its heartbeat", self._services.runtime.heartbeat.beat)
        release_connection()
        return sent_at is not None

    def _kinds(self, stop: Event) -> Sequence[WorkKind]:
        """Every kind of work, processing first."""
        services, wake_up = self._services, self._services.runtime.wake_up

        def pause(seconds: float) -> Callable[[set[Future[None]]], object]:
            return lambda _: stop.wait(seconds)

        def claim_deliveries(limit: int) -> Sequence[Any]:
            self._attempt("fan out events", services.relay.run)
            return services.deliveries.claim(limit)

        def rest_of_deliveries(busy: set[Future[None]]) -> object:
            # A delivery that has just been sent may have made the next one of its object due.
            return wait(busy, _SHORT_TICK_SECONDS, FIRST_COMPLETED) if busy else stop.wait(_SHORT_TICK_SECONDS)

        processor, payouts = services.processing, services.payout_sender
        slots, mails, messages = services.settings.delivery_slots, services.mail_sender, services.sms_sending
        return (
            WorkKind(
                "processing",
                services.settings.worker_threads,
                processor.claim,
                processor.advance,
                lambda _: wake_up.wait(_TICK_SECONDS, stop),
            ),
            WorkKind("deliveries", slots, claim_deliveries, services.deliveries.send, rest_of_deliveries),
            WorkKind("payouts", _PAYOUT_THREADS, payouts.claim, payouts.advance, pause(_SHORT_TICK_SECONDS)),
            WorkKind("mails", MAIL_THREADS, mails.claim, mails.send, pause(_TICK_SECONDS)),
            WorkKind("messages", SMS_THREADS, messages.claim, messages.send, pause(_TICK_SECONDS)),
        )

    def _serve(self, kind: WorkKind, stop: Event, meanwhile: Callable[[], None] = lambda: None) -> None:
        with ThreadPoolExecutor(kind.threads, kind.name) as pool:
            busy: set[Future[None]] = set()
            while not stop.is_set():
                busy = {work for work in busy if not work.done()}
                claimed = self._attempt(f"claim {kind.name}", partial(kind.claim, kind.threads - len(busy))) or []
                busy |= {pool.submit(self._advance, kind, claim) for claim in claimed}
                if len(busy) >= kind.threads:
                    wait(busy, _TICK_SECONDS, FIRST_COMPLETED)
                elif not claimed:
                    kind.rest(busy)
                meanwhile()
        release_connection()

    def _advance(self, kind: WorkKind, claim: Any) -> None:
        now_about()
        try:
            self._attempt(f"advance {kind.name}", partial(kind.advance, claim))
        finally:
            release_connection()

    def clean_up(self) -> None:
        """Post provider outages, remove old rows and end old sessions, each at its interval."""
        if time.monotonic() >= self._next_notices:
            self._next_notices = time.monotonic() + _NOTICES_SECONDS
            for each in self._services.runtime.providers.connections:
                if not each.available:
                    self._services.runtime.outages.report_away(each.connection)
        if time.monotonic() < self._next_housekeeping:
            return
        self._next_housekeeping = time.monotonic() + _HOUSEKEEPING_SECONDS
        self._attempt("remove what is old", self._services.retention.clean)
        clean_imports = self._services.provider_statements.clean
        for _ in range(_IMPORT_BATCHES):
            if self._pause.is_set() or not self._attempt("remove undone imports", clean_imports):
                break
        self._attempt("remove names", self._services.subscriber_names.clean)
        end_expired = partial(self._services.api_sessions.end_expired, _SESSIONS_AT_ONCE)
        while self._attempt("end sessions", end_expired) == _SESSIONS_AT_ONCE and not self._pause.is_set():
            continue

    def _attempt(self, what: str, work: Callable[[], Work]) -> Work | None:
        """Do `work` and return its result, None after an error. Its row stays due and its lease expires."""
        try:
            return work()
        except UnsupportedDatabaseError:
            # No later attempt could succeed. The operator reads in the log what to do.
            raise
        except DATABASE_ERRORS as error:
            log.warning(f"the worker could not work: {reason_of(error)}", work=what, error=type(error).__name__)
            close_connections()
            self._pause.wait(_TICK_SECONDS)
        except Exception as mistake:
            log.error("the worker could not work by a mistake of ours", work=what, error=trace_of(mistake))
        return None
