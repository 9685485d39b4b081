"""Processes are killed in the middle of a payout: it is approved once or not at all, and each row is sent once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import services_of, work_until_killed
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.books import check_everything
from tests.support.commands import FORK_SERVER
from tests.support.eventually import eventually
from tests.support.stand_ins import StandInProcess, mtn_settings, start_mtn
from ussd_server.bootstrap import build_services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.services.payouts.messages import ApprovePayout
from ussd_server.settings import Settings

_ROWS = 6
_CENTS = 50_000
_WORKER_POINTS = ("claimed", "send.recorded", "send.answered", "answer.applied")
_PATIENCE_SECONDS = 120
# Longer than any lease; the rows are sent one by one.
_TURN_SECONDS = 90


@pytest.fixture(scope="module")
def mtn() -> Iterator[StandInProcess]:
    mtn_process = start_mtn()
    yield mtn_process
    mtn_process.stop()


def approve(settings: Settings, payout_id: str, approver: RequestContext) -> None:
    """Approve a payout in a process of its own."""
    build_services(settings).payouts.approve(ApprovePayout(payout_id), approver)


def test_a_payout_survives_kills_at_every_point_and_each_row_is_sent_once(
    settings: Settings, clock: MovableClock, mtn: StandInProcess
) -> None:
    mtn.reset()
    with services_of(settings, clock, **mtn_settings(mtn.base_url)) as services:
        desk = PayoutDesk(services, clock)
        draft = desk.draft(*(row(f"r{place}", f"+25677212345{place}", _CENTS // 100) for place in range(_ROWS)))
        access = services.settings.providers["mtn"]
        impatient = {"mtn": replace(access, schedule=replace(access.schedule, delays=(0.1,)))}
        for kill_point, reserved in {"payout.reserved": 0, "payout.approved": _ROWS * _CENTS}.items():
            release_connection()
            killed = replace(services.settings, kill_point=kill_point)
            process = FORK_SERVER.Process(target=approve, args=(killed, draft.payout_id, desk.approver), daemon=True)
            process.start()
            process.join(_PATIENCE_SECONDS)
            assert process.exitcode == -signal.SIGKILL
            assert desk.main() == (50_000_000, reserved)
            assert check_everything() == []
        assert desk.approve(draft).queued_count == _ROWS
        for kill_point in _WORKER_POINTS:
            release_connection()
            work_until_killed(replace(services.settings, kill_point=kill_point, providers=impatient))
            assert check_everything() == []

        def is_completed() -> bool:
            clock.advance(_TURN_SECONDS)
            desk.work()
            return desk.see(draft).status == "completed"

        # The pace of a provider is counted by a clock that no test sets.
        eventually(is_completed)
        assert desk.see(draft).succeeded_count == _ROWS
        rows = Transaction.select().where(Transaction.payout_id == draft.payout_id)
        assert mtn.paid() == {each.provider_reference: _CENTS for each in rows}
        assert desk.main() == (50_000_000 - _ROWS * _CENTS, 0)
        assert check_everything() == []
