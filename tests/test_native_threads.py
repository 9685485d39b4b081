"""Computations that take long let the other requests of their process run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.cooperative import run_cooperatively
from ussd_server.bootstrap import Services
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.status import Code, ServiceError
from ussd_server.threads import with_pauses


def test_a_long_computation_pauses_every_five_milliseconds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [0.0], []

    def pause(seconds: float) -> None:
        pauses.append(round(now[0], 3))
        # Other requests take longer than the computation.
        now[0] += 1

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", pause)
    for _ in with_pauses(range(8)):
        now[0] += 0.002
    assert pauses == [0.006, 1.012]


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
