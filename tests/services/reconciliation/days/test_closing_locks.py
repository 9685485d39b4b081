"""A day is closed with what nothing that is under way can change; `tests/gates/test_closed_days.py` has payments.

SQLite has one writer at a time, so PostgreSQL alone is tried.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.days.closing import at_hour, close, store, three_days
from tests.support.competitors import Compete
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.services.reconciliation.imports import lock_imports
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


def test_of_two_days_that_are_closed_at_once_the_second_is_computed_anew(
    services: Services, clock: MovableClock, compete: Compete
) -> None:
    at_hour(clock, 12)
    day = clock.now().astimezone(KAMPALA).date() + timedelta(days=1)
    rows = three_days(services, clock)
    store(services, rows)
    empty = day - timedelta(days=5)
    with unit_of_work():
        lock_imports()
        closing = compete(partial(close, services, day))
        close(services, empty, is_empty=True)
    with pytest.raises(ServiceError, match="Another day was closed meanwhile"):
        closing.result()
    close(services, day)


def test_a_day_that_has_just_ended_is_not_closed(services: Services, clock: MovableClock) -> None:
    day = clock.now().astimezone(KAMPALA).date()
    at_hour(clock, 0)
    with pytest.raises(ServiceError, match="The day is not over, or has just ended"):
        close(services, day, is_empty=True)
    clock.advance(60)
    close(services, day, is_empty=True)
