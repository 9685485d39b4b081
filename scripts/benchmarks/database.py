"""A database with the service's tables and one client."""

from __future__ import annotations

import psycopg

from testbed.postgres import create_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, open_database

CLIENT_ID = "00000000-0000-7000-8000-000000000000"
FIRST_NUMBER = 100_000_000_000
"""Numbers of twelve digits are the ends of ids; they begin here."""
MOMENT = "2026-01-01T00:00:00.000Z"

_CLIENT = "INSERT INTO clients (id, name, is_active, created_at, updated_at) VALUES (%s, 'Bench', true, %s, %s)"
_TRANSACTIONS = """
    INSERT INTO transactions (id, client_id, type, status, phone_number, amount_cents, fee_cents, currency, account,
        provider, reference, request_digest, late, created_at, updated_at, ask_attempts, checks, due_at, due_source)
    SELECT ('01900000-0000-7000-8000-' || n)::uuid, %(client)s,
        CASE n %% 3 WHEN 0 THEN 'disbursement' ELSE 'collection' END, 'created',
        '+25677' || (1000000 + n / 50 %% 50000),
        100, 0, 'UGX', 'main', 'mtn', n, '', false, %(moment)s, %(moment)s, 0, 0, %(moment)s, 'poll'
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n"""


def create_bench_database(server_url: str) -> str:
    """Make a database with the service's tables and the client; return its address."""
    url = create_database(server_url)
    open_database(url, max_connections=2)
    migrate()
    close_connections()
    with psycopg.connect(url) as connection:
        connection.execute(_CLIENT, (CLIENT_ID, MOMENT, MOMENT))
    return url


def transaction_id(number: int) -> str:
    """Return the id of the transaction of that number."""
    return f"01900000-0000-7000-8000-{number}"


def add_transactions(connection: psycopg.Connection, first: int, last: int) -> None:
    """Insert the transactions numbered `first` to `last`, in that order."""
    numbers = {"first": first, "last": last, "moment": MOMENT, "client": CLIENT_ID}
    connection.execute(_TRANSACTIONS, numbers)
