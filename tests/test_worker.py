"""The worker as processes: several share the work, and one that is asked to stop finishes what it began."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from threading import Event, Semaphore, Thread

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import WorkerProcess, services_of
from tests.support.books import check_everything
from tests.support.eventually import eventually
from tests.support.money import a_client, balances, request
from tests.support.stand_ins import StandInProcess, mtn_settings, start_mtn
from ussd_server.bootstrap import Services, build_services
from ussd_server.bootstrap.runtime import kill_point
from ussd_server.models.providers import ProviderCalls
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings
from ussd_server.worker import Worker

pytestmark = pytest.mark.slow

NUMBER = "+256772123456"


@pytest.fixture(scope="module")
def mtn_process() -> Iterator[StandInProcess]:
    mtn_process = start_mtn()
    yield mtn_process
    mtn_process.stop()


@pytest.fixture
def mtn(mtn_process: StandInProcess) -> StandInProcess:
    mtn_process.reset()
    return mtn_process


def test_several_workers_share_the_work_and_ask_for_each_payment_once(
    settings: Settings, clock: MovableClock, mtn: StandInProcess
) -> None:
    more = mtn_settings(mtn.base_url) | {"USSD_MTN_ENQUIRY_SECONDS": "0.5"}
    with services_of(settings, clock, **more) as services:
        call = a_client()
        for number in range(12):
            services.transactions.create(request(number=NUMBER, reference=str(number)), call)
        workers = [WorkerProcess(settings, **more) for _ in range(3)]
        eventually(lambda: not Transaction.select().where(Transaction.status != "succeeded").exists())
        # A worker that was slow to start had nothing to do, and may not handle signals yet.
        assert {worker.end(signal.SIGTERM) for worker in workers} <= {0, -signal.SIGTERM}
        submitted = Counter(
            {each["reference"]: each["count"] for each in mtn.book()["requests"] if each["endpoint"] == "requesttopay"}
        )
        assert (len(submitted), set(submitted.values())) == (12, {1})
        assert balances(call.client_id)["main"] == (12 * 500_000, 0)
        assert check_everything() == []


def test_a_worker_that_is_asked_to_stop_finishes_what_it_began(
    settings: Settings, clock: MovableClock, mtn: StandInProcess
) -> None:
    mtn.flick(calls=["submit"], slow_seconds=1.5)
    more = mtn_settings(mtn.base_url) | {"USSD_PROVIDER_TIMEOUT_SECONDS": "10"}
    with services_of(settings, clock, **more) as services:
        made = services.transactions.create(request(number=NUMBER), a_client()).transaction.transaction_id
        worker = WorkerProcess(settings, **more)
        eventually(lambda: Transaction.get_by_id(made).status == "submitted")
        assert worker.end(signal.SIGTERM) == 0
        assert sum(row.answered_count for row in ProviderCalls.select()) == 1
        row = Transaction.get_by_id(made)
        assert (row.status, row.leased_until) == ("pending", None)
        assert row.due_at is not None


def test_what_a_killed_worker_held_goes_on_before_its_lease_runs_out(
    settings: Settings, clock: MovableClock, mtn: StandInProcess
) -> None:
    mtn.flick(calls=["submit"], slow_seconds=30, times=1)
    more = mtn_settings(mtn.base_url) | {"USSD_PROVIDER_TIMEOUT_SECONDS": "20", "USSD_MTN_ENQUIRY_SECONDS": "0.5"}
    with services_of(settings, clock, **more) as services:
        made = services.transactions.create(request(number=NUMBER), a_client()).transaction.transaction_id
        worker = WorkerProcess(settings, **more)
        eventually(lambda: Transaction.get_by_id(made).status == "submitted")
        leased_until = Transaction.get_by_id(made).leased_until
        worker.end(signal.SIGKILL)
        second = WorkerProcess(settings, **more)
        eventually(lambda: Transaction.get_by_id(made).checks > 0)
        assert Transaction.get_by_id(made).updated_at < leased_until
        assert second.end(signal.SIGTERM) == 0


def test_a_worker_whose_clock_is_wrong_corrects_it_and_asks_for_what_is_due(
    settings: Settings, services: Services
) -> None:
    late = build_services(settings)
    late.clock.anchor(services.clock.now() - timedelta(seconds=600))
    made = services.transactions.create(request(), a_client()).transaction.transaction_id
    stop = Event()
    working = Thread(target=Worker(late).run, args=(stop,))
    working.start()
    try:
        eventually(lambda: Transaction.get_by_id(made).status == "succeeded")
    finally:
        stop.set()
        working.join()
        late.close()


def test_a_worker_that_finishes_its_work_still_writes_its_heartbeat(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.worker.BEAT_SECONDS", 0.01)
    monkeypatch.setattr("ussd_server.worker._TAKE_OVER_SECONDS", 0.01)
    began, may_end, stop, beats, beat = Event(), Event(), Event(), Semaphore(0), services.runtime.heartbeat.beat

    def advance(_: str) -> None:
        began.set()
        may_end.wait(60)

    def count_and_beat() -> object:
        beats.release()
        return beat()

    monkeypatch.setattr(services.processing, "advance", advance)
    monkeypatch.setattr(services.runtime.heartbeat, "beat", count_and_beat)
    services.transactions.create(request(), a_client())
    working = Thread(target=Worker(services).run, args=(stop,))
    working.start()
    try:
        assert began.wait(60)
        stop.set()
        while beats.acquire(blocking=False):
            continue
        assert all(beats.acquire(timeout=60) for _ in range(5))
    finally:
        stop.set()
        may_end.set()
        working.join()


def test_no_process_is_killed_without_its_kill_point() -> None:
    kill_point(None)("send.recorded")
    kill_point("send.answered")("send.recorded")
