"""Operators who close days: with parts of the provider's statement first, then with the whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from random import Random

from tests.simulation.worlds.plan import DAY_SECONDS
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.reconciliation.messages import (
    CloseDay,
    ConcludeFromStatement,
    CoverDays,
    EndDifference,
    ListDifferences,
    Verdict,
)
from ussd_server.status import ServiceError
from ussd_server.values import bounds_of_day, kampala_day

FORMS = ("whole", "one line", "cut", "split", "overlapping")
_OPERATORS = ("Ann", "Ben")
_PAGE = 200
_ROUNDS = 3


def parts_of(form: str, lines: int, rng: Random) -> list[slice]:
    """The parts of a statement that the operators import before the whole one."""
    if lines < _ROUNDS or form == "whole":
        return []
    at = rng.randrange(1, lines)
    third = lines // 3
    return {
        "one line": [slice(at, at + 1)],
        "cut": [slice(at, lines)],
        "split": [slice(0, at), slice(at, lines)],
        "overlapping": [slice(0, lines - third), slice(third, lines)],
    }[form]


class Days:
    """Closes the days of a world, and notes what the operators were shown."""

    def __init__(self, note: Callable[..., None], days: float, account: str = "mtn") -> None:
        self._note, self._account = note, account
        first = date.fromisoformat(kampala_day(STARTED_AT))
        self._days = [first + timedelta(days=number) for number in range(int(days) + 2)]

    def close(self, services: Services) -> None:
        """Close every day that is over and can be closed."""
        for day in self._days:
            begins, ends = _seconds(day)
            if ends + DAY_SECONDS / 24 > TIME.now:
                continue
            try:
                closed = services.days.close(
                    CloseDay(day, self._account, *_OPERATORS[:1], second=_OPERATORS[1]), operator_context()
                )
            except ServiceError:
                continue
            self._note(
                "closed",
                account=self._account,
                day=day.isoformat(),
                begins=begins,
                ends=ends,
                ours=closed.ours_cents,
                theirs=closed.theirs_cents,
                bridge=sum(step.amount_cents for step in closed.bridge),
            )

    def state(self, services: Services, statement_id: str) -> None:
        """Two operators state that a statement has every line of the days."""
        over = [day for day in self._days if _seconds(day)[1] <= TIME.now]
        stated = CoverDays(statement_id, over[0], over[-1], *_OPERATORS)
        # A shortened plan may leave a statement without a line of the days.
        with suppress(ServiceError):
            services.provider_statements.cover(stated, operator_context())

    def work_off(self, services: Services) -> None:
        """Close the days, and end the differences that come to light, in several rounds."""
        for _ in range(_ROUNDS):
            self.close(services)
            _end_differences(services)
        self.close(services)


def _seconds(day: date) -> tuple[float, float]:
    """The bounds of a day, in seconds since the start of the world."""
    begin, end = bounds_of_day(day)
    return (begin - STARTED_AT).total_seconds(), (end - STARTED_AT).total_seconds()


def _end_differences(services: Services) -> None:
    """Two operators conclude what succeeded for the provider alone, and look at the rest."""
    context, why = operator_context(), "as the provider says"
    for each in services.differences.list(ListDifferences(limit=_PAGE), context).items:
        try:
            if each.verdict is Verdict.STATUS_DIFFERS and each.theirs == "succeeded":
                services.differences.conclude(ConcludeFromStatement(each.difference_id, why, *_OPERATORS), context)
            else:
                services.differences.end(EndDifference(each.difference_id, why, _OPERATORS[0]), context)
        except ServiceError:
            # A review of its transaction has to end first.
            continue
