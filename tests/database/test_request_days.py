"""The request log by days: old requests go, none is lost, and on PostgreSQL whole partitions are dropped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from peewee import OperationalError

from tests.conftest import MovableClock
from tests.support.books import check_everything
from ussd_server.bootstrap import Services
from ussd_server.database.partitions import days_of_requests, end_of_requests
from ussd_server.database.unit_of_work import database
from ussd_server.models.keys import ApiRequest
from ussd_server.services.request_log.messages import LoggedRequest
from ussd_server.settings import Settings
from ussd_server.values import new_id

POSTGRES = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
_DAY_SECONDS = 86_400


def note(services: Services, clock: MovableClock, request_id: str) -> None:
    client_id, now = new_id(clock.now()), clock.now()
    services.runtime.request_recorder.note(
        LoggedRequest(request_id, client_id, None, now, "GET", "/", 400, "X", "", 1, "192.0.2.1", None, None)
    )
    services.runtime.request_recorder.write()


def kept() -> list[str]:
    return [row.request_id for row in ApiRequest.select().order_by(ApiRequest.id)]


def rows_outside_of_days() -> int:
    return int(database.execute_sql("SELECT count(*) FROM api_requests_rest").fetchone()[0])


def test_requests_are_kept_for_fourteen_whole_days(services: Services, clock: MovableClock) -> None:
    note(services, clock, "before the first clean-up")
    for day in range(1, 15):
        services.retention.clean()
        clock.advance(_DAY_SECONDS)
        note(services, clock, str(day))
    services.retention.clean()
    assert kept() == ["before the first clean-up", *map(str, range(1, 15))]
    clock.advance(_DAY_SECONDS)
    services.retention.clean()
    assert kept() == [str(day) for day in range(1, 15)]


@POSTGRES
def test_a_request_without_a_partition_for_its_day_moves_into_it(services: Services, clock: MovableClock) -> None:
    note(services, clock, "first")
    assert (end_of_requests(), rows_outside_of_days()) == (None, 1)
    services.retention.clean()
    assert days_of_requests() == [(clock.now() + timedelta(days=ahead)).date() for ahead in range(8)]
    assert (kept(), rows_outside_of_days()) == (["first"], 0)
    clock.advance(30 * _DAY_SECONDS)
    note(services, clock, "after a month without a worker")
    assert rows_outside_of_days() == 1
    services.retention.clean()
    assert (kept(), rows_outside_of_days()) == (["after a month without a worker"], 0)
    assert [days_of_requests()[0], len(days_of_requests())] == [clock.now().date(), 8]
    assert check_everything() == []


@POSTGRES
def test_a_locked_request_log_is_left_alone_and_its_days_are_added_later(
    services: Services, clock: MovableClock, settings: Settings
) -> None:
    with psycopg.connect(settings.database_url) as backup:
        backup.execute("LOCK TABLE api_requests IN ACCESS SHARE MODE")
        with pytest.raises(OperationalError):
            services.retention.clean()
        note(services, clock, "while it is locked")
    clock.advance(3600)
    services.retention.clean()
    assert kept() == ["while it is locked"]
    assert end_of_requests() > datetime.now(UTC) + timedelta(days=7)  # type: ignore[operator]
