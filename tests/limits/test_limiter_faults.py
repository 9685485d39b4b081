"""With Redis frozen, gone, full, emptied or replaced, calls are answered and limited, and the service recovers."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import redis
from limits import parse_many

from testbed.ports import free_port
from testbed.valkey import Server
from tests.support.eventually import eventually
from ussd_server.limits.limiter import Limiter, Policy, log_change
from ussd_server.limits.sliding_window import Reading, SlidingWindowStorage, Windows, tightest

POLICIES = [
    Policy("data-key", tuple(parse_many("100/minute;1000/hour"))),
    Policy("login", tuple(parse_many("2/minute"))),
]
PATIENCE_SECONDS = 60


class WatchedStorage(SlidingWindowStorage):
    """A storage that counts the requests of each thread to the server."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, timeout_seconds=1)
        self.touches: Counter[str] = Counter()

    def acquire(self, name: str, windows: Windows, consume: bool = True) -> Reading:
        self.touches[threading.current_thread().name] += 1
        return super().acquire(name, windows, consume)


class Worker:
    """A limiter that notes every change of state, as a worker process has it."""

    def __init__(self, url: str) -> None:
        self.changes: list[bool] = []
        self.is_back = threading.Event()
        self.storage = WatchedStorage(url)
        self.limiter = Limiter(self.storage, POLICIES, workers=4, on_change=self._note, rest_seconds=0.05)

    def _note(self, away: bool) -> None:
        self.changes.append(away)
        if not away:
            self.is_back.set()

    def falls_back(self) -> bool:
        """Whether the next call is decided by this process alone."""
        return self.limiter.hit("data-key", "key-1").fallback


@pytest.fixture
def switching_at_every_step() -> Iterator[None]:
    """Let threads take turns as often as the interpreter can, so that a missing lock shows."""
    usual_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_seconds)


@pytest.fixture
def start_worker() -> Iterator[Callable[[str], Worker]]:
    """Start workers that give up looking for Redis when the test ends."""
    workers: list[Worker] = []

    def start(url: str) -> Worker:
        workers.append(Worker(url))
        return workers[-1]

    yield start
    for worker in workers:
        worker.limiter.close()


@pytest.fixture
def worker(server: Server, start_worker: Callable[[str], Worker]) -> Worker:
    """One worker beside a server that works."""
    worker = start_worker(server.url)
    assert not worker.falls_back()
    return worker


def test_a_frozen_server_is_touched_once_and_found_again_when_it_thaws(server: Server, worker: Worker) -> None:
    here = threading.current_thread().name
    server.freeze()
    worker.storage.touches.clear()
    assert all(worker.falls_back() for _ in range(500))
    assert worker.storage.touches[here] == 1
    assert worker.limiter.is_away()
    server.thaw()
    assert worker.is_back.wait(PATIENCE_SECONDS)
    assert not worker.falls_back()
    assert worker.changes == [True, False]


def test_last_uses_are_not_known_without_redis_and_nothing_is_made_of_it(
    start_worker: Callable[[str], Worker], tmp_path: Path
) -> None:
    worker = start_worker(f"unix://{tmp_path}/nobody.sock")
    assert worker.limiter.last_hits("data-key", ["key-1", "key-2"]) == [None, None]
    assert worker.changes == []
    assert worker.falls_back()
    assert worker.limiter.last_hits("data-key", ["key-1"]) == [None]


def test_a_closed_limiter_leaves_no_thread_and_no_connection(server: Server, worker: Worker) -> None:
    before = set(threading.enumerate())
    server.freeze()
    assert worker.falls_back()
    eventually(lambda: worker.storage.touches["redis-probe"] > 0)
    worker.limiter.close()
    assert set(threading.enumerate()) <= before
    server.thaw()
    eventually(lambda: len(server.client.client_list()) == 1)


def test_threads_do_not_queue_behind_a_frozen_server(server: Server, worker: Worker) -> None:
    threads = 16
    together = threading.Barrier(threads)
    server.freeze()
    worker.storage.touches.clear()

    def call(_: int) -> bool:
        together.wait()
        return all(worker.falls_back() for _ in range(100))

    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(call, range(threads)))
    touches = worker.storage.touches
    assert max(number for name, number in touches.items() if name != "redis-probe") == 1
    server.thaw()
    assert worker.is_back.wait(PATIENCE_SECONDS)
    assert worker.changes == [True, False]


def test_only_one_thread_looks_for_a_server_that_is_gone(server: Server, worker: Worker) -> None:
    server.stop()
    while worker.storage.touches["redis-probe"] < 5:
        assert worker.falls_back()
    assert [thread.name for thread in threading.enumerate()].count("redis-probe") == 1


def test_each_of_four_workers_accepts_a_quarter_of_the_limit_but_at_least_one(
    start_worker: Callable[[str], Worker], tmp_path: Path
) -> None:
    limiter = start_worker(f"unix://{tmp_path}/nobody.sock").limiter
    verdicts = [limiter.hit("data-key", "key-1") for _ in range(40)]
    assert [decision.accepted for decision in verdicts] == [True] * 25 + [False] * 15
    assert tightest(verdicts[0].windows).limit == 100
    assert [window.remaining for window in verdicts[0].windows] == [24, 249]
    assert 1 <= verdicts[-1].retry_after_seconds <= 60
    assert limiter.hit("data-key", "key-2").accepted
    assert [limiter.hit("login", "someone").accepted for _ in range(2)] == [True, False]
    limiter.clear("login", "someone")
    assert limiter.peek("login", "someone").accepted


