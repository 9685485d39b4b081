"""A simulated day of many payments at one provider, closed against the provider's statement, with its figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from tests.simulation.checker import judge
from tests.simulation.day_figures import figures_of
from tests.simulation.worlds.day_plan import open_seconds_of, plan_of_day
from tests.simulation.worlds.plan import DAY_SECONDS, Incident
from tests.simulation.worlds.seeds import MEMORY
from tests.simulation.worlds.virtual_time import STARTED_AT, processor_seconds
from tests.simulation.worlds.world import World
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.sending import Webhook
from ussd_server.services.reconciliation.messages import (
    CloseDay,
    ConcludeFromStatement,
    CoverDays,
    EndDifference,
    ListDifferences,
    Reconciliation,
    Verdict,
)
from ussd_server.values import kampala_day
from ussd_server.wire import ListPage

# The world begins at six in the morning in Kampala.
_MIDNIGHT = 18 * 3600.0
# How many of a hundred calls and payments meet a provider or receiver in a mood, and how many a worker has at once.
_TROUBLE = 0.2
_THREADS = 40
_POLL_SECONDS = 3.0


class Day(World):
    """A world whose operators work off the statement of its first day, and close that day."""

    statement_until = _MIDNIGHT

    def __init__(self, seed: int, folder: Path, show: Callable[[int], object]) -> None:
        super().__init__(seed, folder, _THREADS)
        self.provider.trouble = _TROUBLE
        self.scheduler.polls_every = _POLL_SECONDS
        self.seconds: dict[str, float] = {}
        self.verdicts: list[dict[str, int]] = []
        """What each comparison with the statement counted: at first, and after the operators worked it off."""
        self.database_bytes = 0
        self._folder, self._show, self._begun = folder, show, 0

    def _prepare(self, services: Services) -> None:
        """Without receivers of webhooks, which take as long as everything else."""
        super()._prepare(services)
        Webhook.delete().execute()

    def _calm_down(self) -> None:
        super()._calm_down()
        self.scheduler.polls_every = None

    def _do(self, incident: Incident) -> None:
        if "cents" in incident.given:
            self._begun += len(incident.given.get("rows", "1"))
            self._show(self._begun)
        super()._do(incident)

    def _compare_parts(self, services: Services) -> None:
        """The operators have the whole statement at once."""

    def _close_days(self, services: Services, statement_id: str) -> None:
        self._end_differences(services)
        began_at = processor_seconds()
        day = date.fromisoformat(kampala_day(STARTED_AT))
        # The statement has no balances, and ends with the day.
        for each in services.provider_statements.list(ListPage(), operator_context()).items:
            stated = CoverDays(each.statement_id, day, day, "Ann", "Ben")
            services.provider_statements.cover(stated, operator_context())
        closed = services.days.close(CloseDay(day, "mtn", "Ann", second="Ben"), operator_context())
        self.seconds["close"] = processor_seconds() - began_at
        bridge = [asdict(step) for step in closed.bridge]
        self.note("closed", ours=closed.ours_cents, theirs=closed.theirs_cents, bridge=bridge)

    def _reconcile(self, services: Services) -> Reconciliation | None:
        began_at = processor_seconds()
        found = super()._reconcile(services)
        if found is not None:
            self.seconds["statement"] = processor_seconds() - began_at
            self.verdicts.append({verdict.value: count for verdict, count in found.statement.lines.items()})
        return found

    def _end_differences(self, services: Services) -> None:
        """Two operators conclude what succeeded for the provider alone, and look at the rest."""
        context, why = operator_context(), "as the provider says"
        while items := services.differences.list(ListDifferences(limit=200), context).items:
            for each in items:
                if each.verdict is Verdict.STATUS_DIFFERS and each.theirs == "succeeded":
                    services.differences.conclude(ConcludeFromStatement(each.difference_id, why, "Ann", "Ben"), context)
                else:
                    services.differences.end(EndDifference(each.difference_id, why, "Ann"), context)

    def _end(self, services: Services) -> None:
        super()._end(services)
        self.database_bytes = sum(path.stat().st_size for path in self._folder.glob("world.db*"))

    def _check(self, services: Services) -> None:
        began_at = processor_seconds()
        super()._check(services)
        self.seconds["check"] = processor_seconds() - began_at


def run_day(seed: int, payments: int, show: Callable[[int], object] = lambda _: None) -> dict[str, Any]:
    """Run a day and return its figures, with every violation."""
    began_at = processor_seconds()
    place = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulated-", dir=place) as folder:
        day = Day(seed, Path(folder), show)
        outcome = day.run(plan_of_day(seed, payments), open_seconds_of(payments) / DAY_SECONDS)
        ran_at = processor_seconds()
        return {
            "seed": seed,
            **figures_of(outcome.history, outcome.faults),
            "statement": day.verdicts,
            "megabytes of the database": round(day.database_bytes / 1e6),
            "processor seconds": {
                "all": round(ran_at - began_at, 1),
                **{name: round(seconds, 2) for name, seconds in day.seconds.items()},
            },
            "violations": judge(outcome.history),
        }
