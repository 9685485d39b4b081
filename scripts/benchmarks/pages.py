"""`pages`: what a page of transactions costs with a thousand rows and with a million."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
import psycopg

from benchmarks.database import (
    CLIENT_ID,
    FIRST_NUMBER,
    add_transactions,
    create_bench_database,
    start_durable_server,
    transaction_id,
)
from benchmarks.report import print_table, spread, write_json
from ussd_server.house import Services, build_services
from ussd_server.messages.transactions import ListTransactions, TransactionStatus, TransactionType
from ussd_server.models.base import close_connections, release_connection
from ussd_server.rpc.context import CallContext, Caller, CallerKind
from ussd_server.rpc.keyring import Keyring
from ussd_server.rpc.tokens import Tokens
from ussd_server.settings import read_settings

_PAGE = 50
_PAGES_IN_A_ROUND = 100
_PAGES = ("newest", "in the middle", "of a type", "of a phone number", "of a rare status")


@click.command()
@click.option("--few", default=1_000, show_default=True, type=click.IntRange(min=200))
@click.option("--many", default=1_000_000, show_default=True, type=click.IntRange(min=200))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def pages(few: int, many: int, rounds: int, file: Path | None) -> None:
    """Read pages of 50 in turn from a short and from a long list of transactions, as the service does."""
    costs: dict[str, list[tuple[float, float]]] = {page: [] for page in _PAGES}
    with start_durable_server() as server_url:
        urls = {rows: _filled(server_url, rows) for rows in (few, many)}
        with _reader(urls[few], few) as short, _reader(urls[many], many) as long:
            for number in range(1 + rounds):
                for page in _PAGES:
                    found = tuple(_ask(pipe, page) for pipe in (short, long))
                    # The first round fills the caches.
                    if number:
                        costs[page].append(found)
    rows = [
        {
            "page": page, f"ms_at_{few}": spread(short for short, _ in seen),
            f"ms_at_{many}": spread(long for _, long in seen), "ratio": spread(long / short for short, long in seen),
        }
        for page, seen in costs.items()
    ]  # fmt: skip
    print_table(f"Pages of {_PAGE} in milliseconds, {rounds} rounds: median (least to greatest)", rows)
    write_json(file, {"few": few, "many": many, "rounds": rounds, "pages": rows})


def _filled(server_url: str, rows: int) -> str:
    """A database with so many transactions of one client, of which the oldest page has a status of its own."""
    url = create_bench_database(server_url)
    with psycopg.connect(url, autocommit=True) as connection:
        add_transactions(connection, FIRST_NUMBER, FIRST_NUMBER + rows - 1, cents=100)
        connection.execute(
            "UPDATE transactions SET status = 'submitted' WHERE id < %s", (transaction_id(FIRST_NUMBER + _PAGE),)
        )
        connection.execute("VACUUM ANALYZE transactions")
    return url


@contextmanager
def _reader(url: str, rows: int) -> Iterator[Connection]:
    """A process of the service on one of the databases, because a process has only one."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    child = fresh.Process(target=_read, args=(url, rows, theirs), daemon=True)
    child.start()
    try:
        yield ours
    finally:
        ours.send(None)
        child.join()


def _ask(pipe: Connection, page: str) -> float:
    pipe.send(page)
    milliseconds: float = pipe.recv()
    return milliseconds


def _read(url: str, rows: int, pipe: Connection) -> None:
    with TemporaryDirectory() as folder:
        os.environ |= {"USSD_DATABASE_URL": url, "USSD_DATA_DIR": folder}
        house = build_services(read_settings())
        wishes = _wishes(Tokens(Keyring(house.settings.secrets_file)), rows)
        while (page := pipe.recv()) is not None:
            pipe.send(_median_milliseconds(house, wishes[page]))
        house.limiter.close()
        close_connections()


def _wishes(tokens: Tokens, rows: int) -> dict[str, ListTransactions]:
    middle = tokens.cursor("transactions", transaction_id(FIRST_NUMBER + rows // 2))
    return {
        "newest": ListTransactions(limit=_PAGE),
        "in the middle": ListTransactions(limit=_PAGE, cursor=middle),
        "of a type": ListTransactions(limit=_PAGE, type=TransactionType.DISBURSEMENT),
        "of a phone number": ListTransactions(limit=_PAGE, phone_number="+256771000000"),
        "of a rare status": ListTransactions(limit=_PAGE, status=TransactionStatus.SUBMITTED),
    }


def _median_milliseconds(house: Services, wish: ListTransactions) -> float:
    call = CallContext(Caller(CallerKind.KEY, client_id=CLIENT_ID, grants=None))
    costs = []
    for _ in range(_PAGES_IN_A_ROUND):
        began = time.perf_counter()
        page = house.transactions.list(wish, call)
        release_connection()
        costs.append(1000 * (time.perf_counter() - began))
        assert len(page.items) == _PAGE
    return median(costs)