def test_concurrent_calls_without_redis_accept_exactly_the_share(
    start_worker: Callable[[str], Worker], tmp_path: Path, switching_at_every_step: None
) -> None:
    limiter = start_worker(f"unix://{tmp_path}/nobody.sock").limiter
    threads = 16
    together = threading.Barrier(threads)

    def burst(_: int) -> int:
        together.wait()
        return sum(limiter.hit("data-key", "key-1").accepted for _ in range(30))

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(burst, range(threads))) == 25


def test_a_worker_that_starts_before_redis_finds_it_later(
    start_server: Callable[..., Server], start_worker: Callable[[str], Worker]
) -> None:
    port = free_port()
    worker = start_worker(f"redis://127.0.0.1:{port}")
    assert worker.falls_back()
    start_server(port=port)
    assert worker.is_back.wait(PATIENCE_SECONDS)
    assert not worker.falls_back()


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "redis+sentinel"])
def test_every_form_of_address_falls_back_when_no_server_listens(
    start_worker: Callable[[str], Worker], scheme: str
) -> None:
    worker = start_worker(f"{scheme}://127.0.0.1:{free_port()}/0")
    assert worker.falls_back()


def test_a_restarted_server_is_used_again(server: Server, worker: Worker) -> None:
    server.stop()
    assert worker.falls_back()
    server.start()
    assert worker.is_back.wait(PATIENCE_SECONDS)
    assert not worker.falls_back()


def fill_memory(server: redis.Redis, over: bool) -> None:
    """Let the server refuse every write that needs memory, as `maxmemory` does without eviction."""
    server.config_set("maxmemory", "1" if over else "0")


def make_replica(server: redis.Redis, over: bool) -> None:
    """Let the server refuse every write, as a master does that was replaced."""
    server.execute_command("REPLICAOF", *(["127.0.0.1", "1"] if over else ["NO", "ONE"]))


def demand_password(server: redis.Redis, over: bool) -> None:
    """Let the server turn new connections away."""
    server.config_set("requirepass", "changed" if over else "")
    if over:
        server.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize("trouble", [fill_memory, make_replica, demand_password])
def test_a_server_that_answers_but_refuses_is_away_until_it_works(
    server: Server, worker: Worker, trouble: Callable[[redis.Redis, bool], None]
) -> None:
    trouble(server.client, True)
    assert worker.falls_back()
    while worker.storage.touches["redis-probe"] < 3:
        assert worker.falls_back()
    assert worker.changes == [True]
    trouble(server.client, False)
    assert worker.is_back.wait(PATIENCE_SECONDS)
    assert not worker.falls_back()
    assert worker.changes == [True, False]


@pytest.mark.parametrize("command", [("SCRIPT", "FLUSH"), ("FLUSHALL",)])
def test_a_flushed_server_is_not_missed_for_a_single_call(
    server: Server, worker: Worker, command: Sequence[str]
) -> None:
    for _ in range(5):
        server.client.execute_command(*command)
        assert not worker.falls_back()
    assert worker.changes == []


def test_calls_are_counted_exactly_while_the_script_is_flushed_under_them(server: Server, worker: Worker) -> None:
    finished = threading.Event()

    def flush() -> None:
        while not finished.is_set():
            server.client.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda _: worker.limiter.hit("data-key", "key-2"), range(300)))
    finished.set()
    flusher.join()
    assert sum(decision.accepted for decision in verdicts) == 100


def test_a_call_is_one_round_trip_and_one_key(server: Server, worker: Worker) -> None:
    server.client.config_resetstat()
    for _ in range(10):
        worker.limiter.hit("data-key", "key-1")
    commands = server.client.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] == 10
    assert {name for name in commands if name.startswith("cmdstat_eval") or "script" in name} == {"cmdstat_evalsha"}
    assert server.client.dbsize() == 1


def hit_in_child(worker: Worker, pipe: Connection) -> None:
    """Call before and after the server is back, in a process that was forked from a running worker."""
    pipe.send(worker.falls_back())
    pipe.send(worker.is_back.wait(PATIENCE_SECONDS) and worker.falls_back())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Later Pythons warn of forks with threads.
@pytest.mark.parametrize("frozen", [False, True])
def test_a_forked_worker_has_its_own_connection_and_finds_redis_itself(
    server: Server, worker: Worker, frozen: bool
) -> None:
    here, there = multiprocessing.Pipe()
    if frozen:
        server.freeze()
        assert worker.falls_back()
    else:
        worker.is_back.set()
    child = multiprocessing.get_context("fork").Process(target=hit_in_child, args=(worker, there))
    child.start()
    assert here.recv() is frozen
    server.thaw()
    assert here.recv() is False
    child.join()
    assert worker.is_back.wait(PATIENCE_SECONDS)
    assert not worker.falls_back()


def test_going_and_coming_back_are_one_log_line_each(caplog: pytest.LogCaptureFixture) -> None:
    log_change(away=True)
    log_change(away=False)
    assert [json.loads(record.message)["event"] for record in caplog.records] == [
        "Redis is away: every worker limits its own share",
        "Redis is back: limits are shared again",
    ]
