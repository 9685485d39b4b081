"""The operators' pages of clients, keys, channels and the system."""

from __future__ import annotations

import re

from flask import Flask

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.support.example_client import OPERATOR, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.operations import Examination

MISSING = "019e0000-0000-7000-8000-000000000000"


def test_an_operator_disables_a_client_with_a_reason_and_gives_it_a_code(
    operator: Operators, visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    owner, key, ann = visit(), example_client.create_key(), operator("ann")
    assert example_client.name in ann.get("/operator/clients").text
    found = ann.get(f"/operator/clients?q={example_client.name}&format=json").json["items"]
    assert [(one["client_id"], one["state"]) for one in found] == [(example_client.id, "active")]
    assert "No match" in ann.get("/operator/clients?q=nobody").text
    path = f"/operator/clients/{example_client.id}"
    assert ann.get(f"/operator/clients/{MISSING}").status_code == 404
    assert ann.post(f"{path}/codes", service_code="384").status_code == 400
    assert ann.post(f"{path}/codes", service_code="*384*77#").status_code == 303
    assert "*384*77#" in ann.get(path).text
    other = ExampleClient(services, "<b>Sons</b> & Co")
    assert "Payouts of &lt;b&gt;Sons&lt;/b&gt; &amp; Co" in ann.get(f"/operator/clients/{other.id}/payouts").text
    assert "Belongs to another client" in ann.post(f"/operator/clients/{other.id}/codes", service_code="*384*77#").text
    assert ann.post(f"{path}/disable").status_code == 400
    assert ann.post(f"{path}/disable", reason="<b>unpaid</b> bill").status_code == 303
    page = ann.get(path).text
    assert "&lt;b&gt;unpaid&lt;/b&gt; bill" in page
    assert owner.get("/api-keys").status_code == 302
    assert "disabled, and all its keys" in ann.get(f"/operator/api-keys?q={key.apikey}").text
    assert ann.post(f"{path}/enable", reason="paid").status_code == 303
    assert "Calls with it" in ann.get(f"/operator/api-keys?q={key.apikey}").text
    back = visit()
    trail = back.get("/audit?format=json").json["items"]
    assert [(one["action"], one["reason"]) for one in trail if one["action"].startswith("client.")][:2] == [
        ("client.enabled", "paid"),
        ("client.disabled", "<b>unpaid</b> bill"),
    ]
    assert AuditEvent.get(AuditEvent.action == "client.disabled").operator == "ann@ops.example"


def test_an_operator_explains_disables_and_enables_a_key(operator: Operators, example_client: ExampleClient) -> None:
    key, ann = example_client.create_key(), operator("ann")
    page = f"/operator/api-keys?q={key.apikey}"
    assert "is accepted" in ann.get(page).text
    assert key.apisecret not in ann.get(page).text
    assert ann.post("/operator/api-keys/set", key=key.apikey, action="eat").status_code == 400
    assert ann.post("/operator/api-keys/set", key="unknown1", action="disable").status_code == 404
    assert ann.post("/operator/api-keys/set", key=key.apikey, action="disable").status_code == 303
    assert "Enable the key" in ann.get(page).text
    assert ann.post("/operator/api-keys/set", key=key.apikey, action="enable").status_code == 303
    assert "is accepted" in ann.get(page).text
    assert "mistyped" in ann.get("/operator/api-keys?q=<script>").text


def test_an_operator_creates_a_channel_and_sees_its_path_only_on_request(
    operator: Operators, example_client: ExampleClient
) -> None:
    ann = operator("ann")
    refused = ann.post("/operator/channels/new", adapter="json", client="nobody")
    assert (refused.status_code, "Client not found" in refused.text) == (400, True)
    assert 'data-field="client"' in refused.text
    made = ann.post("/operator/channels/new", adapter="json", client=example_client.name, name="<b>Fest</b>").text
    (secret,) = set(re.findall(r'data-copy="/ussd/json/([^"]+)"', made))
    listed = ann.get("/operator/channels")
    assert "&lt;b&gt;Fest&lt;/b&gt;" in listed.text
    (channel,) = ann.get("/operator/channels?format=json").json["items"]
    assert channel["client"] == example_client.name
    assert f'href="/console/operator/clients/{example_client.id}"' in listed.text
    path = f"/operator/channels/{channel['channel_id']}"
    pages = [listed.text, ann.get(path).text, ann.get("/operator/channels?format=csv").text]
    assert not any(secret in page for page in pages)
    assert secret in ann.post(f"{path}/reveal").text
    assert ann.web.post(f"/ussd/json/{secret}", json={}).status_code != 404
    assert ann.post(f"{path}/close").status_code == 303
    assert "Open it again" in ann.get(path).text
    assert ann.web.post(f"/ussd/json/{secret}", json={}).status_code == 404
    assert ann.post(f"{path}/open").status_code == 303
    for action in ("reveal", "open", "close"):
        assert ann.post(f"/operator/channels/{MISSING}/{action}").status_code == 404
    actions = [row.action for row in AuditEvent.select().where(AuditEvent.object_id == channel["channel_id"])]
    assert actions == [f"channel.{word}" for word in ("created", "revealed", "closed", "opened")]


def test_the_system_page_shows_parts_workers_queues_and_settings_without_secrets(
    operator: Operators, visit: Visit, services: Services, clock: MovableClock
) -> None:
    ann = operator("ann")
    assert "No worker runs" in ann.get("/operator/system").text
    services.runtime.heartbeat.beat()
    page = ann.get("/operator/system").text
    assert services.runtime.leases.worker_id in page
    assert "USSD_KEEP_DELIVERIES_DAYS" in page
    assert "Events that are not relayed yet" in page
    assert services.settings.database_url.rpartition("@")[0] not in page or "@" not in services.settings.database_url
    clock.advance(60)
    assert "silent" in ann.get("/operator/system", headers={"X-Console-Poll": "new"}).text
    checked = ann.post("/operator/system/check")
    assert "Everything that was checked is as it must be" in checked.text
    assert ann.post("/operator/system/check", mark="forged").status_code == 400
    assert "It never ran. It checks settings" in page
    assert ann.post("/operator/system/doctor").location == "/console/operator/system"
    page = ann.get("/operator/system").text
    assert "Findings of the doctor" in page
    assert page.count("by <bdi>you</bdi>") == 2
    Examination.update(result={"rows": {"keys": 1}, "violations": ["<b>x</b>"], "is_complete": False}).where(
        Examination.kind == "check"
    ).execute()
    page = ann.get("/operator/system").text
    assert "<li>&lt;b&gt;x&lt;/b&gt;</li>" in page
    assert ": daily sums of API keys 1.</p>" in page
    assert {"system.checked", "system.examined"} <= {row.action for row in AuditEvent.select()}
    owner = visit()
    for path in ("system", "clients", "channels", "api-keys"):
        assert owner.get(f"/operator/{path}").status_code == 404


def test_the_audit_trail_of_operators_has_what_they_did_anywhere_and_failed_sign_ins(
    operator: Operators, visit: Visit, services: Services, example_client: ExampleClient, app: Flask
) -> None:
    ann, bob, _ = operator("ann"), operator("bob"), example_client.email()
    ann.post(f"/operator/clients/{example_client.id}/disable", reason="<b>unpaid</b>")
    services.clients.set_active(example_client.id, True, OPERATOR, "paid")
    stranger = ConsoleVisitor(app.test_client())
    stranger.get("/operator/sign-in")
    stranger.post("/operator/sign-in", email="nobody@ops.example", password="x" * 12, code="123456")
    items = bob.get("/operator/audit?format=json").json["items"]
    seen = [(item["operator"], item["action"], item["client"], item["reason"]) for item in items]
    assert seen[:3] == [
        ("Unknown person", "operator.sign_in_failed", None, None),
        ("Command line", "client.enabled", "acme", "paid"),
        ("ann@ops.example", "client.disabled", "acme", "<b>unpaid</b>"),
    ]
    assert ("bob@ops.example", "operator.signed_in", None, None) in seen
    example_client.call()
    assert bob.get("/operator/audit?format=json").json["items"] == items
    page = bob.get("/operator/audit").text
    assert f'href="/console/operator/clients/{example_client.id}"' in page
    assert "&lt;b&gt;unpaid&lt;/b&gt;" in page
    only = bob.get("/operator/audit?operator=bob@ops.example&format=json").json["items"]
    assert {item["operator"] for item in only} == {"bob@ops.example"}
    assert bob.get("/operator/audit?cursor=forged").status_code == 400
    assert visit().get("/operator/audit").status_code == 404
