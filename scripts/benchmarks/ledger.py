"""`ledger`: the service's own posting beside pgbench, which calls the same function of the database."""

from __future__ import annotations

import os
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
from benchmarks.posting import ACCOUNTS, HOT_ACCOUNT, SOURCE_ACCOUNT, Posters, account_id, start_posters
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

_CALL = f"""
SELECT ledger_write(('[{{"id": "01a00000-0000-7000-8000-' || n || '", "client_id": "{CLIENT_ID}",
    "transaction_id": "01900000-0000-7000-8000-' || n || '", "kind": "move", "purpose": "amount",
    "debit_account_id": "00000000-0000-4000-8000-' || ({FIRST_NUMBER} + :debit) || '",
    "credit_account_id": "00000000-0000-4000-8000-' || ({FIRST_NUMBER} + :credit) || '",
    "amount_cents": 1, "created_at": "2026-01-01"}}]')::jsonb)
FROM (SELECT nextval('bench_numbers') AS n) AS next;
"""
_CHOICES = {
    "many": f"(:debit + random(1, {ACCOUNTS - 1})) % {ACCOUNTS}",
    "one hot": str(HOT_ACCOUNT),
}
# The service posts inside a transaction, because state and story are written with the money. So does the first; the
# second shows what the database can do when the call is a transaction by itself.
_FRAMES = {"in a transaction": "BEGIN;{}COMMIT;", "alone": "{}"}
_ACCOUNT = """
    INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
    VALUES (%s, %s, %s, %s, 'UGX', 0, 0, %s)"""
_FUNDS = """
    INSERT INTO ledger_transfers
    SELECT gen_random_uuid(), client_id, (%(first)s || (%(number)s + row_number() OVER ()))::uuid, 'move', 'amount',
        %(source)s, id, %(cents)s, NULL, %(moment)s
    FROM ledger_accounts WHERE id <> %(source)s"""


@click.command()
@click.option("--rounds", default=4, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=1, show_default=True, type=click.IntRange(min=1), help="How long each run takes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def ledger(rounds: int, seconds: int, file: Path | None) -> None:
    """Post transfers through the service and through pgbench, in turn, on many accounts and on one hot account."""
    rates: dict[tuple[str, int, int], list[tuple[float, float, float]]] = defaultdict(list)
    load_average = os.getloadavg()[0]
    with (
        start_durable_server() as server_url,
        TemporaryDirectory() as folder,
        start_posters(url := create_bench_database(server_url), 2) as posters,
    ):
        book = _Book(url, Path(folder))
        book.run_service(posters, 8, 2, "many", seconds=1)
        for _ in range(rounds):
            for accounts in _CHOICES:
                for threads, process_counts in _SIZES.items():
                    pgbench = [book.run_pgbench(threads, accounts, frame, seconds) for frame in _FRAMES]
                    for processes in process_counts:
                        service = book.run_service(posters, threads, processes, accounts, seconds)
                        rates[accounts, threads, processes].append((service, *pgbench))
        book.prove()
    rows = [
        {
            "accounts": accounts, "threads": threads, "processes": processes,
            "service": spread(service for service, _, _ in seen),
            "pgbench": spread(pgbench for _, pgbench, _ in seen),
            "ratio": spread(service / pgbench for service, pgbench, _ in seen),
            "bare_call": spread(call for _, _, call in seen),
            "ratio_to_bare_call": spread(service / call for service, _, call in seen),
        }
        for (accounts, threads, processes), seen in rates.items()
    ]  # fmt: skip
    print_table(
        f"Postings a second with fsync, {rounds} rounds of {seconds} s, load average before {load_average:.1f}", rows
    )
    write_json(file, {"fsync": True, "rounds": rounds, "seconds": seconds, "load_average": load_average, "runs": rows})


class _Book:
    """Accounts with money, transactions that wait to be posted, and the two ways of posting them."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._connection = psycopg.connect(url, autocommit=True)
        self._pool_end = FIRST_NUMBER
        self._open_accounts()
        self._connection.execute(f"CREATE SEQUENCE bench_numbers START {self._pool_end}")
        for accounts, credit in _CHOICES.items():
            for frame, around in _FRAMES.items():
                choice = f"\\set debit random(0, {ACCOUNTS - 1})\n\\set credit {credit}\n"
                (folder / f"{accounts}, {frame}").write_text(choice + around.format(_CALL))

    def run_pgbench(self, threads: int, accounts: str, frame: str, seconds: int) -> float:
        """Postings a second by so many clients of pgbench."""
        self._fill_pool()
        server = urlsplit(self._url)
        printed = subprocess.run(
            [binaries() / "pgbench", "-n", "-M", "prepared", "-c", str(threads), "-j", str(min(threads, 2)),
             "-T", str(seconds), "-f", self._folder / f"{accounts}, {frame}",
             "-h", server.hostname, "-p", str(server.port), "-U", server.username, server.path.strip("/")],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        found = re.search(r"tps = ([0-9.]+)", printed)
        assert found is not None
        assert "number of failed transactions: 0 " in printed
        return float(found[1])

    def run_service(self, posters: Posters, threads: int, processes: int, accounts: str, seconds: int) -> float:
        """Postings a second by so many threads of the service's processes."""
        posted = posters.post(threads, processes, accounts == "one hot", seconds, self._fill_pool())
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
        source = account_id(SOURCE_ACCOUNT)
        kinds = {SOURCE_ACCOUNT: "provider:mtn", HOT_ACCOUNT: "main"}
        for number in range(SOURCE_ACCOUNT + 1):
            name = kinds.get(number, f"+2567{number:08}")
            kind = "subscriber" if name[0] == "+" else name.partition(":")[0]
            self._connection.execute(_ACCOUNT, (account_id(number), CLIENT_ID, name, kind, MOMENT))
        add_transactions(self._connection, self._pool_end, self._pool_end + SOURCE_ACCOUNT, _FUNDS_CENTS)
        self._connection.execute(
            _FUNDS,
            {"first": "01900000-0000-7000-8000-", "number": self._pool_end, "source": source, "cents": _FUNDS_CENTS,
             "moment": MOMENT},
        )  # fmt: skip
        self._pool_end += SOURCE_ACCOUNT + 1

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
