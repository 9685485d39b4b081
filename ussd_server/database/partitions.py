"""Tables that an operator divided by months, with `deploy/partitions.sql`: how far they reach, and months to come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work

# Whoever comes meanwhile waits behind us; a deadlock is looked for after a second, and we are gone by then.
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
    """By divided table, the moment (UTC) from which its rows have no partition; empty where nothing is divided."""
    if not is_postgres():
        return {}
    return {table: _moment_of(bound) for table, bound in database.execute_sql(_ENDS).fetchall()}


def add_partitions(table: str, until: datetime) -> None:
    """Give a divided table room until `until` at least. OperationalError when somebody holds it for long."""
    with unit_of_work():
        database.execute_sql(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
        # A new partition locks what it refers to; that comes first, as it does for those who pay.
        database.execute_sql(f"LOCK TABLE {_REFERRED_TO[table]} IN SHARE ROW EXCLUSIVE MODE")
        database.execute_sql("CALL add_partitions(%s, %s)", (table, until.date() + timedelta(days=1)))


def _moment_of(an_id: str) -> datetime:
    return datetime.fromtimestamp(int(an_id.replace("-", "")[:12], 16) / 1000, UTC)
