"""The service's own posting, as its web processes do it: several processes, several threads in each."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.database import CLIENT_ID, FIRST_NUMBER, transaction_id
from ussd_server.models.base import close_connections, open_database, release_connection, unit_of_work
from ussd_server.services.ledger import AMOUNT, Leg, write_entry

ACCOUNTS = 1000
HOT_ACCOUNT, SOURCE_ACCOUNT = ACCOUNTS, ACCOUNTS + 1


class Load(NamedTuple):
    """What one process shall do: post with so many threads for so long.

    Each posting takes a transaction of its own. They are numbered; a thread begins at `first_number` plus its place
    and goes on in steps of `step`, so that all threads of all processes together use every number once.
    """

    threads: int
    is_hot: bool
    seconds: float
    first_number: int
    step: int


class Posted(NamedTuple):
    """What was done: how many a second, and the first number that was left over."""

    per_second: float
    next_number: int


def account_id(number: int) -> str:
    """The id of an account of the benchmark."""
    return f"00000000-0000-4000-8000-{FIRST_NUMBER + number}"


class Posters:
    """Processes that post on request."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def post(self, threads: int, processes: int, is_hot: bool, seconds: float, first_number: int) -> Posted:
        """Post with `threads` threads in all, shared out among so many processes."""
        share = threads // processes
        busy = self._pipes[:processes]
        for number, pipe in enumerate(busy):
            pipe.send(Load(share, is_hot, seconds, first_number + number * share, threads))
        done: list[Posted] = [pipe.recv() for pipe in busy]
        return Posted(sum(one.per_second for one in done), max(one.next_number for one in done))


@contextmanager
def start_posters(url: str, processes: int) -> Iterator[Posters]:
    """Processes of the service's code that wait for work; they end with the block."""
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
    open_database(url, max_connections=32)
    with ThreadPoolExecutor(16) as pool:
        while (load := pipe.recv()) is not None:
            began = time.perf_counter()
            counts = list(pool.map(partial(_post, load, began), range(load.threads)))
            per_second = sum(counts) / (time.perf_counter() - began)
            pipe.send(Posted(per_second, load.first_number + (max(counts) + 1) * load.step))
    close_connections()


def _post(load: Load, began: float, place: int) -> int:
    """Post as one thread of the service does, giving the connection back every time, until the time is over."""
    done = 0
    while time.perf_counter() - began < load.seconds:
        number = load.first_number + place + done * load.step
        debit = random.randrange(ACCOUNTS)
        credit = HOT_ACCOUNT if load.is_hot else (debit + random.randrange(1, ACCOUNTS)) % ACCOUNTS
        leg = Leg("move", AMOUNT, account_id(debit), account_id(credit), 1)
        try:
            with unit_of_work():
                write_entry(CLIENT_ID, transaction_id(number), [leg], datetime.now(UTC))
        finally:
            release_connection()
        done += 1
    return done
