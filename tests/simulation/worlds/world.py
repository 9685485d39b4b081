"""A world: runs a plan to its end and returns the history of everything that was seen from outside."""

from __future__ import annotations

import io
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import ussd_server.values
from tests.simulation.worlds.callers import Callers
from tests.simulation.worlds.database import SqliteWorld, trouble
from tests.simulation.worlds.gates.bank import Bank, create_bank_accounts
from tests.simulation.worlds.gates.days import FORMS, Days, parts_of
from tests.simulation.worlds.gates.same_money import SameMoney
from tests.simulation.worlds.gates.senders import Senders, create_guarded
from tests.simulation.worlds.outcome import Mistakes, Outcome
from tests.simulation.worlds.payers import Payers, create_codes
from tests.simulation.worlds.payouts import Payouts
from tests.simulation.worlds.plan import DAY_SECONDS, Incident
from tests.simulation.worlds.processes import Fleet, Receiver, settings_of
from tests.simulation.worlds.provider import SimulatedProvider
from tests.simulation.worlds.scheduler import Process, Scheduler, Task
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models import operations
from ussd_server.services.operations.book_check.check import check_ranges
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.reconciliation.messages import ReconcileStatement, Reconciliation
from ussd_server.status import ServiceError

# After the bad days: long enough for the last repeat of a webhook and the slowest enquiry.
_QUIET_DAYS = 3
_REVIEWED_AFTER_HOURS = (2.5, 8.0, 30.0, 60.0)
_STATEMENT_AFTER_HOURS = 62.0
_SUCCESSFUL = ("succeeded", "reversed")
_NOTICE_SECONDS = 15.0
_TABLES = {
    "account": "SELECT id, client_id, name, balance_cents, reserved_cents, held_cents FROM ledger_accounts",
    "transfer": "SELECT transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id "
    "FROM ledger_transfers",
    "transaction": "SELECT id, client_id, type, status, reference, phone_number, amount_cents, fee_cents, refund_of, "
    "provider_reference, provider_transaction_id, provider, origin, metadata, due_at, review_opened_at, "
    "review_closed_at, review_reason, contested_id, effect, released_at FROM transactions",
    "attempt": "SELECT payout_id, line, number, transaction_id FROM payout_attempts",
    "closed_day": "SELECT account, day, ours_cents, theirs_cents FROM closed_days",
    "movement": "SELECT receipt, amount_cents, use_kind, transaction_id FROM movements WHERE same_as IS NULL",
    "event": "SELECT id, client_id, type, object_id, sequence FROM events",
}


