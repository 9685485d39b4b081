"""Computations that take long have time slices in turn, with gaps for the other requests of their process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.cooperative import run_cooperatively
from ussd_server import threads
from ussd_server.bootstrap import Services
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.status import Code, ServiceError


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The milliseconds of each pause, in a process whose threads are greenlets. Time stands still."""
    found: list[float] = []
    monkeypatch.setattr(threads, "is_cooperative", lambda: True)
    monkeypatch.setattr(time, "monotonic", lambda: 5000.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: found.append(round(seconds * 1000, 1)))
    return found


def test_a_computation_pauses_only_when_its_slice_is_over(pauses: list[float]) -> None:
    # Those of the process may have been used by an earlier test, at a time that has not come yet in this one.
    slices = threads._TimeSlices()
    for _ in range(9):
        slices.wait_for_slice()
    assert len(pauses) == 1


def test_computations_that_begin_together_have_slices_with_gaps_between_them(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = threads._TimeSlices()
    for _ in range(3):
        # Each is another greenlet: it has no slice yet.
        slices._slice_ends = 0.0
        slices.wait_for_slice()
    assert pauses == [2.0, 6.0, 10.0]


class RowsInUse(tuple[dict[str, str], ...]):
    """Rows during whose reading the same client sends a file."""

    desk: PayoutDesk

    def __iter__(self) -> Iterator[dict[str, str]]:
        with pytest.raises(ServiceError) as refusal:
            self.desk.payouts.create(CreatePayout("P2", file=b"phone_number,amount,reference\n"), self.desk.maker)
        assert (refusal.value.code, refusal.value.retry_after_seconds) == (Code.SERVICE_UNAVAILABLE, 1)
        return super().__iter__()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_client_judges_one_large_payout_at_a_time_in_a_process(services: Services, clock: MovableClock) -> None:
    desk = PayoutDesk(services, clock)
    rows = RowsInUse(row(f"r{place}", "+256770000000", 100) for place in range(501))
    rows.desk = desk
    assert desk.payouts.create(CreatePayout("P1", items=rows), desk.maker).payout.ready_count == 501


def test_documents_are_computed_one_at_a_time_and_give_the_interpreter_back_within_a_millisecond() -> None:
    peak, interval = run_cooperatively("""
        import json
        import sys
        import gevent
        from gevent.monkey import get_original
        from ussd_server.server.gevent_worker import _prepare_process
        from ussd_server.threads import in_native_thread

        sleep, running, peaks = get_original("time", "sleep"), [], []

        def compute():
            running.append(1)
            peaks.append(len(running))
            sleep(0.01)
            running.pop()

        _prepare_process()
        gevent.joinall([gevent.spawn(in_native_thread, compute, pool="documents") for _ in range(3)])
        print(json.dumps([max(peaks), sys.getswitchinterval()]))
    """)
    assert (peak, interval) == (1, 0.001)
