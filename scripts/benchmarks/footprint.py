"""`footprint`: what a payment costs on disk, in the write-ahead log and of the processors, and what a year makes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import psycopg

from benchmarks.cpu import cpu_seconds
from benchmarks.house import opened_house
from benchmarks.report import print_table, write_json
from tests.postgres_server import PostgresServer, create_database
from tests.services.money import wish
from tests.shop import Shop
from ussd_server.house import Services
from ussd_server.messages.ussd import BeginSession, EnterText
from ussd_server.messages.webhooks import CreateWebhook
from ussd_server.models.base import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.services.settlement import Settlement

_FOR_EVER = ("transactions", "transaction_events", "ledger_transfers", "ledger_accounts", "events")
_FOR_A_WHILE = ("deliveries", "ussd_sessions")
_TABLES = (*_FOR_EVER, *_FOR_A_WHILE)
_THREADS = 4
_AT_ONCE = 100
_FIRST_PHONE = 1_000_000
_PAYMENTS_A_YEAR = 100_000_000
_SIZES = """
    SELECT relname, pg_table_size(oid), pg_indexes_size(oid), reltuples::bigint
    FROM pg_class WHERE relname = ANY (%s)"""


@click.command()
@click.option("--payments", default=20_000, show_default=True, type=click.IntRange(min=1000))
@click.option(
    "--phones", default=5_000, show_default=True, type=click.IntRange(min=1), help="Numbers that pay in turn."
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def footprint(payments: int, phones: int, file: Path | None) -> None:
    """Record, ask and conclude collections, make the delivery of every event, hold conversations; look what is left.

    PostgreSQL is as durable as in service. What autovacuum would do is done at the end: what is counted is what stays.
    """
    with (
        TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as of_server,
        TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as of_house,
    ):
        server = PostgresServer(Path(of_server), is_durable=True)
        try:
            url = create_database(server.url)
            with opened_house(Path(of_house), {"USSD_DATABASE_URL": url}) as house:
                shop = Shop(house)
                steps = _steps(house, shop, payments, phones)
                rows = [{"step": name, **_measured(work, server, url, number)} for name, work, number in steps]
                tables = _tables(url, payments)
        finally:
            server.stop()
    print_table(f"{payments:,} payments: what each costs", rows)
    print_table("What a payment keeps on disk", tables)
    kept = sum(row["bytes_a_payment"] for row in tables if row["table"] in _FOR_EVER)
    print(f"At {_PAYMENTS_A_YEAR:,} payments a year: {kept * _PAYMENTS_A_YEAR / 1e9:,.0f} GB for ever")
    write_json(file, {"payments": payments, "steps": rows, "tables": tables})


def _steps(house: Services, shop: Shop, payments: int, phones: int) -> list[tuple[str, Any, int]]:
    call = shop.call
    hook = CreateWebhook("https://receiver.example.com/hook")

    def record(number: int) -> None:
        phone = f"+25677{_FIRST_PHONE + number % phones}"
        house.transactions.create(wish(number=phone, shillings=500, reference=f"order-{number}"), call)

    def settle() -> None:
        # A sandbox that answers at any pace: what is counted is work, not waiting.
        settlement = Settlement(house.providers, house.clock, lambda _: True)
        while Transaction.select().where(Transaction.completed_at.is_null()).exists():
            while claimed := settlement.claim(_AT_ONCE):
                _in_threads(settlement.advance, claimed)
            # The payer agrees after a second, and the company is asked again.
            house.clock.anchor(house.clock.now() + timedelta(seconds=2))

    def tell() -> None:
        house.webhooks.create(hook, call)
        while house.fanout.run():
            continue

    def converse(number: int) -> None:
        session = house.ussd.begin(BeginSession(f"+25677{_FIRST_PHONE + number % phones}", shop.code), call)
        for turn, text in enumerate(("4", "0000", "00"), 1):
            if session.action == "continue":
                session = house.ussd.enter(EnterText(session.session_id, text, turn), call)

    return [
        ("record", lambda: _in_threads(record, range(payments)), payments),
        ("ask and conclude", settle, payments),
        ("make deliveries", tell, payments),
        ("a conversation", lambda: _in_threads(converse, range(payments // 10)), payments // 10),
    ]


def _in_threads(work: Any, items: Any) -> None:
    def done(item: Any) -> None:
        try:
            work(item)
        finally:
            release_connection()

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(done, items))


def _measured(work: Any, server: PostgresServer, url: str, number: int) -> dict[str, float]:
    """What one piece of work costs: microseconds of our processor time and of PostgreSQL's, bytes of the log."""
    with psycopg.connect(url, autocommit=True) as hand:
        hand.execute("CHECKPOINT")
        (began,) = hand.execute("SELECT pg_current_wal_lsn()").fetchone() or ("0/0",)
        ours, theirs, clock = time.process_time(), cpu_seconds({"": server.process.pid})[""], time.monotonic()
        work()
        spent = time.process_time() - ours, cpu_seconds({"": server.process.pid})[""] - theirs
        (log,) = hand.execute("SELECT pg_current_wal_lsn() - %s::pg_lsn", (began,)).fetchone() or (0,)
    return {
        "our_us": round(1e6 * spent[0] / number), "postgres_us": round(1e6 * spent[1] / number),
        "wal_bytes": round(float(log) / number), "a_second": round(number / (time.monotonic() - clock)),
    }  # fmt: skip


def _tables(url: str, payments: int) -> list[dict[str, Any]]:
    with psycopg.connect(url, autocommit=True) as hand:
        hand.execute("VACUUM FULL ANALYZE")
        found = hand.execute(_SIZES, (list(_TABLES),)).fetchall()
    return [
        {
            "table": name, "rows_a_payment": round(rows / payments, 2), "table_bytes": round(heap / payments),
            "index_bytes": round(indexes / payments), "bytes_a_payment": round((heap + indexes) / payments),
        }
        for name, heap, indexes, rows in sorted(found, key=lambda one: _TABLES.index(one[0]))
    ]  # fmt: skip