class World:
    """One run of a plan."""

    statement_until = float("inf")
    tables = _TABLES
    deposit_cents = 60_000_000

    def __init__(self, seed: int, folder: Path, threads: int = 2) -> None:
        self.history: list[dict[str, Any]] = []
        self.seed = seed
        name = f"seed {seed}"
        self.scheduler = Scheduler(name, self._horizon)
        self.database = SqliteWorld(self.scheduler, folder)
        _begin_randomness(0, 1)
        self.providers = self._make_providers(name)
        self.provider = self.providers[0]
        self.receiver = Receiver(self.scheduler, self.note, name)
        self.fleet = Fleet(
            self.scheduler, settings_of(folder, self.database.url, threads), self.providers, self.receiver
        )
        self._outside = Process("outside")
        self.callers = Callers(self.scheduler, self.database, self.fleet, self.note, self._outside, self.deposit_cents)
        self.payouts = Payouts(self.scheduler, self.callers)
        self.payers = Payers(self.scheduler, self.provider, self.callers, self.note, name)
        self.same_money = SameMoney(self.scheduler, self.provider, self.callers, self.note)
        self.senders = Senders(self.scheduler, self.callers, self.note)
        self.bank = Bank(self.scheduler, self.callers, self.note)
        self._rng = Random(f"{name}/world")
        self._log = Mistakes(self.note)
        self._is_losing = False
        self._clocks_differ_until = 0.0

    def _make_providers(self, seed: str) -> Sequence[SimulatedProvider]:
        return [SimulatedProvider(self.scheduler, seed, self.note)]

    def note(self, what: str, **given: Any) -> None:
        """Add a line to the history."""
        self.history.append({"at": round(TIME.now, 6), "what": what, **given})

    def run(self, plan: list[Incident], days: float) -> Outcome:
        """Run the plan, then quiet days without faults; return what was seen."""
        logging.getLogger("ussd_server").addHandler(self._log)
        self.days = Days(self.note, days)
        # Processes look at the database's clock only after it was set. Where the service's time goes back to it, by a
        # hundredth, only new processes would see that.
        operations.SLEW_SHARE = 0.0
        try:
            operator = self.fleet.services("operator")
            self.callers.set_up(operator, self._prepare)
            self.payers.note_codes()
            _begin_randomness(self.seed, 10**6)
            self.scheduler.faults = self._strike
            for provider in self.providers:
                provider.call_back = partial(self.callers.call_back, provider.name)
            for place in range(2):
                self.fleet.start_worker(place, after=1.0)
            self.scheduler.spawn(self._outside, "plan", lambda: self._follow(plan))
            self.scheduler.run(days * DAY_SECONDS)
            self._calm_down()
            for hours in _REVIEWED_AFTER_HOURS:
                self.scheduler.spawn(self._outside, "review", partial(self._review, operator), hours * 3600.0)
            statement_after = _STATEMENT_AFTER_HOURS * 3600.0
            self.scheduler.spawn(self._outside, "statement", lambda: self._compare(operator), statement_after)
            self.scheduler.run((days + _QUIET_DAYS) * DAY_SECONDS)
            self._end(operator)
        finally:
            logging.getLogger("ussd_server").removeHandler(self._log)
            self._close()
        return Outcome(self.history, self.scheduler.points, self.scheduler.faults_at)

    def _prepare(self, services: Services) -> None:
        """Create what the callers need beyond themselves."""
        create_codes(services, self.callers.contexts)
        create_guarded(services, self.callers)
        create_bank_accounts(services, self.callers)

    def _follow(self, plan: list[Incident]) -> None:
        for incident in plan:
            self.scheduler.pause(max(0.0, incident.at - TIME.now))
            self.scheduler.spawn(self._outside, incident.kind, partial(self._do, incident))

    def _do(self, incident: Incident) -> None:
        if incident.kind in self.callers.kinds:
            self.callers.kinds[incident.kind](incident)
        elif incident.kind == "lost commits":
            self._lose(incident.given["seconds"])
        else:
            self._arm(incident)

    def _lose(self, seconds: float) -> None:
        """The database goes back to what it was some seconds ago, as after a failover to a standby that lagged."""
        if self._is_losing:
            return
        self._is_losing, since = True, TIME.now
        self.database.copy("before")
        self.scheduler.pause(seconds)
        self.database.restore("before")
        self._is_losing = False
        # The commit that noted a jump may be lost, too.
        self._clocks_differ_until = TIME.now + _NOTICE_SECONDS
        for step in sorted({task.step for process in self._processes() for task in process.tasks}):
            self.scheduler.faults_at["lost commits", step] += 1
        self.note("lost", since=since)

    def _jump(self, seconds: float) -> None:
        """The database's clock is set. The processes have some seconds to notice it."""
        TIME.database_ahead += seconds
        self._clocks_differ_until = TIME.now + _NOTICE_SECONDS
        self.note("jump", seconds=seconds)
        self.scheduler.note_activity()

    def _processes(self) -> list[Process]:
        return [*self.fleet.workers, *(process for process, _ in self.fleet.web)]

    def _arm(self, incident: Incident) -> None:
        if incident.given["target"] == "worker":
            process = self.fleet.workers[incident.given["place"]]
        else:
            process, _ = self.fleet.free_web()
        if not process.is_dead:
            process.armed = incident.kind, incident.given["after"]

    def _strike(self, kind: str, task: Task, moment: str) -> None:
        process = task.process
        seconds = self._rng.choice((5.0, 20.0, 75.0)) * self._rng.uniform(0.7, 1.1)
        self.note("fault", kind=kind, process=process.name, step=task.step, moment=moment)
        if kind == "clock jump":
            self._jump(self._rng.choice((-1, 1)) * self._rng.choice((2.0, 60.0, 5000.0)) * self._rng.uniform(0.5, 1.5))
        elif kind == "kill":
            if process in self.fleet.workers:
                place = self.fleet.workers.index(process)
                self.scheduler.spawn(
                    self._outside, "restart", lambda: self.fleet.start_worker(place), self._rng.uniform(0.5, 30)
                )
            self.scheduler.kill(process)
        elif kind == "stall":
            self.scheduler.pause(seconds)
        elif kind == "freeze":
            process.frozen_until = TIME.now + seconds
        elif kind == "broken connection":
            raise trouble()

    def _calm_down(self) -> None:
        """No more faults: what is broken is started again, and the provider and the receivers answer."""
        self.note("calm")
        self.receiver.is_honest = True
        for provider in self.providers:
            provider.is_honest = True
        self.scheduler.faults = lambda kind, task, moment: None
        for process in self._processes():
            process.armed = None

    def _review(self, services: Services) -> None:
        """Two operators end the open reviews by what the provider's book says."""
        open_reviews = self.database.rows(
            "SELECT id, provider_reference, status, contested_id FROM transactions "
            "WHERE review_opened_at IS NOT NULL AND review_closed_at IS NULL ORDER BY id"
        )
        for transaction_id, reference, status, contested_id in open_reviews:
            entry = self.provider.book.get(reference)
            # Of a contested payment they see that the other one has its receipt.
            has_succeeded = entry is not None and entry.status(TIME.now) == "succeeded" and contested_id is None
            is_settled = status in _SUCCESSFUL or (status == "failed" and not has_succeeded)
            decision = None if is_settled else has_succeeded
            request = EndReview(transaction_id, "as the provider says", "Ann", "Ben", has_succeeded=decision)
            try:
                services.reviews.end(request, operator_context())
            except ServiceError as refusal:
                # Another attempt has paid the row, or still may: the review waits.
                self.note("refused review", transaction=transaction_id, why=refusal.code.name)
                continue
            self.note("reviewed", transaction=transaction_id, decision=decision)
        self.payers.decide_all(services)
        self.bank.end(services)

    def _end(self, services: Services) -> None:
        self.note("end")
        self._note_book()
        for table, query in self.tables.items():
            names = [name.strip() for name in query.split("FROM")[0].removeprefix("SELECT").split(",")]
            for row in self.database.rows(query):
                self.note(table, **dict(zip(names, row, strict=True)))
        self._reconcile(services)
        self._check(services)

    def _note_book(self) -> None:
        for entry in self.provider.book.values():
            self.note(
                "book",
                reference=entry.reference,
                number=str(entry.number),
                direction=entry.direction,
                phone=entry.phone,
                cents=entry.cents,
                began_at=entry.began_at,
                moved_at=entry.moved_at,
                failed_at=entry.failed_at,
                is_kept=entry.status(TIME.now) == "succeeded",
                **({} if entry.typed is None else {"receipt": str(entry.number), "typed": entry.typed}),
            )

    def _check(self, services: Services) -> None:
        now = services.clock.now()
        for checked in check_ranges(batch=10_000, now=now, vault=services.runtime.vault):
            for violation in checked.violations:
                self.note("check", violation=str(violation))

    def _compare(self, services: Services) -> None:
        """The operators compare the provider's statement, and say what it moved and no till reported."""
        self._compare_parts(services)
        if (found := self._reconcile(services)) is not None:
            self.payers.decide_all(services)
            self._close_days(services, found.statement.statement_id)

    def _close_days(self, services: Services, statement_id: str) -> None:
        """Two operators work off the differences, and close the days."""
        if self._dates_ahead(services) == 0:
            self.days.state(services, statement_id)
            self.days.work_off(services)

    def _compare_parts(self, services: Services) -> None:
        """The operators import parts of the statement first, and close the days that these cover."""
        rng = Random(f"seed {self.seed}/parts")
        lines = sum(entry.status(TIME.now) == "succeeded" for entry in self.provider.book.values())
        if self._dates_ahead(services) != 0:
            return
        for part in parts_of(rng.choice(FORMS), lines, rng):
            self._imported(services, 0.0, part)
            self.days.work_off(services)

    def _dates_ahead(self, services: Services) -> float:
        """How far the service's time is ahead in seconds, to the half hour: it became that of a clock that was set."""
        ahead = (services.clock.now() - STARTED_AT).total_seconds() - TIME.now
        return round(ahead / 1800) * 1800.0

    def _reconcile(self, services: Services) -> Reconciliation | None:
        """Compare the provider's statement, if it has a line."""
        if not any(entry.status(TIME.now) == "succeeded" for entry in self.provider.book.values()):
            return None
        try:
            found = self._imported(services, 0.0)
        except ServiceError:
            # The service's time became that of a clock that was set, and the operators say how far its dates differ.
            found = self._imported(services, self._dates_ahead(services))
        for line in found.differences():
            self.note("difference", reference=line.reference, receipt=line.provider_id, verdict=line.verdict)
        return found

    def _imported(self, services: Services, ahead: float, part: slice = slice(None)) -> Reconciliation:
        source = io.BytesIO(self.provider.statement(self.statement_until, ahead, part))
        statement = ReconcileStatement("mtn", "statement.csv", source, is_confirmed=True)
        return services.provider_statements.reconcile(statement, operator_context())

    def _close(self) -> None:
        for process in [*self._processes(), *(provider.network for provider in self.providers)]:
            self.scheduler.kill(process)
        self.scheduler.kill(self._outside)
        self.scheduler.run(TIME.now + 1)
        self.database.close()

    def _horizon(self) -> dict[str, float]:
        pending, moments = self.database.work_due()
        transactions, leased, payouts, also, deliveries, too = moments
        if pending:
            self.scheduler.note_new_events()
        first_lease = min(leased, also, too)
        # A lease whose worker is dead or frozen is taken over, or it ends.
        is_silent = first_lease < float("inf") and self.fleet.has_silent_worker
        after_leases = max(TIME.now, first_lease)
        return {
            "settlement": min(transactions, after_leases),
            "payouts": min(payouts, after_leases),
            "deliveries": TIME.now if pending else min(deliveries, after_leases),
            "timekeeper": TIME.now if TIME.now < self._clocks_differ_until else float("inf"),
            "": TIME.now if is_silent else float("inf"),
        }


def _begin_randomness(seed: int, first_id: int) -> None:
    random.seed(seed)
    ussd_server.values._counter = count(first_id)


def run(
    seed: int,
    plan: list[Incident],
    days: float,
    folder: Path,
    prepare: Callable[[World], object] | None = None,
    world: type[World] = World,
) -> Outcome:
    """Run a plan in a fresh world."""
    made = world(seed, folder)
    if prepare is not None:
        prepare(made)
    return made.run(plan, days)
