"""Every list with ten thousand rows: as many queries as with one row, and each of them answered by an index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.services.reconciliation.statement_files import csv_file, mtn_row
from tests.support.example_client import OPERATOR, ExampleClient
from tests.support.money import deposit, request, work
from tests.support.shop import Shop
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work
from ussd_server.models.ledger import AccountEntry, Transfer
from ussd_server.models.transactions import Transaction
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.services.reconciliation.messages import ReconcileStatement
from ussd_server.services.search import search
from ussd_server.services.ussd.messages import BeginSession

pytestmark = pytest.mark.slow

pytestmark = pytest.mark.both_databases

ROWS = 10_000
# Ids begin with their time; those of the copies are a minute apart.
_FIRST_ID = 0x11900000
# A page of fifty rows takes a tenth of it.
_MOST_STEPS = 4 * ROWS
_ID = "{n}"
# What differs from the copied row, so that unique columns stay unique. Ids grow with the number of the copy.
_COPIES: dict[str, dict[str, str]] = {
    "clients": {"id": _ID, "name": "{text}"},
    "transactions": {
        "id": _ID,
        "provider_reference": _ID,
        "reference": "{text}",
        "provider_transaction_id": "{text}",
        "review_opened_at": "{moment}",
    },
    "ussd_sessions": {"id": _ID, "provider_session_id": "{text}"},
    "events": {"id": _ID, "object_id": _ID},
    "audit_events": {"id": _ID},
    "payouts": {"id": _ID, "reference": "{text}"},
    "payout_items": {
        "payout_id": "CASE WHEN n / 10 * 10 = n THEN copied.payout_id ELSE {n} END",
        "line": "{number}",
        "reference": "{text}",
        "transaction_id": "NULL",
    },
    "ledger_transfers": {"id": _ID, "position": "{number}", "transaction_id": _ID},
    "ledger_entries": {"posted_us": "posted_us - {number}", "transfer_id": _ID},
    "movements": {"id": _ID, "receipt": "{text}"},
    "provider_statements": {"id": _ID, "digest": "{text}"},
    "statement_differences": {"id": _ID, "key": "{text}"},
    "differences_in_statements": {"id": _ID, "difference_id": _ID},
}

# The row to copy, where it must be one that the list shows.
_CHOSEN = {
    "transactions": "WHERE review_opened_at IS NOT NULL",
    "audit_events": "WHERE action = 'client.enabled'",
    "events": "WHERE type = 'transaction.created'",
    "ledger_entries": "ORDER BY posted_us",
    "statement_differences": "WHERE verdict = 'status_differs'",
}


def test_every_list_reads_one_page_by_an_index(
    visit: Visit,
    operator: Operators,
    services: Services,
    clock: MovableClock,
    example_client: ExampleClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "RECENT_PAYMENTS", ROWS // 20)
    payout_id, statement_id = _begin(services, clock, example_client)
    owner, ann = visit(), operator("ann")
    pages: list[tuple[ConsoleVisitor, str]] = [
        *(
            (owner, f"/transactions{query}")
            for query in (
                "",
                "?status=failed",
                "?type=collection",
                "?phone_number=0770000000",
                "?reference=x",
                "?receipt=x",
                "?phone_number=0770000001&amount=5000",
            )
        ),
        (owner, f"/transactions/{Transaction.get().id}"),
        *(
            (owner, f"/sessions{query}")
            for query in (
                "",
                "?phone_number=0770000000",
                "?status=failed",
            )
        ),
        *((owner, f"/events{query}") for query in ("", "?type=transaction.created")),
        (owner, "/payouts"),
        (owner, f"/payouts/{payout_id}"),
        (owner, f"/payouts/{payout_id}?names=different"),
        (owner, "/statements"),
        (owner, "/audit"),
        *((owner, f"/audit?{query}") for query in ("action=client.enabled", f"person={payout_id}")),
        *((owner, f"/search?q={query}") for query in ("777.77", "777.77 today", "nothing-of-this")),
        (ann, "/operator/clients"),
        (ann, "/operator/reviews"),
        (ann, "/operator/reconciliation"),
        (ann, f"/operator/reconciliation/{statement_id}"),
        (ann, "/operator/differences"),
        (ann, "/operator/movements"),
        (ann, "/operator/audit"),
        (ann, "/operator/audit?operator=ann@ops.example"),
        (ann, "/operator/audit?action=client.enabled"),
    ]
    counts = {}
    for visitor, path in pages:
        with _watched(monkeypatch) as statements:
            assert visitor.get(path).status_code == 200, path
        counts[path] = _count(statements)
    _multiply()
    for visitor, path in pages:
        with _watched(monkeypatch) as statements:
            page = visitor.get(path)
        assert page.status_code == 200, path
        assert _count(statements) <= counts[path], (path, statements)
        _assert_by_index(path, statements)
        following = re.search(r'rel="next" href="([^"]+)"', page.text)
        assert following or "?" in path or path.startswith("/transactions/"), path
        if following:
            with _watched(monkeypatch) as statements:
                again = visitor.web.get(following[1].replace("&amp;", "&"))
            assert again.status_code == 200, path
            _assert_by_index(following[1], statements)


def _begin(services: Services, clock: MovableClock, client: ExampleClient) -> tuple[str, str]:
    """One row for each list; returns the ids of a payout and of a statement."""
    context = operator_context(client.id)
    shop = Shop(services, client_id=client.id)
    services.api_sessions.begin(BeginSession("+256770000000", shop.code), shop.call)
    deposit(services, context, 100_000)
    services.transactions.create(request(), context)
    work(services, clock, 2)
    Transaction.update(review_opened_at=clock.now(), review_reason="x").where(
        Transaction.type == "collection"
    ).execute()
    file = b"phone_number,amount,reference\n0770000000,1000,E-1\n"
    payout = services.payouts.create(CreatePayout("NOV", file=file), client.call()).payout
    line = ["7", "", "2026-11-22 10:00:00", "Successful", "Payment", "FRI:256770000000/MSISDN", "FRI:41000001/MM"]
    ours = mtn_row(Transaction.get(Transaction.type == "collection"), Status="Failed")
    file = csv_file([[*line, "5,000", "UGX", "0", "0"], ours])
    statement = ReconcileStatement("sandbox", "may.csv", BytesIO(file), is_confirmed=True)
    compared = services.provider_statements.reconcile(statement, operator_context()).statement
    services.clients.set_active(client.id, True, replace(OPERATOR, address="127.0.0.1"))
    return payout.payout_id, compared.statement_id


def _count(statements: Sequence[tuple[str, Any]]) -> int:
    """How many statements a page needs of its own: a process reads how providers are switched every few seconds."""
    return sum(not re.search("provider_switches|client_connections", sql) for sql, _ in statements)


def _multiply() -> None:
    """Copy one row of each table. Triggers and foreign keys are off, because the copies need not fit together."""
    named = {"id": Transfer.get().id, "account_id": AccountEntry.get().account_id}
    assert all(named.values())
    with unit_of_work():
        if is_postgres():
            database.execute_sql("SET LOCAL session_replication_role = replica")
            numbers = f"generate_series(1, {ROWS}) AS copies (n)"
            moment = "copied.review_opened_at + n * interval '1 second'"
            an_id = f"(to_hex({_FIRST_ID} + n) || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
        else:
            triggers = database.execute_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (trigger,) in triggers:
                database.execute_sql(f"DROP TRIGGER {trigger}")
            database.execute_sql("PRAGMA defer_foreign_keys = on")
            numbers = (
                f"(WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < {ROWS}) "
                "SELECT n FROM counted) AS copies"
            )
            moment = "strftime('%Y-%m-%dT%H:%M:%fZ', copied.review_opened_at, '+' || n || ' seconds')"
            an_id = f"printf('%08x-0000-7000-8000-%012x', {_FIRST_ID} + n, n)"
        for table, changes in _COPIES.items():
            written = {"{n}": an_id, "{text}": "'copy-' || n", "{number}": "(n + 100)", "{moment}": moment}
            columns = [column.name for column in database.get_columns(table)]
            values = []
            for column in columns:
                value = changes.get(column, f'copied."{column}"')
                for mark, expression in written.items():
                    value = value.replace(mark, expression)
                values.append(value)
            names = ", ".join(f'"{column}"' for column in columns)
            database.execute_sql(
                f"INSERT INTO {table} ({names}) SELECT {', '.join(values)} "
                f"FROM (SELECT * FROM {table} {_CHOSEN.get(table, '')} LIMIT 1) AS copied, {numbers}"
            )
    # The service never makes statistics of SQLite.
    if is_postgres():
        database.execute_sql("ANALYZE")


@contextmanager
def _watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """The SELECTs that run within the block."""
    statements: list[tuple[str, Any]] = []
    execute = database.obj.execute_sql

    def watch(sql: str, params: Any = None) -> Any:
        if sql.lstrip().startswith(("SELECT", "WITH")):
            statements.append((sql, params))
        return execute(sql, params)

    with monkeypatch.context() as patched:
        patched.setattr(database.obj, "execute_sql", watch)
        yield statements


def _assert_by_index(path: str, statements: list[tuple[str, Any]]) -> None:
    """No statement reads or sorts a large table as a whole."""
    for sql, params in statements:
        for table in _COPIES:
            if not re.search(rf"\b{table}\b", sql):
                continue
            whole = _reads_whole(table, sql, params)
            assert whole is None, (path, table, sql, whole)


def _reads_whole(table: str, sql: str, params: Any) -> str | None:
    if is_postgres():
        (plan,) = database.execute_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params).fetchone()
        steps = list(_steps((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
        found = [
            step["Node Type"]
            for step in steps
            if (step["Node Type"] == "Seq Scan" and step["Relation Name"] == table)
            # The rows of a payout are sorted, those that failed first: 1,000 here, 5,000 at most.
            or (step["Node Type"] == "Sort" and step["Plan Rows"] > ROWS / 5)
            or step.get("Rows Removed by Filter", 0) > ROWS / 10
        ]
        return found[0] if found else None
    # A count ends at 10,000 rows, and the rows of a payout are sorted: 5,000 at most.
    is_bounded = sql.startswith("SELECT COUNT") or "payout_items" in sql
    if not is_bounded and (steps := _steps_of_sqlite(sql, params)) > _MOST_STEPS:
        return f"{steps:,} steps"
    lines = [row[3] for row in database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()]
    return next((line for line in lines if re.match(rf"SCAN {table}\b(?!.* USING)", line)), None)


def _steps_of_sqlite(sql: str, params: Any) -> int:
    """How many steps of its machine a query takes, in hundreds: reading a row takes four or more."""
    counted: list[int] = []
    connection = database.obj.connection()
    connection.set_progress_handler(lambda: counted.append(1), 100)
    try:
        database.execute_sql(sql, params).fetchall()
    finally:
        connection.set_progress_handler(None, 0)
    return 100 * len(counted)


def _steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _steps(below)
