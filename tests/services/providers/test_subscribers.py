"""Names of subscribers and floats: asked of the provider, kept, and bounded."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import a_client, operator
from tests.support.program import Program
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.models.providers import ProviderAccount, SubscriberName
from ussd_server.providers.messages import Registration
from ussd_server.services.providers.floats import FloatService
from ussd_server.status import ServiceError

NUMBER = "+256770000042"


def test_a_name_is_asked_of_the_provider_once_a_day(
    services: Services, web: FlaskClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(services, web, "transactions:read")
    provider = services.runtime.providers.get("sandbox")
    unknown = Registration(None, is_registered=False)
    answers = [Registration("GRACE AUMA", is_registered=True), Registration(), unknown]
    asked: list[float] = []

    def look_up(_: str, timeout_seconds: float) -> Registration:
        asked.append(timeout_seconds)
        return answers.pop(0)

    monkeypatch.setattr(provider, "look_up", look_up)

    def seen() -> tuple[str | None, bool | None]:
        data = program.get("/api/subscribers", phone_number=NUMBER).json["data"]
        assert list(data) == ["phone_number", "provider", "name", "is_registered"]
        assert (data["phone_number"], data["provider"]) == (NUMBER, "sandbox")
        return data["name"], data["is_registered"]

    assert [seen(), seen()] == [("GRACE AUMA", True)] * 2
    assert services.subscriber_names.read(NUMBER, 1) == "GRACE AUMA", "menus read the same"
    assert len(asked) == 1
    assert 0 < asked[0] <= 5
    clock.advance(24 * 3600 + 1)
    assert services.subscriber_names.clean() == 1
    assert [seen(), seen(), seen()] == [(None, None), (None, False), (None, False)], "a silent provider is asked again"
    assert services.subscriber_names.read(NUMBER, 1) is None
    assert not answers
    assert SubscriberName.select().count() == 1


def test_a_client_cannot_try_out_lists_of_numbers(services: Services, web: FlaskClient) -> None:
    program = Program(services, web)
    replies = [program.get("/api/subscribers", phone_number=f"+2567700001{n:02}") for n in range(31)]
    assert [reply.status_code for reply in replies] == [200] * 30 + [429]
    assert int(replies[-1].headers["Retry-After"]) > 0
    assert program.get("/api/subscribers", phone_number="+256770000100").status_code == 200, "that one is kept"
    refused = program.get("/api/subscribers", phone_number="0770000100")
    assert (refused.status_code, refused.json["error"]) == (400, "INVALID_PHONE_NUMBER")
    assert Program(services, web, "balance:read").get("/api/subscribers", phone_number=NUMBER).status_code == 403


def test_the_float_is_asked_for_every_minute_by_one_worker(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = services.runtime.providers.get("sandbox")
    balances: list[int | None] = [500_000, None, 90_000, 80_000, 100_000]
    monkeypatch.setattr(provider, "balance_cents", lambda *_: balances.pop(0))
    with pytest.raises(ServiceError):
        services.provider_states.changes(a_client())
    floats = [FloatService(other_runtime(services, float_alert_shillings=1_000)) for _ in range(2)]

    def state() -> tuple[int | None, float, float]:
        measures = {each.name: each.value for each in floats[0].measures()}
        (shown,) = services.provider_states.list(operator())
        assert shown.float_at == ProviderAccount.get().read_at
        return shown.float_amount_cents, measures["ussd_provider_float_shillings"], measures["ussd_provider_float_low"]

    assert [each.query() for each in floats] == [1, 0]
    assert state() == (500_000, 5000, 0)
    clock.advance(61)
    assert [each.query() for each in floats] == [1, 0]
    assert state() == (500_000, 5000, 0), "what a silent provider told before stays, with its time"
    clock.advance(61)
    floats[1].query()
    assert state() == (90_000, 900, 1)
    clock.advance(61)
    floats[0].query()
    low_since = services.provider_states.list(operator())[0].float_low_since
    assert low_since is not None
    assert low_since < ProviderAccount.get().read_at, "still low: nothing new"
    clock.advance(61)
    floats[0].query()
    assert services.provider_states.list(operator())[0].float_low_since is None
    changes = services.provider_states.changes(operator())
    assert [(each.action, each.actor, each.provider, each.reason) for each in changes] == [
        ("provider.float_restored", "service", "sandbox", "UGX 1,000; the alert is set to UGX 1,000"),
        ("provider.float_low", "service", "sandbox", "UGX 900; the alert is set to UGX 1,000"),
    ]
    assert changes[1].at == low_since
    names = {each.name for each in services.gauges.read()}
    assert {"ussd_provider_float_shillings", "ussd_provider_float_low"} <= names
