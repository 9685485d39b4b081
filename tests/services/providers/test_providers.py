"""The provider of a payment, and how processes learn that one is away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import services_of
from tests.services.processing.test_processor import FakeProvider
from tests.support.eventually import eventually
from tests.support.program import Program
from tests.support.stand_ins import mtn_settings
from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.providers.messages import Direction
from ussd_server.providers.mtn.adapter import MtnAccess, MtnProduct
from ussd_server.redis import signals
from ussd_server.redis.client import connect
from ussd_server.redis.signals import ProviderOutages
from ussd_server.services.providers.providers import Providers, predict_provider
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError
from ussd_server.worker import Worker

MTN, AIRTEL, OTHER = "+256772123456", "+256700123456", "+256712345678"
LANDLINE = "+256414123456"


def providers(*names: str, **traits: bool) -> Providers:
    return Providers([FakeProvider(name=name, **traits) for name in names])  # type: ignore[arg-type]


def test_a_number_selects_its_provider_unless_the_request_names_one() -> None:
    all_on = providers("mtn", "airtel", "sandbox")
    assert [all_on.choose(None, number, 100, Direction.COLLECTION).name for number in (MTN, AIRTEL, OTHER)] == [
        "mtn",
        "airtel",
        "sandbox",
    ]
    assert all_on.choose("airtel", MTN, 100, Direction.COLLECTION).name == "airtel"
    assert providers("mtn", "sandbox").choose(None, AIRTEL, 100, Direction.COLLECTION).name == "sandbox"


@pytest.mark.parametrize(
    ("switched_on", "named", "number", "code"),
    [
        (("mtn",), None, OTHER, Code.INVALID_REQUEST),
        (("mtn",), "mpesa", MTN, Code.INVALID_REQUEST),
        (("mtn",), None, AIRTEL, Code.TRANSACTION_FAILED),
        (("mtn",), "sandbox", MTN, Code.TRANSACTION_FAILED),
        ((), "mtn", MTN, Code.TRANSACTION_FAILED),
        (("mtn", "sandbox"), None, LANDLINE, Code.INVALID_REQUEST),
        (("mtn", "sandbox"), "sandbox", LANDLINE, Code.INVALID_REQUEST),
    ],
)
def test_a_payment_that_no_provider_can_move_is_refused(
    switched_on: tuple[str, ...], named: str | None, number: str, code: Code
) -> None:
    with pytest.raises(ServiceError) as refusal:
        providers(*switched_on).choose(named, number, 100, Direction.COLLECTION)
    assert refusal.value.code is code


def test_a_landline_has_no_provider_and_is_paid_back_all_the_same() -> None:
    both = providers("mtn", "sandbox")
    assert both.of_number(LANDLINE) is None
    assert both.choose("mtn", LANDLINE, 100, Direction.REFUND).name == "mtn"


def test_cents_are_refused_where_only_whole_shillings_move() -> None:
    whole = providers("mtn", moves_whole_shillings_only=True)
    assert whole.choose("mtn", MTN, 50_000, Direction.COLLECTION).name == "mtn"
    with pytest.raises(ServiceError) as refusal:
        whole.choose("mtn", MTN, 50_050, Direction.COLLECTION)
    assert refusal.value.code is Code.INVALID_AMOUNT


def test_an_amount_out_of_the_bounds_of_its_provider_is_refused_before_anything_is_recorded(
    settings: Settings, clock: MovableClock
) -> None:
    with services_of(settings, clock, **mtn_settings("http://127.0.0.1:9")) as services:
        program = Program(services, create_app(services).test_client(), shillings=5000)
        for move in (program.collect, program.disburse):
            refused = move("low", MTN, 499)
            assert (refused.status_code, refused.json["error"]) == (400, "INVALID_AMOUNT")
            assert refused.json["message"] == "amount: mtn moves UGX 500 to 999,999 at a time."
        assert [each["type"] for each in program.get("/api/transactions").json["data"]["items"]] == ["deposit"]
        assert program.collect("low", MTN, 500).status_code == 201, "the name was not used up"
        assert program.collect("small", MTN, 0.5, provider="sandbox").status_code == 201


def test_a_provider_that_a_worker_found_away_receives_no_payments_from_any_process(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "_REPORT_SECONDS", 60)
    # No server listens at this port, so every call to the provider fails before it is sent.
    nowhere = MtnAccess("http://127.0.0.1:1", "mtnuganda", MtnProduct("k", "u", "s"), kind="mtn")
    settings = replace(settings, providers={"mtn": nowhere})
    services, other_process = build_services(settings), build_services(settings)
    try:
        program = Program(services, create_app(services).test_client())
        provider = other_process.runtime.providers.get("mtn")
        assert provider is not None
        while provider.available:
            provider.balance_cents(Direction.COLLECTION, 5.0)
        Worker(other_process).clean_up()
        eventually(lambda: services.runtime.outages.is_away("mtn"))
        reply = program.collect("r1", MTN)
        assert (reply.status_code, reply.json["error"]) == (502, "TRANSACTION_FAILED")
        assert "retry" in reply.json["message"]
        assert int(reply.headers["Retry-After"]) > 0
        assert program.get("/api/transactions").json["data"]["items"] == []
        # The worker died, and its report expires.
        with connect(settings.redis_url, timeout_seconds=5) as redis:
            assert 0 < redis.ttl("provider:away:mtn") <= 60
            redis.delete("provider:away:mtn")
        eventually(lambda: not services.runtime.outages.is_away("mtn"))
        assert program.collect("r1", MTN).status_code == 201, "the same reference may be sent again"
    finally:
        for each in (services, other_process):
            each.close()
        close_connections()


def test_without_redis_a_provider_counts_as_reachable() -> None:
    board = ProviderOutages("unix:///nowhere/at/all.sock", lambda: False, ["mtn"])
    board.report_away("mtn")
    assert not board.is_away("mtn")
    asleep = ProviderOutages("unix:///nowhere/at/all.sock", lambda: True, ["mtn"])
    asleep.report_away("mtn")
    assert not asleep.is_away("mtn")


@pytest.mark.parametrize(
    ("phone_number", "provider"),
    [
        ("+256772123456", "mtn"),
        ("+256781234567", "mtn"),
        ("+256761234567", "mtn"),
        ("+256391234567", "mtn"),
        ("+256791234567", "mtn"),
        ("+256701234567", "airtel"),
        ("+256741234567", "airtel"),
        ("+256751234567", "airtel"),
        ("+256711234567", None),
        ("+256411234567", None),
        ("+254772123456", None),
        ("", None),
    ],
)
def test_the_provider_is_predicted_from_the_number(phone_number: str, provider: str | None) -> None:
    assert predict_provider(phone_number) == provider
