"""`ledger`: transfers through the service beside pgbench, which calls the same function of the database."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import click
import orjson
import psycopg

from benchmarks.database import CLIENT_ID, FIRST_NUMBER, create_bench_database, start_durable_server
from benchmarks.posting import ACCOUNTS, HOT_ACCOUNT, Posters, account_name, start_posters
from benchmarks.report import print_table, spread, write_json
from tests.postgres_server import binaries
from ussd_server.messages.transactions import Source, TransactionType
from ussd_server.models.base import close_connections, open_database, release_connection
from ussd_server.rpc.clock import Clock
from ussd_server.services.check import check_ranges
from ussd_server.services.ledger import DEPOSITS_ACCOUNT, legs_of
from ussd_server.services.recording import Recorder, batch_of

_FUNDS_CENTS = 99_999_900
_FUNDING_THREADS = 16
# Threads, and the processes that share them out, as a web server would start them on two cores.
_SIZES = {1: (1,), 4: (1, 2), 8: (1, 2)}
# What is written is drafted before, as it is for pgbench: where nothing is shared, that is the larger part.
_DRAFTED = {1: (("batch", 1),)}
_CHOICES = {
    "many": f"(:debit + random(1, {ACCOUNTS - 1})) % {ACCOUNTS}",
    "one hot": str(HOT_ACCOUNT),
}
_SCRIPT = """
\\set debit random(0, {last})
\\set credit {credit}
SELECT transactions_record(bench_document(nextval('bench_numbers'), :debit, :credit));
"""
# What the service sends for a transfer, with other ids, another reference and other accounts every time.
_DOCUMENT = """
CREATE FUNCTION bench_document(number bigint, debit bigint, credit bigint) RETURNS jsonb LANGUAGE sql AS $$
    SELECT replace(replace(replace($document${document}$document$, '#number#', number::text),
        '#debit#', lpad(debit::text, 8, '0')), '#credit#', lpad(credit::text, 8, '0'))::jsonb $$
"""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@click.command()
@click.option("--rounds", default=4, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=1, show_default=True, type=click.IntRange(min=1), help="How long each run takes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def ledger(rounds: int, seconds: int, file: Path | None) -> None:
    """Make transfers through the service and through pgbench, in turn, on many accounts and on one hot account."""
    rates: dict[tuple[str, str, int, int], list[tuple[float, float]]] = defaultdict(list)
    load_average = os.getloadavg()[0]
    with (
        start_durable_server() as server_url,
        TemporaryDirectory() as folder,
        start_posters(url := create_bench_database(server_url), 2) as posters,
    ):
        book = _Book(url, Path(folder))
        book.run_service(posters, 8, 2, "many", seconds=1)
        for _ in range(rounds):
            book.rest()
            for accounts in _CHOICES:
                for threads, process_counts in _SIZES.items():
                    pgbench = book.run_pgbench(threads, accounts, seconds)
                    for begins, processes in [*product(["draft"], process_counts), *_DRAFTED.get(threads, ())]:
                        service = book.run_service(posters, threads, processes, accounts, seconds, begins)
                        rates[begins, accounts, threads, processes].append((service, pgbench))
        book.prove()
    rows = [
        {
            "begins with": begins, "accounts": accounts, "threads": threads, "processes": processes,
            "service": spread(service for service, _ in seen),
            "pgbench": spread(pgbench for _, pgbench in seen),
            "ratio": spread(service / pgbench for service, pgbench in seen),
        }
        for (begins, accounts, threads, processes), seen in rates.items()
    ]  # fmt: skip
    print_table(
        f"Transfers a second with fsync, {rounds} rounds of {seconds} s, load average before {load_average:.1f}", rows
    )
    write_json(file, {"fsync": True, "rounds": rounds, "seconds": seconds, "load_average": load_average, "runs": rows})


class _Book:
    """Accounts with money, and the two ways of moving it. It counts what each says that it did."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._recorded = 0
        self._connection = psycopg.connect(url, autocommit=True)
        open_database(url, max_connections=_FUNDING_THREADS + 2)
        self._recorder = Recorder(Clock(), lambda: None)
        with ThreadPoolExecutor(_FUNDING_THREADS) as pool:
            self._recorded += sum(pool.map(self._fund, range(ACCOUNTS)))
        self._connection.execute(f"CREATE SEQUENCE bench_numbers START {FIRST_NUMBER}")
        self._connection.execute(_DOCUMENT.replace("{document}", self._document()))
        for accounts, credit in _CHOICES.items():
            (folder / accounts).write_text(_SCRIPT.format(last=ACCOUNTS - 1, credit=credit))

    def rest(self) -> None:
        """Let no run pay for the writing of those before it."""
        self._connection.execute("ANALYZE")
        self._connection.execute("CHECKPOINT")

    def run_pgbench(self, threads: int, accounts: str, seconds: int) -> float:
        """Transfers a second by so many clients of pgbench, each a transaction of its own."""
        server = urlsplit(self._url)
        printed = subprocess.run(
            [binaries() / "pgbench", "-n", "-M", "prepared", "-c", str(threads), "-j", str(min(threads, 2)),
             "-T", str(seconds), "-f", self._folder / accounts,
             "-h", server.hostname, "-p", str(server.port), "-U", server.username, server.path.strip("/")],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        rate = re.search(r"tps = ([0-9.]+)", printed)
        count = re.search(r"transactions actually processed: ([0-9]+)", printed)
        assert rate is not None
        assert count is not None
        assert "number of failed transactions: 0 " in printed
        self._recorded += int(count[1])
        return float(rate[1])

    def run_service(
        self, posters: Posters, threads: int, processes: int, accounts: str, seconds: int, begins: str = "draft"
    ) -> float:
        """Transfers a second by so many threads of the service's processes."""
        posted = posters.post(threads, processes, accounts == "one hot", seconds, begins == "batch")
        self._recorded += posted.count
        return posted.per_second

    def prove(self) -> None:
        """Everything that was measured must have happened, each transfer whole."""
        for checked in check_ranges():
            assert not checked.violations, checked.violations[:3]
        (recorded,) = self._connection.execute("SELECT count(*) FROM transactions").fetchone() or ()
        assert recorded == self._recorded
        close_connections()

    def _fund(self, number: int) -> int:
        draft = self._recorder.draft(
            CLIENT_ID, TransactionType.DEPOSIT, _FUNDS_CENTS, f"funds {number}", "", account=account_name(number)
        )
        legs = legs_of(draft.row, "move", DEPOSITS_ACCOUNT, account_name(number), fee_from=DEPOSITS_ACCOUNT)
        self._recorder.record(draft, legs, Source.OPERATOR)
        release_connection()
        return 1

    def _document(self) -> str:
        payer, payee = "+2567#debit#", "+2567#credit#"
        draft = self._recorder.draft(
            CLIENT_ID, TransactionType.TRANSFER, 1, "#number#", "0" * 64, phone_number=payer, account=payer,
            to_phone_number=payee, request_id="0" * 32,
        )  # fmt: skip
        legs = legs_of(draft.row, "move", payer, payee, fee_from=payer)
        text = orjson.dumps(batch_of(draft, legs, Source.SUBMIT)).decode()
        for place, own in enumerate(sorted(set(_ID.findall(text)) - {CLIENT_ID})):
            text = text.replace(own, f"{place:08}-0000-7000-8000-#number#")
        return text
