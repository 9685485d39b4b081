"""A database with the service's tables and one client."""

from __future__ import annotations

from testbed.postgres import create_database
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database, dialect, is_postgres, unit_of_work

CLIENT_ID = "00000000-0000-7000-8000-000000000000"
CALL = RequestContext(Caller(CallerKind.KEY, client_id=CLIENT_ID, grants=None))
"""A call by a key of the client."""
FEW = 1_000
"""The rows of the small table, beside which the large one is measured."""
FIRST_NUMBER = 100_000_000_000
"""Numbers of twelve digits are the ends of ids; they begin here."""
MOMENT = "2026-01-01T00:00:00.000Z"

FIRST_US, STEP_US = 1_767_225_600_000_000, 1_000_000
"""When the movements begin, in microseconds since 1970, and the time between two."""

_CLIENT = """INSERT INTO clients (id, name, is_active, created_at, updated_at, requires_second_factor, counts_readers)
SELECT '{client}', 'Bench', true, '{at}', '{at}', false, true
WHERE NOT EXISTS (SELECT 1 FROM clients WHERE id = '{client}')"""
# Written without the triggers, which would take hours for so many rows.
_TRANSACTIONS = """INSERT INTO transactions (id, client_id, type, status, failure_code, phone_number, amount_cents,
    fee_cents, currency, account, provider, provider_account, reference, request_digest, late, created_at,
    updated_at, completed_at, ask_attempts, checks, due_source)
SELECT {id}, '{client}', CASE n - n / 3 * 3 WHEN 0 THEN 'disbursement' ELSE 'collection' END,
    CASE WHEN n > {page} THEN 'succeeded' ELSE 'failed' END, CASE WHEN n <= {page} THEN 'PROVIDER_ERROR' END,
    '+25677' || (1000000 + n - n / {phones} * {phones}), 100, 0, 'UGX', 'main', 'mtn', 'mtn', 'order-' || n, '', false,
    '{at}', '{at}', '{at}', 1, 1, 'poll'
FROM {numbers}"""
_MOVEMENTS = (
    """INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
    VALUES ('{main}', '{client}', 'main', 'main', 'UGX', {rows} * 100, 0, '{at}'),
        ('{provider}', '{client}', 'provider:mtn', 'provider', 'UGX', {rows} * -100, 0, '{at}')""",
    """INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
        amount_cents, created_at)
    SELECT {id}, '{client}', {id}, 'move', 'amount', '{provider}', '{main}', 100, '{at}' FROM {numbers}""",
    """INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
    SELECT '{main}', {first_us} + n * {step_us}, {id}, n * 100 FROM {numbers}""",
)


def create_bench_database(server_url: str) -> str:
    """Make a database with the service's tables and the client; return its address."""
    url = create_database(server_url)
    open_database(url, max_connections=2)
    migrate()
    add_client()
    close_connections()
    return url


def add_client() -> None:
    """Add the client, unless it is there."""
    database.execute_sql(_CLIENT.format(client=CLIENT_ID, at=MOMENT))


def fill(rows: int, page: int, *, has_movements: bool = False) -> None:
    """Add the client, so many transactions, and movements of a shilling each, a second apart, to an empty database.

    The oldest `page` transactions have failed, the others have succeeded; a phone number has a hundred.
    """
    numbers, an_id = f"generate_series(1::bigint, {rows}) AS n", f"'01900000-0000-7000-8000-' || ({FIRST_NUMBER} + n)"
    if not is_postgres():
        numbers = f"(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)"
    values = {
        "client": CLIENT_ID,
        "at": MOMENT,
        "main": f"{CLIENT_ID[:-1]}1",
        "provider": f"{CLIENT_ID[:-1]}2",
        "rows": rows,
        "numbers": numbers,
        "id": f"({an_id})::uuid" if is_postgres() else f"({an_id})",
        "page": page,
        "phones": max(1, rows // 100),
        "first_us": FIRST_US,
        "step_us": STEP_US,
    }
    with dialect().without_timeouts():
        if is_postgres():
            database.execute_sql("SET statement_timeout = 0")
        with unit_of_work():
            _drop_rules()
            add_client()
            for statement in (_TRANSACTIONS, *(_MOVEMENTS if has_movements else ())):
                database.execute_sql(statement.format(**values))
        # Otherwise the server would do it by itself, while something is measured.
        database.execute_sql("VACUUM ANALYZE" if is_postgres() else "ANALYZE")


def _drop_rules() -> None:
    """Let rows be written without triggers: in this transaction, and on SQLite for good."""
    if is_postgres():
        database.execute_sql("SET LOCAL session_replication_role = replica")
        return
    for (name,) in database.execute_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute_sql(f"DROP TRIGGER {name}")
