"""The state of providers: from our own calls, over all workers, and the operator's switch."""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.desk import FakeProvider
from tests.support.money import a_client, operator, request, work
from tests.support.program import Program
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.menus.document.expressions import ExpressionError, compile_expression
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.menus.engine.navigator import SessionFacts, State
from ussd_server.models.clients import AuditEvent
from ussd_server.models.operations import WorkerHeartbeat
from ussd_server.models.providers import ProviderCalls
from ussd_server.models.transactions import Transaction
from ussd_server.outbound.transport import HttpExchange, SendState, TransportFailure
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http.replies import read
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.leases import Leases
from ussd_server.services.menus.replays import DropOffs
from ussd_server.services.operations.heartbeat import Heartbeat
from ussd_server.services.providers.call_history import CallHistory
from ussd_server.services.providers.messages import OperatorProviderState, SwitchProvider
from ussd_server.services.providers.providers import ProviderSwitches
from ussd_server.services.transactions.messages import GetTransaction
from ussd_server.status import Code, ServiceError

GOOD, DECLINED = ProviderAnswer(Outcome.PENDING), ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_DECLINED)
BROKEN = ProviderAnswer(Outcome.FAILED, FailureCode.PROVIDER_ERROR, reason="INTERNAL_PROCESSING_ERROR")
SILENT = ProviderAnswer(Outcome.UNKNOWN)


def state(services: Services) -> OperatorProviderState:
    (found,) = services.provider_states.list(operator())
    return found


def calls(heartbeat: Heartbeat, answer: ProviderAnswer, number: int, took_ms: int = 200) -> None:
    for _ in range(number):
        heartbeat.count_call("sandbox", "ask", answer, took_ms)
    heartbeat.beat()


def test_the_state_comes_from_the_calls_of_all_workers_in_the_last_15_minutes(
    services: Services, clock: MovableClock
) -> None:
    first = services.runtime.heartbeat
    second = Heartbeat(Leases(clock), services.runtime.providers, DropOffs(), clock)
    assert (state(services).status, state(services).success_rate, state(services).median_seconds) == (
        "available",
        None,
        None,
    )
    calls(first, GOOD, 6)
    calls(second, DECLINED, 3, took_ms=4000)
    seen = state(services)
    assert (seen.status, seen.success_rate, seen.last_error) == ("available", 1.0, None)
    assert seen.median_seconds == pytest.approx(0.2, rel=0.1)
    calls(second, BROKEN, 3)
    seen = state(services)
    assert (seen.status, seen.success_rate) == ("degraded", 0.75)
    assert seen.last_error == "PROVIDER_ERROR (INTERNAL_PROCESSING_ERROR)"
    assert seen.since is not None
    assert seen.last_error_at is not None
    assert seen.since <= seen.last_error_at <= clock.now()
    assert timedelta(0) <= clock.now() - seen.since < timedelta(minutes=1)
    assert "3 of our last 12 calls failed" in seen.message
    calls(first, SILENT, 60)
    assert (state(services).status, state(services).success_rate) == ("unavailable", 0.75)
    clock.advance(16 * 60)
    first.beat()
    assert (state(services).status, state(services).success_rate) == ("available", None)
    (measures,) = [row.measures for row in WorkerHeartbeat.select() if row.id == services.runtime.leases.worker_id]
    assert measures["recent"]["minutes"] == {"sandbox": {}}, "what is old is forgotten, so that the row stays small"


def test_an_unclear_answer_is_no_outage_and_is_shown(services: Services) -> None:
    unclear = ProviderAnswer(Outcome.UNKNOWN, reason="HTTP 200 SUCCESSFUL no amount", is_unclear=True)
    calls(services.runtime.heartbeat, unclear, 40)
    seen = state(services)
    assert (seen.status, seen.success_rate) == ("available", 1.0)
    assert seen.last_error == "its answer is unclear (HTTP 200 SUCCESSFUL no amount)"


