"""No more threads work than there are turns, also while others pause without one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from ussd_server.threads import Turns


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
