"""Approvals over HTTP: withdrawn with the key, several by rules, notes, and rules that an owner sets."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from tests.blueprints.money.test_two_people import KEYS, Desk
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.sending import Event

SETTINGS = "/api/clients/settings"
RULES = [{"above": 0, "approvals": 1}, {"above": 400, "approvals": 2}]


@pytest.fixture
def desk(app: Flask, services: Services) -> Desk:
    desk = Desk(app, services, ExampleClient(services))
    deposit(services, operator_context(desk.client.id), 100_000)
    desk.add("ann", "owner")
    desk.add("bob")
    desk.add("cid")
    return desk


def payout(desk: Desk, payout_id: str) -> dict[str, Any]:
    reply = desk.web.get(f"/api/clients/payouts/{payout_id}", headers=desk.headers("ann"))
    return dict(reply.json["data"])


def approve(desk: Desk, name: str, payout_id: str, **body: Any) -> Any:
    path = f"/api/clients/payouts/{payout_id}/approve"
    return desk.web.post(path, json=body, headers=desk.headers(name))


def test_deleting_a_key_withdraws_its_approval_and_its_page_and_event_say_so(desk: Desk) -> None:
    key, payout_id = desk.key_of("bob"), desk.draft("ann")
    assert desk.approve(key, payout_id)
    assert payout(desk, payout_id)["status"] == "approved"
    assert desk.web.delete(f"{KEYS}/{key['id']}", headers=desk.headers("ann")).status_code == 200
    seen = payout(desk, payout_id)
    reason = f"The API key {key['apikey']} was deleted."
    assert (seen["status"], seen["approvals"], seen["withdrawal_reason"]) == ("draft", [], reason)
    (event,) = Event.select().where(Event.type == "payout.approval_withdrawn")
    assert (event.payload["status"], event.payload["withdrawal_reason"]) == ("draft", reason)
    page = desk.visit("bob").get(f"/payouts/{payout_id}").text
    assert reason in page
    assert "nothing was sent" in page
    assert check_everything() == []


def test_a_payout_above_a_rule_is_a_draft_with_notes_until_the_second_approval(desk: Desk) -> None:
    reply = desk.web.patch(SETTINGS, json={"approval_rules": RULES}, headers=desk.headers("ann"))
    assert (reply.status_code, reply.json["data"]["approval_rules"]) == (200, RULES)
    payout_id = desk.draft("ann")
    first = approve(desk, "bob", payout_id, note="Checked against the contract").json
    assert first["message"] == "Approval kept; the payout needs another one"
    (given,) = first["data"]["approvals"]
    assert (first["data"]["status"], given["by"], given["note"]) == (
        "draft",
        desk.id_of("bob"),
        "Checked against the contract",
    )
    page = desk.visit("cid").get(f"/payouts/{payout_id}").text
    assert "It has 1 of 2 approvals." in page
    assert "Checked against the contract" in page
    assert "Approve and send" in page
    assert "Approve and send" not in desk.visit("bob").get(f"/payouts/{payout_id}").text
    second = approve(desk, "cid", payout_id).json
    assert (second["message"], second["data"]["status"], len(second["data"]["approvals"])) == (
        "Payout approved",
        "approved",
        2,
    )


def test_the_console_approves_and_cancels_with_a_note(desk: Desk) -> None:
    kept, cancelled = desk.draft("ann", "P1"), desk.draft("ann", "P2")
    visitor = desk.visit("bob")
    for payout_id, action in ((kept, "approve"), (cancelled, "cancel")):
        visitor.get(f"/payouts/{payout_id}")
        assert visitor.post(f"/payouts/{payout_id}/{action}", note=f"to {action}").status_code == 303
        assert f"to {action}" in visitor.get(f"/payouts/{payout_id}").text
    assert payout(desk, cancelled)["cancel_note"] == "to cancel"
    visitor.get(f"/payouts/{kept}")
    assert visitor.post(f"/payouts/{kept}/cancel", note="x" * 201).status_code == 400


def test_an_owner_sets_rules_in_the_console_and_an_admin_confirms_those_that_ask_for_less(desk: Desk) -> None:
    owner, admin = desk.visit("ann"), desk.visit("bob")
    page = "/payouts/approval-rules"
    assert "Change the rules" in owner.get(page).text
    assert "Change the rules" not in admin.get(page).text
    assert owner.post(page, above=["0", "1,000"], approvals=["2", "3"]).status_code == 303
    assert "UGX 1,000" in admin.get(page).text
    assert owner.post(page, above=["0", ""], approvals=["1", "1"]).status_code == 303
    assert "Rules that wait" in owner.get(page).text
    assert 'name="shown" value="1 above UGX 0"' in admin.get(page).text
    assert owner.post(f"{page}/confirm", shown="1 above UGX 0").status_code == 403
    for shown in ("", "2 above UGX 0"):
        assert admin.post(f"{page}/confirm", shown=shown).status_code == 400
    assert admin.post(f"{page}/confirm", shown="1 above UGX 0").status_code == 303
    assert "Rules that wait" not in admin.get(page).text
    assert admin.post(page, above=["0"], approvals=["1"]).status_code == 403


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ("two", "approval_rules: Must be a list of 1 to 10 rules."),
        ([], "approval_rules: Must be a list of 1 to 10 rules."),
        ([{"above": 0}], "approval_rules: Each rule is an object with above and approvals."),
        ([{"above": 0, "approvals": True}], "approval_rules: approvals: Must be a whole number."),
        ([{"above": 1, "approvals": 1}], "approval_rules: above: Must be 0 in the first rule"),
        ([{"above": 0, "approvals": 6}], "approval_rules: approvals: Must be 1 to 5."),
    ],
)
def test_malformed_rules_are_named(desk: Desk, rules: Any, named: str) -> None:
    reply = desk.web.patch(SETTINGS, json={"approval_rules": rules}, headers=desk.headers("ann"))
    assert (reply.status_code, named in reply.json["message"]) == (400, True), reply.json


def test_settings_that_name_nothing_are_refused_and_admins_set_no_rules(desk: Desk) -> None:
    assert desk.web.patch(SETTINGS, json={}, headers=desk.headers("ann")).status_code == 400
    reply = desk.web.patch(SETTINGS, json={"approval_rules": RULES}, headers=desk.headers("bob"))
    assert (reply.status_code, reply.json["message"]) == (403, "Insufficient permissions")
