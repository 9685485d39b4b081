"""Partitions: months of tables that the operator split with `deploy/partitions.sql`, and days of the request log."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work
from ussd_server.values import new_id_floor

# Later transactions queue behind this lock, so it times out soon: before PostgreSQL's deadlock check, which runs after
# a second.
_LOCK_TIMEOUT_MS = 500

_REFERRED_TO = {"events": "clients", "transaction_events": "transactions"}

# Bounds are ids, which sort as text; every partition but a default one has an upper bound.
_ENDS = r"""
SELECT big.relname, max(substring(pg_get_expr(part.relpartbound, part.oid) FROM 'TO \(''([0-9a-f-]{36})''\)'))
FROM pg_class big JOIN pg_inherits ON inhparent = big.oid JOIN pg_class part ON part.oid = inhrelid
WHERE big.relkind = 'p' AND big.relname IN ('events', 'transaction_events') AND pg_table_is_visible(big.oid)
    AND to_regprocedure('add_partitions(text, date)') IS NOT NULL
GROUP BY big.relname
"""

_DAYS = """
SELECT to_date(right(part.relname, 8), 'YYYYMMDD') FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid
WHERE inhparent = 'api_requests'::regclass AND part.relname <> 'api_requests_rest' ORDER BY 1
"""
# What was written before the day had a partition moves into it.
_ADD_DAY = """
CREATE TABLE {part} (LIKE api_requests INCLUDING ALL);
WITH moved AS (DELETE FROM api_requests_rest WHERE id >= '{begin}' AND id < '{end}' RETURNING *)
INSERT INTO {part} SELECT * FROM moved;
ALTER TABLE api_requests ATTACH PARTITION {part} FOR VALUES FROM ('{begin}') TO ('{end}')
"""


def ends_of_partitions() -> dict[str, datetime]:
    """Return, for each partitioned table, the time (UTC) from which rows have no partition."""
    if not is_postgres():
        return {}
    return {table: _moment_of(bound) for table, bound in database.execute_sql(_ENDS).fetchall()}


def add_partitions(table: str, until: datetime) -> None:
    """Create partitions up to `until` (UTC). Raises OperationalError when the table stays locked."""
    with unit_of_work():
        database.execute_sql(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
        # A new partition locks the tables it refers to. Lock them first, in the order in which payments do.
        database.execute_sql(f"LOCK TABLE {_REFERRED_TO[table]} IN SHARE ROW EXCLUSIVE MODE")
        database.execute_sql("CALL add_partitions(%s, %s)", (table, until.date() + timedelta(days=1)))


def days_of_requests() -> list[date]:
    """Return the days (UTC) that have a partition in the request log, oldest first; none on SQLite."""
    return [day for (day,) in database.execute_sql(_DAYS).fetchall()] if is_postgres() else []


def end_of_requests() -> datetime | None:
    """Return the time (UTC) from which requests have no partition; None before the worker made the first one."""
    days = days_of_requests()
    return datetime.combine(days[-1] + timedelta(days=1), time(), UTC) if days else None


def keep_days_of_requests(oldest: date, today: date, newest: date) -> None:
    """Drop the request log's partitions before `oldest`, and create those from `today` to `newest`, on PostgreSQL.

    Raises OperationalError when the table stays locked.
    """
    days_to_keep = {today + timedelta(days=days) for days in range((newest - today).days + 1)}
    existing_days = days_of_requests()
    if not is_postgres() or (days_to_keep.issubset(existing_days) and existing_days[0] >= oldest):
        return
    with unit_of_work():
        database.execute_sql(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
        database.execute_sql("LOCK TABLE api_requests IN ACCESS EXCLUSIVE MODE")
        # Another worker may have changed them before this one had the lock.
        existing_days = days_of_requests()
        for day in existing_days:
            if day < oldest:
                database.execute_sql(f"DROP TABLE {_part(day)}")
        for day in sorted(days_to_keep.difference(existing_days)):
            begin, end = _floor(day), _floor(day + timedelta(days=1))
            for statement in _ADD_DAY.format(part=_part(day), begin=begin, end=end).split(";"):
                database.execute_sql(statement)


def _part(day: date) -> str:
    return f"api_requests_{day:%Y%m%d}"


def _floor(day: date) -> str:
    return new_id_floor(datetime.combine(day, time(), UTC))


def _moment_of(an_id: str) -> datetime:
    return datetime.fromtimestamp(int(an_id.replace("-", "")[:12], 16) / 1000, UTC)
