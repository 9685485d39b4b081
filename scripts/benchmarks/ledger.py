"""`ledger`: the service's own posting beside pgbench, which calls the same function of the database."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import click
import psycopg

from benchmarks.database import (
    CLIENT_ID,
    FIRST_NUMBER,
    MOMENT,
    add_transactions,
    create_bench_database,
    start_durable_server,
)
from benchmarks.posting import ACCOUNTS, HOT_ACCOUNT, Posters, account_id, start_posters
from benchmarks.report import print_table, spread, write_json
from tests.postgres_server import binaries
from ussd_server.models.base import close_connections, open_database
from ussd_server.services.check import check_ranges

# More than can be posted in one run of a few seconds, and how many are made at a time.
_MOST_IN_A_RUN = 30_000
_POOL = 60_000
_FUNDS_CENTS = 99_999_900
# Threads, and the processes that share them out, as a web server would start them on two cores.
_SIZES = {1: (1,), 4: (1, 2), 8: (1, 2)}
_ACCOUNTS = {False: "many", True: "one hot"}

_PGBENCH = f"""
\\set debit random(1, {ACCOUNTS})
\\set step random(1, {ACCOUNTS - 1})
\\set other (:debit - 1 + :step) % {ACCOUNTS} + 1
SELECT ledger_write(('[{{"id": "01a00000-0000-7000-8000-' || n || '", "client_id": "{CLIENT_ID}",
    "transaction_id": "01900000-0000-7000-8000-' || n || '", "kind": "move", "purpose": "amount",
    "debit_account_id": "00000000-0000-4000-8000-' || ({FIRST_NUMBER} + :debit) || '",
    "credit_account_id": "00000000-0000-4000-8000-' || ({FIRST_NUMBER} + CREDITED) || '",
    "amount_cents": 1, "created_at": "2026-01-01"}}]')::jsonb)
FROM (SELECT nextval('bench_numbers') AS n) AS next;
"""
_ACCOUNT = """
    INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
    VALUES (%s, %s, %s, %s, 'UGX', 0, 0, %s)"""
_FUNDS = """
    INSERT INTO ledger_transfers
    SELECT gen_random_uuid(), client_id, (%(first)s || (%(number)s + row_number() OVER ()))::uuid, 'move', 'amount',
        %(source)s, id, %(cents)s, NULL, %(moment)s
    FROM ledger_accounts WHERE id <> %(source)s"""


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=2, show_default=True, type=click.IntRange(min=1), help="How long each run takes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def ledger(rounds: int, seconds: int, file: Path | None) -> None:
    """Post transfers through the service and through pgbench, in turn, on many accounts and on one hot account."""
    rates: dict[tuple[bool, int, int], list[tuple[float, float]]] = defaultdict(list)
    with (
        start_durable_server() as server_url,
        TemporaryDirectory() as folder,
        start_posters(url := create_bench_database(server_url), 2) as posters,
    ):
        book = _Book(url, Path(folder))
        book.run_service(posters, 8, 2, is_hot=False, seconds=1)
        for _ in range(rounds):
            for is_hot in _ACCOUNTS:
                for threads, process_counts in _SIZES.items():
                    pgbench = book.run_pgbench(threads, is_hot, seconds)
                    for processes in process_counts:
                        service = book.run_service(posters, threads, processes, is_hot, seconds)
                        rates[is_hot, threads, processes].append((pgbench, service))
        book.prove()
    rows = [
        {
            "accounts": _ACCOUNTS[is_hot], "threads": threads, "processes": processes,
            "pgbench_per_second": spread(pgbench for pgbench, _ in seen),
            "service_per_second": spread(service for _, service in seen),
            "ratio": spread(service / pgbench for pgbench, service in seen),
        }
        for (is_hot, threads, processes), seen in sorted(rates.items())
    ]  # fmt: skip
    print_table(f"Posting with fsync, {rounds} rounds of {seconds} s: median (least to greatest)", rows)
    write_json(file, {"fsync": True, "rounds": rounds, "seconds": seconds, "runs": rows})


class _Book:
    """Accounts with money, transactions that wait to be posted, and the two ways of posting them."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._connection = psycopg.connect(url, autocommit=True)
        self._pool_end = FIRST_NUMBER
        self._open_accounts()
        self._connection.execute(f"CREATE SEQUENCE bench_numbers START {self._pool_end}")
        for is_hot, name in _ACCOUNTS.items():
            (folder / name).write_text(_PGBENCH.replace("CREDITED", str(HOT_ACCOUNT) if is_hot else ":other"))

    def run_pgbench(self, threads: int, is_hot: bool, seconds: int) -> float:
        """Postings a second by so many clients of pgbench."""
        self._fill_pool()
        server = urlsplit(self._url)
        printed = subprocess.run(
            [binaries() / "pgbench", "-n", "-M", "prepared", "-c", str(threads), "-j", str(min(threads, 2)),
             "-T", str(seconds), "-f", self._folder / _ACCOUNTS[is_hot],
             "-h", server.hostname, "-p", str(server.port), "-U", server.username, server.path.strip("/")],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        found = re.search(r"tps = ([0-9.]+)", printed)
        assert found is not None
        assert "number of failed transactions: 0 " in printed
        return float(found[1])

    def run_service(self, posters: Posters, threads: int, processes: int, is_hot: bool, seconds: int) -> float:
        """Postings a second by so many threads of the service's processes."""
        posted = posters.post(threads, processes, is_hot, seconds, self._fill_pool())
        self._connection.execute("SELECT setval('bench_numbers', %s, false)", (posted.next_number,))
        return posted.per_second

    def prove(self) -> None:
        """Everything that was measured must have happened: the balances are those of the transfers."""
        open_database(self._url, max_connections=2)
        for checked in check_ranges():
            assert checked.part == "transactions" or not checked.violations
            if checked.part == "transactions":
                break
        close_connections()

    def _open_accounts(self) -> None:
        source = account_id(0)
        kinds = {0: "provider:mtn", HOT_ACCOUNT: "main"}
        for number in range(HOT_ACCOUNT + 1):
            name = kinds.get(number, f"+2567{number:08}")
            kind = "subscriber" if name[0] == "+" else name.partition(":")[0]
            self._connection.execute(_ACCOUNT, (account_id(number), CLIENT_ID, name, kind, MOMENT))
        add_transactions(self._connection, self._pool_end, self._pool_end + HOT_ACCOUNT, _FUNDS_CENTS)
        self._connection.execute(
            _FUNDS,
            {"first": "01900000-0000-7000-8000-", "number": self._pool_end, "source": source, "cents": _FUNDS_CENTS,
             "moment": MOMENT},
        )  # fmt: skip
        self._pool_end += HOT_ACCOUNT + 1

    def _fill_pool(self) -> int:
        """See to it that one run finds enough transactions to post; gives the number of the first of them."""
        (last, is_called) = self._connection.execute("SELECT last_value, is_called FROM bench_numbers").fetchone() or ()
        next_number: int = last + is_called
        if self._pool_end - next_number < _MOST_IN_A_RUN:
            add_transactions(self._connection, self._pool_end, self._pool_end + _POOL - 1, cents=1)
            self._pool_end += _POOL
            self._connection.execute("ANALYZE")
            self._connection.execute("CHECKPOINT")
        return next_number
