"""The service's own posting: several processes, several threads in each.

It begins with the draft of a transfer, or, as pgbench's does, with what is to be written; and it ends with the commit.
What a call adds before and after, the checks of a wish and the view of what became of it, is measured with the calls.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.database import CLIENT_ID
from ussd_server.house import build_services
from ussd_server.messages.transactions import Source, TransactionType
from ussd_server.models.base import close_connections, release_connection
from ussd_server.models.recording import Batch, write_batch
from ussd_server.services.ledger import Leg, legs_of
from ussd_server.services.recording import Draft, Recorder, batch_of
from ussd_server.settings import read_settings

ACCOUNTS = 1000
HOT_ACCOUNT = ACCOUNTS
# Of one thread, with plenty to spare.
_MOST_PER_SECOND = 4000


class Load(NamedTuple):
    """What one process shall do: post with so many threads for so long, under references that begin with `name`.

    From drafted batches, made before the clock starts, or from the draft on.
    """

    name: str
    threads: int
    is_hot: bool
    seconds: float
    is_drafted: bool


class Posted(NamedTuple):
    """What was done: how many in all, and how many a second."""

    count: int
    per_second: float


def account_name(number: int) -> str:
    """The name of a subscriber's account."""
    return f"+2567{number:08}"


class Posters:
    """Processes that post on request."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes
        self._runs = 0

    def post(self, threads: int, processes: int, is_hot: bool, seconds: float, is_drafted: bool) -> Posted:
        """Post with `threads` threads in all, shared out among so many processes."""
        self._runs += 1
        busy = self._pipes[:processes]
        for number, pipe in enumerate(busy):
            pipe.send(Load(f"run {self._runs} {number}", threads // processes, is_hot, seconds, is_drafted))
        done: list[Posted] = [pipe.recv() for pipe in busy]
        return Posted(sum(one.count for one in done), sum(one.per_second for one in done))


@contextmanager
def start_posters(url: str, processes: int) -> Iterator[Posters]:
    """Processes of the service that wait for work; they end with the block."""
    fresh = multiprocessing.get_context("spawn")
    pipes, children = [], []
    for _ in range(processes):
        ours, theirs = fresh.Pipe()
        child = fresh.Process(target=_serve, args=(url, theirs), daemon=True)
        child.start()
        pipes.append(ours)
        children.append(child)
    try:
        yield Posters(pipes)
    finally:
        for pipe, child in zip(pipes, children, strict=True):
            pipe.send(None)
            child.join()


def _serve(url: str, pipe: Connection) -> None:
    with TemporaryDirectory() as folder:
        os.environ |= {"USSD_DATABASE_URL": url, "USSD_DATA_DIR": folder}
        house = build_services(read_settings())
        with ThreadPoolExecutor(16) as pool:
            recorder = Recorder(house.clock, house.bell.ring)
            while (load := pipe.recv()) is not None:
                drafted = [_draft_all(recorder, load, place) for place in range(load.threads)]
                began = time.perf_counter()
                count = sum(pool.map(partial(_post, recorder, load, began), range(load.threads), drafted))
                pipe.send(Posted(count, count / (time.perf_counter() - began)))
        house.limiter.close()
        close_connections()


def _post(recorder: Recorder, load: Load, began: float, place: int, drafted: list[Batch]) -> int:
    """Make transfers by one thread, giving the connection back every time; how many."""
    done = 0
    while time.perf_counter() - began < load.seconds:
        try:
            if load.is_drafted:
                write_batch(drafted[done])
            else:
                recorder.record(*_draft(recorder, load, f"{place} {done}"))
        finally:
            release_connection()
        done += 1
    return done


def _draft_all(recorder: Recorder, load: Load, place: int) -> list[Batch]:
    """As many batches as one thread could write in the time, if its load is a drafted one."""
    count = int(_MOST_PER_SECOND * load.seconds) if load.is_drafted else 0
    return [batch_of(*_draft(recorder, load, f"{place} {number}"), Source.SUBMIT) for number in range(count)]


def _draft(recorder: Recorder, load: Load, number: str) -> tuple[Draft, list[Leg]]:
    debit = random.randrange(ACCOUNTS)
    credit = HOT_ACCOUNT if load.is_hot else (debit + random.randrange(1, ACCOUNTS)) % ACCOUNTS
    payer, payee = account_name(debit), account_name(credit)
    draft = recorder.draft(
        CLIENT_ID, TransactionType.TRANSFER, 1, f"{load.name} {number}", "0" * 64,
        phone_number=payer, account=payer, to_phone_number=payee, request_id="0" * 32,
    )  # fmt: skip
    return draft, legs_of(draft.row, "move", payer, payee, fee_from=payer)
