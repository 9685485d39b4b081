"""A thread that waits lends its turn, and a thread without a turn may wait as well."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.services.webhooks.receivers import Received, Receiver
from ussd_server.outbound.transport import Transport
from ussd_server.threads import Turns


def test_threads_that_wait_let_others_work() -> None:
    turns, released = Turns(1), threading.Event()
    waiting = threading.Semaphore(0)

    def wait() -> bool:
        with turns.working(), Turns.waiting():
            waiting.release()
            return released.wait(30)

    def work() -> str:
        with turns.working():
            return "done"

    with ThreadPoolExecutor(9) as pool:
        waiters = [pool.submit(wait) for _ in range(8)]
        for _ in waiters:
            assert waiting.acquire(timeout=30)
        assert pool.submit(work).result(30) == "done"
        released.set()
        assert all(each.result(30) for each in waiters)


def test_no_more_threads_work_than_there_are_turns() -> None:
    turns, lock = Turns(2), threading.Lock()
    working = most = 0

    def work(_: int) -> None:
        nonlocal working, most
        for _pause in Turns.pauses(iter(range(3))):
            pass
        with turns.working():
            for _pause in Turns.pauses(iter(range(3))):
                with lock:
                    working += 1
                    most = max(most, working)
                with lock:
                    working -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(100)))
    assert 1 <= most <= 2


def test_a_thread_that_calls_another_server_lends_its_turn() -> None:
    turns, arrived, released = Turns(1), threading.Event(), threading.Event()

    def answer(_: Received) -> int:
        arrived.set()
        return 200 if released.wait(20) else 500

    def call(url: str) -> int | None:
        with turns.working():
            return Transport().exchange("POST", url, timeout_seconds=30).status

    def release() -> None:
        with turns.working():
            released.set()

    with Receiver(answer) as receiver, ThreadPoolExecutor(2) as pool:
        calling = pool.submit(call, receiver.url)
        assert arrived.wait(20)
        pool.submit(release)
        assert calling.result(40) == 200
