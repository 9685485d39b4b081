"""Gauges of the database server and of the last check: what ends the service days later if no one acts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ussd_server.database.partitions import end_of_requests, ends_of_partitions
from ussd_server.database.unit_of_work import dialect
from ussd_server.models.statements import StatementDifference, is_in_stored_statement
from ussd_server.services.operations.book_check.examinations import last_examinations
from ussd_server.services.operations.messages import Measure

_MOST_COUNTED = 10_000


def measures_of_server() -> Iterator[Measure]:
    """Yield the gauges of PostgreSQL; none for SQLite."""
    standbys = dialect().standbys()
    if standbys is not None:
        yield Measure("ussd_database_standbys", "Standbys that receive from the database.", standbys.number)
        may_lose = standbys.number > 0 and not standbys.are_synchronous
        meaning = "1 while a failover to a standby could lose answered payments."
        yield Measure("ussd_database_may_lose_commits", meaning, float(may_lose))
    load = dialect().load()
    if load is not None:
        if load.standby_lag_bytes is not None:
            yield Measure("ussd_database_standby_lag_bytes", "What the slowest standby lacks.", load.standby_lag_bytes)
        yield Measure("ussd_database_slot_bytes", "What replication slots keep on the disk.", load.slot_bytes)
        yield Measure("ussd_database_connections_share", "The used share of all connections.", load.connections_share)
        yield Measure("ussd_database_transaction_id_age", "Transactions since the oldest frozen one.", load.id_age)
        yield Measure("ussd_database_archive_failing", "1 while archiving fails.", float(load.is_archive_failing))
    for table, end in sorted(ends_of_partitions().items()):
        seconds = (end - datetime.now(UTC)).total_seconds()
        yield Measure("ussd_partitions_left_seconds", "How long a table has partitions.", seconds, {"table": table})
    requests_end = end_of_requests()
    if requests_end is not None:
        seconds = (requests_end - datetime.now(UTC)).total_seconds()
        yield Measure("ussd_request_partitions_left_seconds", "How long the request log has partitions.", seconds)


def measures_of_check(now: datetime) -> Iterator[Measure]:
    """Yield the age and result of the last check of all books, none before the first, and the open differences."""
    open_differences = StatementDifference.ended_at.is_null() & is_in_stored_statement()
    found = StatementDifference.select().where(open_differences).limit(_MOST_COUNTED).count()
    yield Measure("ussd_differences_open", "Differences from statements of providers without a decision.", found)
    last = last_examinations().check
    if last is not None:
        age = (now - last.ended_at).total_seconds()
        yield Measure("ussd_check_ended_seconds", "How long ago the last check ended.", age)
        yield Measure("ussd_check_violations", "Violations that it found.", len(last.violations))
