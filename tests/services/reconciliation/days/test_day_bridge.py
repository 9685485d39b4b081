"""The moments at which a payment came later, and at which two dates are two sides of one midnight."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ussd_server.services.reconciliation.days.bridge import OTHER_DAY, TIMING, DayBridge, DayPayment, step_between
from ussd_server.services.reconciliation.messages import BridgeStep

BEGIN = datetime(2026, 11, 19, 21, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("minutes", "is_late", "came_later"),
    [(0, False, False), (60, False, False), (60.1, False, True), (5, True, True)],
)
def test_a_payment_came_later_when_it_was_late_or_took_more_than_an_hour(
    minutes: float, is_late: bool, came_later: bool
) -> None:
    payment = DayPayment("1", None, None, 100, BEGIN, BEGIN + minutes * MINUTE, is_late)
    assert payment.came_later is came_later
    assert payment.latest == BEGIN + min(minutes, 60) * MINUTE
    assert payment.began_on == "2026-11-20"


@pytest.mark.parametrize(
    ("dated", "ended_at", "step"),
    [
        (BEGIN - 30 * MINUTE, BEGIN + 30 * MINUTE, TIMING),
        (BEGIN - 31 * MINUTE, BEGIN + 1 * MINUTE, OTHER_DAY),
        (BEGIN - 1 * MINUTE, BEGIN + 31 * MINUTE, OTHER_DAY),
        (END - 1 * MINUTE, END + 30 * MINUTE, TIMING),
        (BEGIN + 1 * MINUTE, END - 1 * MINUTE, OTHER_DAY),
        (BEGIN, None, OTHER_DAY),
    ],
)
def test_timing_is_both_dates_within_thirty_minutes_of_one_midnight(
    dated: datetime, ended_at: datetime | None, step: str
) -> None:
    assert step_between(dated, ended_at, BEGIN, END) == step


def test_one_operator_signs_what_agrees_fees_and_ended_differences_and_two_sign_the_rest() -> None:
    alone = [BridgeStep(name, 1, 5) for name in ("not_ours", "not_theirs", "reversal", "timing")]
    alone += [BridgeStep("matched", 1, 0), BridgeStep("fee", 2, 0)]
    two = [BridgeStep("late_change", 1, 0, "2026-11-01"), BridgeStep("other_day", 1, 0), BridgeStep("matched", 1, 5)]
    two.append(BridgeStep("held", 1, -5))
    assert DayBridge(0, 0, (*alone, *two), (), 0, frozenset(), frozenset(), "").steps_for_two == tuple(two)
