"""`providers try`: a few small payments with a live provider, a report, and simulators that answer from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from simulators.replay import Replay
from simulators.server import serving
from tests.conftest import MovableClock
from tests.faults.workers import services_of
from tests.services.processing.moves import NUMBERS, Move
from tests.support.books import check_everything
from tests.support.money import operator
from tests.support.stand_ins import airtel_settings, mtn_settings
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.movements import Movement
from ussd_server.models.providers import TrialPayment
from ussd_server.models.transactions import Transaction
from ussd_server.services.processing.messages import Callback
from ussd_server.services.trials.messages import TrialReport, TryProvider
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

REPORTS = sorted((Path(__file__).parents[2] / "providers" / "reports").glob("*.json"))
WRONG = {"mtn": "+256790000000", "airtel": "+256750000033"}


@pytest.fixture(params=NUMBERS)
def move(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Move]:
    with ExitStack() as stack:
        yield Move(stack, settings, clock, request.param)


def attempt(move: Move) -> TrialReport:
    """Try the old stand-in, whose person declines and approves as the announcements say."""

    def announce(sentence: str) -> None:
        move.old.switches.change({"declined": "decline" in sentence})

    def pause(seconds: float) -> None:
        move.old.clock.advance(seconds)
        move.clock.advance(seconds)

    wanted = TryProvider(move.provider, NUMBERS[move.provider], 50_000, WRONG[move.provider])
    return move.services.trials.run(wanted, operator(), announce, pause)


def test_a_trial_takes_every_step_and_its_payments_are_the_operators_own(move: Move) -> None:
    transactions = Transaction.select().count()
    report = attempt(move)
    assert [(step.step, step.ok) for step in report.steps] == [
        ("balance for collections", True),
        ("balance for disbursements", True),
        ("name of the number", True),
        ("collection from a wrong number", True),
        ("declined collection", True),
        ("collection", True),
        ("money back", True),
    ], [(step.step, step.came) for step in report.steps]
    assert report.is_as_expected
    assert Transaction.select().count() == transactions, "they are no client's"
    uses = [(row.direction, row.amount_cents, row.use_kind) for row in Movement.select().order_by(Movement.direction)]
    assert uses == [("in", 50_000, "own"), ("out", 50_000, "own")]
    assert AuditEvent.select().where(AuditEvent.action == "provider.tried").count() == 4
    assert check_everything() == []


def test_a_report_has_no_secret_and_no_full_number(move: Move) -> None:
    report = attempt(move)
    text = json.dumps(asdict(report), default=str)
    assert report.is_as_expected
    settings = (mtn_settings if move.provider == "mtn" else airtel_settings)("")
    secrets = [value for name, value in settings.items() if name.endswith(("KEY", "SECRET", "PIN", "API_KEY"))]
    references = [row.provider_reference for row in TrialPayment.select()]
    for hidden in (NUMBERS[move.provider][-9:], *references, *[each for each in secrets if len(each) > 4]):
        assert hidden not in text
    assert [(each.unknown_fields, each.unknown_codes) for each in report.steps] == [([], [])] * len(report.steps)
    (collection,) = [step for step in report.steps if step.step == "collection"]
    assert collection.forms


def test_nobody_waits_beside_the_phone_for_a_collection_that_cannot_leave(move: Move) -> None:
    move.old.switches.change({"error_status": 401, "calls": ["token"]})
    report = attempt(move)
    last = report.steps[-1]
    assert (last.step, last.ok) == ("collection from a wrong number", False)
    assert last.came.startswith("not_sent: ")
    assert "HTTP 401" in last.came


def test_a_balance_that_is_not_asked_for_repeats_no_refusal(move: Move) -> None:
    move.old.switches.change({"error_status": 401, "calls": ["token"]})
    balances = [step for step in attempt(move).steps if step.step.startswith("balance")]
    assert [(step.ok, "HTTP 401" in step.came) for step in balances] == [
        (False, True),
        (True, False) if move.provider == "airtel" else (False, True),
    ]


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_a_callback_of_a_trial_is_noted_with_its_moment(move: Move) -> None:
    path = next(each.path for each in move.services.callbacks.paths(operator()) if each.provider == "mtn")
    report = attempt(move)
    row = TrialPayment.get()
    body = json.dumps({"externalId": row.provider_reference}).encode()
    move.services.callbacks.receive(Callback("mtn", path.rpartition("/")[2], body))
    assert TrialPayment.get_by_id(row.provider_reference).callback_at is not None
    assert all(step.callback_seconds is None for step in report.steps)


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_nothing_is_tried_while_money_is_held_or_without_settings(move: Move) -> None:
    with pytest.raises(ServiceError, match="No such connection; the settings have: mtn"):
        move.services.trials.run(TryProvider("mtn-old", NUMBERS["mtn"], 50_000), operator(), print)
    with pytest.raises(ServiceError, match="mtn moves UGX 500 to"):
        move.services.trials.run(TryProvider("mtn", NUMBERS["mtn"], 100), operator(), print)
    move.start(move.old, USSD_HOLD_MONEY="1")
    with pytest.raises(ServiceError) as refused:
        attempt(move)
    assert refused.value.code is Code.SERVICE_UNAVAILABLE
    assert not TrialPayment.select().exists()


def answered_from(report: dict[str, Any], settings: Settings, clock: MovableClock) -> Iterator[Services]:
    """Services whose provider answers as in a report."""
    named = mtn_settings if report["provider"] == "mtn" else airtel_settings
    with (
        serving(Replay(report).application()) as address,
        services_of(settings, clock, **named(address)) as services,
    ):
        yield services


@pytest.mark.parametrize("path", REPORTS, ids=[path.stem for path in REPORTS])
def test_the_simulators_answer_as_in_every_report(path: Path, settings: Settings, clock: MovableClock) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    provider = report["provider"]
    with closing(answered_from(report, settings, clock)) as opened:
        services = next(opened)
        wanted = TryProvider(provider, NUMBERS[provider], report["amount_cents"], WRONG[provider])
        again = services.trials.run(wanted, operator(), print, lambda seconds: clock.advance(seconds))
    assert [(each.step, each.ok, each.came) for each in again.steps] == [
        (each["step"], each["ok"], each["came"]) for each in report["steps"]
    ]
    assert replace(again, calls=[]).steps
