"""The largest tables, partitioned by month as an operator does it, and without partitions for later months."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg

from testbed.postgres import binaries

_FILE = Path(__file__).parents[2] / "deploy" / "partitions.sql"
_MONTHS = """
SELECT inhparent::regclass::text, inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON oid = inhparent
WHERE relkind = 'p' AND relname <> 'api_requests' AND inhrelid::regclass::text NOT LIKE '%_first'
"""


def divide(url: str) -> None:
    """What an operator does."""
    subprocess.run(
        [binaries() / "psql", url, "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file", _FILE],
        check=True,
        stdout=subprocess.DEVNULL,
        env={"PGOPTIONS": "-c client_min_messages=warning"},
    )


def drop_months(url: str) -> None:
    """Drop every partition but the one that the table was before."""
    with psycopg.connect(url, autocommit=True) as hand:
        for table, month in hand.execute(_MONTHS).fetchall():
            hand.execute(f"ALTER TABLE {table} DETACH PARTITION {month}")
            hand.execute(f"DROP TABLE {month}")