def test_a_refusal_is_told_as_the_provider_said_it_and_is_no_silence(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ProviderAnswer(Outcome.NOT_SENT, reason="HTTP 401: Access denied due to invalid subscription key.")
    calls(services.runtime.heartbeat, refused, 2)
    seen = state(services)
    assert (seen.status, seen.message) == ("degraded", "2 of our last 2 calls failed; payments may take longer.")
    calls(services.runtime.heartbeat, refused, 6)
    seen = state(services)
    assert seen.last_error == "HTTP 401: Access denied due to invalid subscription key."
    assert (seen.status, seen.message) == ("unavailable", "8 of our last 8 calls failed; payments may take longer.")
    monkeypatch.setattr(services.runtime.providers, "is_connection_away", lambda _: True)
    assert state(services).message == "It refuses our calls; new payments are refused until it takes them."


def test_a_certificate_that_is_expired_is_named_and_is_no_silence(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = read(HttpExchange(SendState.NOT_SENT, trouble=TransportFailure.CERTIFICATE_EXPIRED)).refusal
    calls(services.runtime.heartbeat, ProviderAnswer(Outcome.NOT_SENT, reason=expired), 8)
    monkeypatch.setattr(services.runtime.providers, "is_connection_away", lambda _: True)
    seen = state(services)
    assert seen.last_error == "its certificate is expired or our clock is wrong"
    assert seen.message == f"We do not reach it: {seen.last_error}; new payments are refused until we do."


def test_the_calls_of_all_workers_are_kept_by_quarters_of_an_hour_for_eight_days(
    services: Services, clock: MovableClock
) -> None:
    clock.advance((30 - clock.now().minute % 15) * 60 - clock.now().second)
    leases = Leases(clock)
    others = other_runtime(
        services, leases=leases, heartbeat=Heartbeat(leases, services.runtime.providers, DropOffs(), clock)
    )
    history, elsewhere = services.call_history, CallHistory(others)
    calls(services.runtime.heartbeat, GOOD, 6, took_ms=100)
    calls(others.heartbeat, BROKEN, 2, took_ms=4000)
    history.write()
    elsewhere.write()
    calls(services.runtime.heartbeat, SILENT, 2)
    clock.advance(15 * 60)
    calls(services.runtime.heartbeat, GOOD, 1)
    for _ in range(2):
        history.write()
        elsewhere.write()

    quarters = history.get(None, operator())["sandbox"]
    assert len(quarters) == 96
    assert [(each.bad_count, each.good_share) for each in quarters[-3:]] == [(0, None), (4, 0.6), (0, 1.0)]
    assert quarters[-2].median_seconds == pytest.approx(0.1, rel=0.1)
    assert quarters[-1].began_at <= clock.now() < quarters[-1].began_at + timedelta(minutes=15)
    clock.advance(16 * 60)
    services.runtime.heartbeat.beat()
    history.write()
    assert history.get(None, operator())["sandbox"][-3].good_share == 0.6, "the rest of a quarter does not replace it"
    clock.advance(86_400)
    history.write()
    assert {each.good_share for each in history.get(None, operator())["sandbox"]} == {None}
    yesterday = history.get(clock.now() - timedelta(days=1), operator())["sandbox"]
    assert yesterday[-3].good_share == 0.6
    clock.advance(8 * 86_400)
    history.write()
    assert ProviderCalls.select().count() == 0
    with pytest.raises(ServiceError):
        history.get(None, a_client())


def test_a_provider_that_was_switched_off_takes_no_new_payment_and_finishes_the_others(
    services: Services, clock: MovableClock
) -> None:
    call, transactions = a_client(), services.transactions
    running = transactions.create(request(number="+256770000004"), call).transaction.transaction_id
    work(services, clock)
    seen = services.provider_states.switch(SwitchProvider("sandbox", True, "Maintenance at MTN"), operator())
    assert (seen.status, seen.message) == ("switched_off", "Switched off by the operator: Maintenance at MTN.")
    with pytest.raises(ServiceError) as refused:
        transactions.create(request(reference="new"), call)
    assert (refused.value.code, refused.value.message) == (
        Code.TRANSACTION_FAILED,
        "The provider sandbox is switched off: Maintenance at MTN. Nothing was recorded; retry with the same reference",
    )
    assert Transaction.select().count() == 1
    assert transactions.create(request(number="+256770000004"), call).replayed
    work(services, clock, 5)
    assert transactions.get(GetTransaction(running), call).status == "succeeded"
    assert ProviderSwitches(["sandbox"], clock).is_off("sandbox"), "another process reads it, also after a restart"
    services.provider_states.switch(SwitchProvider("sandbox", False, "It is back"), operator())
    assert transactions.create(request(reference="new"), call).transaction.status == "created"
    actions = [row.action for row in AuditEvent.select().order_by(AuditEvent.id) if row.object_id == "sandbox"]
    assert actions == ["provider.switched_off", "provider.switched_on"]
    for wrong in (SwitchProvider("mpesa", True, "x"), SwitchProvider("sandbox", True, " ")):
        with pytest.raises(ServiceError):
            services.provider_states.switch(wrong, operator())
    with pytest.raises(ServiceError):
        services.provider_states.switch(SwitchProvider("sandbox", True, "x"), call)


def test_clients_read_the_state_and_menus_ask_for_it(services: Services, web: FlaskClient) -> None:
    program = Program(services, web, "transactions:read")
    (item,) = program.get("/api/providers").json["data"]["items"]
    assert item == {
        "provider": "sandbox", "name": "Sandbox", "status": "available",
        "collections": {"enabled": True, "min_amount": 0.01, "max_amount": 999999.99},
        "disbursements": {"enabled": True, "min_amount": 0.01, "max_amount": 999999.99},
        "success_rate": None, "median_seconds": None, "since": None, "message": "It answers our calls.",
    }  # fmt: skip
    assert Program(services, web, "balance:read").get("/api/providers").status_code == 403

    available = compile_expression("provider.sandbox.available and not provider.mtn.available")
    facts = SessionFacts("+256770000000", "*1#", providers=ProviderStates(services.runtime.providers.takes_payments))
    scope = State(facts, "a", "en").scope()
    assert available.value(scope) is True, "MTN is not set up here"
    services.provider_states.switch(SwitchProvider("sandbox", True, "x"), operator())
    assert available.value(scope) is False
    with pytest.raises(ExpressionError):
        compile_expression("session.mtn.available")


def test_a_provider_that_refused_a_hundred_calls_is_switched_off_until_it_grants_a_token(
    services: Services, clock: MovableClock
) -> None:
    provider = FakeProvider(refused_in_a_row=99)
    switches = services.runtime.switches
    switches.follow_refusals(provider)
    assert not switches.is_off("sandbox")
    provider.refused_in_a_row = 100
    switches.follow_refusals(provider)
    seen = state(services)
    assert (seen.status, switches.is_off("sandbox")) == ("switched_off", True)
    assert seen.message == "It refused a hundred calls in a row; new payments are refused until it grants access."
    with pytest.raises(ServiceError) as refusal:
        services.transactions.create(request(), a_client())
    assert refusal.value.code is Code.TRANSACTION_FAILED
    clock.advance(60)
    provider.refused_in_a_row, provider.has_access = 0, True
    switches.follow_refusals(provider)
    assert not switches.is_off("sandbox")
    assert [(row.action, row.actor) for row in AuditEvent.select().order_by(AuditEvent.id)][-2:] == [
        ("provider.switched_off", "service"),
        ("provider.switched_on", "service"),
    ]


def test_an_operators_switch_is_not_ended_by_a_token(services: Services) -> None:
    services.provider_states.switch(SwitchProvider("sandbox", True, "maintenance"), operator())
    services.runtime.switches.follow_refusals(FakeProvider(has_access=True))
    assert services.runtime.switches.is_off("sandbox")
