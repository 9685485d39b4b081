"""One reference, many callers, and processes that are killed under them: one charge."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.ports import free_port
from tests.support.commands import run_command
from tests.support.eventually import eventually
from tests.support.real_service.keys import fresh_keys
from tests.support.real_service.service import Service, descendants, environment
from tests.support.stand_ins import StandInProcess, mtn_settings, start_mtn

CALLERS, CALLS_OF_A_CALLER, KEYS = 50, 8, 10
REQUEST = {"type": "collection", "phone_number": "+256772123456", "amount": 5000, "reference": "contested"}


@pytest.fixture
def mtn() -> Iterator[StandInProcess]:
    mtn_process = start_mtn("--approve-delay", "1")
    yield mtn_process
    mtn_process.stop()


@pytest.fixture
def service(tmp_path: Path, mtn: StandInProcess) -> Iterator[Service]:
    port = free_port()
    running = Service(
        tmp_path / "data",
        port,
        USSD_WORKERS="2",
        USSD_PUBLIC_URL=f"http://127.0.0.1:{port}",
        **mtn_settings(mtn.base_url),
    )
    yield running
    running.stop()


@pytest.mark.nightly
def test_fifty_callers_repeating_one_reference_through_kills_charge_once(service: Service, mtn: StandInProcess) -> None:
    keys = fresh_keys(service, KEYS)
    before = service.call("GET", "/api/balance", headers=keys[0])[1]["data"]["current"]
    answers: list[tuple[int, str]] = []
    lost: list[str] = []
    worker_killed = threading.Event()

    def repeat(key: dict[str, str]) -> None:
        for number in range(CALLS_OF_A_CALLER):
            if number == CALLS_OF_A_CALLER // 2:
                worker_killed.wait()
            try:
                status, body = service.call("POST", "/api/transactions", REQUEST, key)
            except (OSError, http.client.HTTPException, ValueError):
                lost.append("a killed process took the answer with it")
                continue
            answers.append((status, body["data"]["transaction_id"] if status < 300 else body["error"]))

    callers = [threading.Thread(target=repeat, args=(keys[number % KEYS],), daemon=True) for number in range(CALLERS)]
    for hand in callers:
        hand.start()
    # A request that never left is sent again only after MTN has not known it for a minute.
    eventually(lambda: bool(mtn.book()["payments"]))
    kill(service, "ussd_server.cli worker")
    worker_killed.set()
    # The next kill comes when the callers have continued after the first.
    answered = len(answers)
    eventually(lambda: len(answers) >= answered + CALLERS or not any(hand.is_alive() for hand in callers))
    kill(service, "gunicorn")
    for hand in callers:
        hand.join()
    assert {status for status, _ in answers} <= {200, 201, 503}, sorted(set(answers))
    (transaction_id,) = {name for status, name in answers if status < 300}
    assert sum(status == 201 for status, _ in answers) <= 1
    assert len(answers) > len(lost)

    def record() -> dict[str, Any]:
        # Held until something changes, because a key may not ask a hundred times.
        path = f"/api/transactions/{transaction_id}?wait=5"
        data: dict[str, Any] = service.call("GET", path, headers=keys[1])[1]["data"]
        return data

    eventually(lambda: record()["status"] == "succeeded")
    assert mtn.paid() == {record()["provider_reference"]: 500_000}
    assert service.call("GET", "/api/balance", headers=keys[0])[1]["data"]["current"] == before + 5000
    assert is_sound(service)


def kill(service: Service, program: str) -> None:
    """Kill a process of a program that has no children: of gunicorn's that is one that serves, not their master."""
    own = [pid for pid, line in descendants(service.pid).items() if program in line and not descendants(pid)]
    os.kill(own[-1], signal.SIGKILL)


def is_sound(service: Service) -> bool:
    """What `ussd-server check` says of the service's books."""
    return bool(json.loads(run_command("check", "--full", "--json", env=environment(service.folder)).stdout)["ok"])
