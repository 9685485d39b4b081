"""A worker is killed at every point of a payment; whatever the provider did, the money moves once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import catch_up, services_of, work_until_killed
from tests.support.books import check_everything
from tests.support.money import a_client, balances, deposit, request
from tests.support.stand_ins import StandInProcess, mtn_settings, start_mtn
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings

NUMBER = "+256772123456"
KILL_POINTS = ["send.recorded", "send.answered", "query.answered", "answer.applied"]


@dataclass(frozen=True)
class Mood:
    """How the provider treats payments, and their outcome."""

    switches: dict[str, Any]
    shillings: int
    outcome: str


# 2000 is the amount that the stand-in's table of scenarios refuses.
MOODS = {
    "agrees": Mood({}, 5000, "succeeded"),
    "refuses": Mood({"amount_scenarios": True}, 2000, "failed"),
    "refuses at once": Mood(
        {"calls": ["submit"], "error_status": 500, "error_code": "PAYEE_NOT_FOUND", "carried_out": False},
        5000,
        "failed",
    ),
    "falls silent after accepting": Mood({"silent_after_accept": True, "times": 2}, 5000, "succeeded"),
    "falls silent and never had it": Mood({"silent_before_accept": True, "times": 2}, 5000, "succeeded"),
}


@pytest.fixture(scope="module")
def mtn() -> Iterator[StandInProcess]:
    mtn_process = start_mtn()
    yield mtn_process
    mtn_process.stop()


@pytest.mark.parametrize(
    ("kill_point", "mood"),
    [
        pytest.param(kill_point, mood, id=f"{kill_point}, {name}")
        for kill_point in KILL_POINTS
        for name, mood in MOODS.items()
        # What was refused at once is not enquired about for ten minutes.
        if (kill_point, name) != ("query.answered", "refuses at once")
    ],
)
def test_a_payment_survives_a_crash_at_any_point_and_moves_once(
    settings: Settings, clock: MovableClock, mtn: StandInProcess, kill_point: str, mood: Mood
) -> None:
    mtn.reset()
    mtn.flick(**mood.switches)
    with services_of(settings, clock, **mtn_settings(mtn.base_url)) as services:
        call = a_client()
        deposit(services, call, mood.shillings)
        made = [
            services.transactions.create(request(kind, NUMBER, mood.shillings), call).transaction.transaction_id
            for kind in ("collection", "disbursement")
        ]
        release_connection()
        access = services.settings.providers["mtn"]
        impatient = replace(access, schedule=replace(access.schedule, delays=(0.1,)))
        work_until_killed(replace(services.settings, kill_point=kill_point, providers={"mtn": impatient}))
        assert check_everything() == []
        catch_up(services, clock)
        assert check_everything() == []
        rows = [Transaction.get_by_id(transaction_id) for transaction_id in made]
        assert [row.status for row in rows] == [mood.outcome] * 2
        paid = [row.provider_reference for row in rows] if mood.outcome == "succeeded" else []
        assert sorted(mtn.paid()) == sorted(paid)
        assert balances(call.client_id)["main"] == (mood.shillings * 100, 0)
