"""Partitions of tables that the operator split by month with `deploy/partitions.sql`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work

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


def _moment_of(an_id: str) -> datetime:
    return datetime.fromtimestamp(int(an_id.replace("-", "")[:12], 16) / 1000, UTC)
