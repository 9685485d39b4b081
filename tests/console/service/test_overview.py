"""The first page of a client, and that of operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.console.conftest import Operators, Visit
from tests.support.example_client import OPERATOR, ExampleClient
from tests.support.money import a_client, request, work
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.sending import Webhook
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.providers.floats import FloatService
from ussd_server.services.providers.messages import ProviderStatus
from ussd_server.services.transactions.messages import CreateDeposit
from ussd_server.services.webhooks.messages import CreateWebhook
from ussd_server.values import KAMPALA


def test_the_overview_shows_what_moved_what_is_held_and_what_needs_a_person(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    assert "API key" not in visit("viewer").get("").text
    visitor = visit("developer")
    page = visitor.get("").text
    assert "Make your first API key" in page
    assert "first-payment" in page
    example_client.create_key()
    assert "You have an API key" in visitor.get("").text
    context = operator_context(example_client.id)
    services.deposits.create(CreateDeposit(example_client.id, 5_000_000, "float"), OPERATOR)
    assert "Collect a first payment" in visitor.get("").text
    create = services.transactions.create
    create(request("collection", "+256770000000", 5000), context)
    create(request("collection", "+256770000001", 7000), context)
    create(request("disbursement", "+256770000000", 1000), context)
    create(request("disbursement", "+256770000007", 3000), context)
    create(request("collection", "+256770000000", 99), a_client("Other"))
    url = "https://example.com/<b>hook</b>"
    hook = services.webhooks.create(CreateWebhook("https://example.com/hook"), context)
    Webhook.update(failing_since=clock.now(), url=url).where(Webhook.id == hook.id).execute()
    work(services, clock, 20, step=5)
    page = visitor.get("").text
    assert "What to do next" not in page
    for expected in (
        "UGX 5,000", "UGX 54,000", "UGX 3,000</span> reserved", "66.7 %",
        "1 payment without an answer", "do not repeat it, we", "Collected by hour in the last 24 hours", "https://example.com/&lt;b&gt;hook&lt;/b&gt;",
    ):  # fmt: skip
        assert expected in page, expected
    week = visitor.get("?days=7").text
    assert "Collected in 7 days" in week
    assert "the 7 days before" in week
    assert 'hx-get="/console?days=7"' in week
    first = visitor.get("", headers={"X-Console-Poll": "new"})
    seen = {"X-Console-Poll": first.headers["X-Console-Version"]}
    assert visitor.get("", headers=seen).status_code == 204


def test_a_second_connection_in_trouble_is_named_and_its_provider_s_payments_are_counted_once(
    operator: Operators, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state,) = services.provider_states.list(operator_context())
    other = replace(state, connection="sandbox-acme", account="acme-wallet", status=ProviderStatus.UNAVAILABLE)
    monkeypatch.setattr(services.provider_states, "list", lambda _: (state, other))
    page = operator("ann").get("/operator").text
    assert "Sandbox (sandbox-acme)</a>" in page
    assert page.count('<td data-title="Provider">') == 1


def test_operators_see_all_clients_together_and_switch_a_provider_off_and_on(
    operator: Operators, visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    create = services.transactions.create
    create(request("collection", "+256770000000", 5000), operator_context(example_client.id))
    create(request("collection", "+256770000000", 99), a_client("Other"))
    work(services, clock, 2)
    ann = operator("ann")
    assert "is low" not in ann.get("/operator").text
    floats = FloatService(other_runtime(services, float_alert_shillings=10**13))
    assert floats.query() == 1
    page = ann.get("/operator").text
    assert "The float at Sandbox is low" in page
    for expected in ("UGX 5,099", "100.0 %", "Queues", "Oldest payment without an outcome"):
        assert expected in page, expected
    assert ann.get("/operator", headers={"X-Console-Poll": "new"}).text.strip().startswith('<div id="figures"')
    assert "Switch off …" in ann.get("/operator/providers").text
    refused = ann.post("/operator/providers/sandbox/switch", to="off", reason="")
    assert (refused.status_code, refused.text.count('<details class="confirm destroys" open>')) == (400, 1)
    assert ann.post("/operator/providers/nonsense/switch", to="off", reason="x").status_code == 400
    assert ann.post("/operator/providers/sandbox/switch", to="off", reason="<i>Repairs</i>").status_code == 303
    page = ann.get("/operator/providers").text
    assert "is switched off." in page
    assert "&lt;i&gt;Repairs&lt;/i&gt;" in page
    owner = visit("owner")
    assert "&lt;i&gt;Repairs&lt;/i&gt;" in owner.get("").text
    assert owner.get("/operator/providers").status_code == 404
    assert ann.post("/operator/providers/sandbox/switch", to="on", reason="done").status_code == 303
    page = ann.get("/operator/providers").text
    for expected in (
        "the float of a provider is low",
        "switched a provider off",
        "switched a provider on",
        "ann@",
        "the alert is set to",
        "done",
    ):
        assert expected in page, expected
    assert "the float" not in owner.get("").text
    (state,) = ann.get("/operator/providers?format=json").json["items"]
    assert state["status"] == "available"


def test_a_provider_in_trouble_is_in_the_attention_box_the_title_and_the_charts(
    operator: Operators, visit: Visit, services: Services, clock: MovableClock
) -> None:
    ann, owner = operator("ann"), visit("owner")
    assert "No background worker runs" in ann.get("/operator").text
    services.runtime.heartbeat.beat()
    for page in (ann.get("/operator"), owner.get("")):
        assert "<title>(" not in page.text
        assert "Needs your attention" not in page.text
    assert "No call was counted in the last 24 hours." in ann.get("/operator/providers").text
    for outcome, number in ((Outcome.PENDING, 1), (Outcome.UNKNOWN, 9)):
        for _ in range(number):
            services.runtime.heartbeat.count_call("sandbox", "ask", ProviderAnswer(outcome), 200)
    services.runtime.heartbeat.beat()
    services.call_history.write()
    for page in (ann.get("/operator"), owner.get("")):
        for expected in ("<title>(1) ", "Needs your attention", "is unavailable since", 'data-attention="1"'):
            assert expected in page.text, expected
    page = ann.get("/operator/providers").text
    words = "10 calls: 0 failed, 9 not answered", "not answered in the last 24 hours"
    for expected in ("<title>(1) ", "10.0 %", ": 9</title>", *words):
        assert expected in page, expected
    assert "100.0 %" not in page
    day = clock.now().astimezone(KAMPALA).date()
    assert f"not answered on {day:%d %b %Y}" in ann.get(f"/operator/providers?day={day}").text
    assert ann.get("/operator/providers?day=2026-99-01").status_code == 400
