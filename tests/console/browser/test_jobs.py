"""What support desks and operators do most, from the page that shows the fault: each takes two clicks at most."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.console.browser.visitor import Console, Paths, Visitor
from tests.support.example_client import OPERATOR, PASSWORD
from ussd_server.services.bank.messages import StateBankAccount
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.menus.messages import SaveDraft
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.services.transactions.messages import CreateDeposit

pytestmark = pytest.mark.needs_chromium


def does(page: Page, path: str, *clicks: str, **fields: str) -> None:
    """Open a page and click on at most two texts; before the last, fill in the fields. The form is taken."""
    assert len(clicks) <= 2
    page.goto(f"/console{path}")
    for text in clicks[:-1]:
        page.get_by_text(text, exact=True).first.click()
    for name, value in fields.items():
        page.locator(f":is(details[open], main form.stack) [name={name}]").first.fill(value)
    with page.expect_response(lambda reply: reply.request.method == "POST") as answered:
        page.get_by_role("button", name=re.compile(f"^{re.escape(clicks[-1])}$")).and_(
            page.locator(":visible")
        ).first.click()
    said = page.locator("[role=alert]").all_inner_texts() if answered.value.status != 303 else []
    assert (answered.value.status, said) == (303, []), path


def test_a_clients_people_need_two_clicks(visitor: Visitor, console: Console, people: Paths, delivered: Paths) -> None:
    console.services.deposits.create(CreateDeposit(console.client.id, 1_000_000, "to refund"), OPERATOR)
    leaked = console.services.api_keys.create(CreateApiKey(None), console.client.call())
    menus, owner = console.services.menus, console.client.at_console()
    menus.save_draft(SaveDraft("shop", menus.get("shop", owner).draft | {"title": "It stops"}), owner)
    bad = menus.publish("shop", owner).version
    with visitor.tab() as page:
        does(page, f"/transactions/{console.pay()}", "Refund …", "Refund it", reason="Paid twice")
        does(page, f"/api-keys/{leaked.id}", "Stop it now", "Stop it now")
        does(page, delivered[1], "Redeliver")
        does(page, people[1], "Disable the person …", "Disable")
        does(page, "/menus/shop", f"Roll back to version {bad - 1} …", "Roll back", reason="It stops")


def test_operators_need_two_clicks(operator: Visitor, console: Console) -> None:
    console.services.deposits.create(CreateDeposit(console.client.id, 1_000_000, "to give back"), OPERATOR)
    console.services.bank_accounts.state(StateBankAccount("Stanbic", "90300", "Acme Ltd"), console.client.at_console())
    console.services.operators.create(CreateOperator("bob@ops.example", PASSWORD), OPERATOR)
    with operator.tab() as page:
        does(page, console.hold_payment(), "Assign it …", "Propose")
        does(
            page, f"/operator/transactions/{console.pay()}", "Propose a refund …", "Propose the refund", reason="Twice"
        )
        does(page, "/operator/settlements", "Confirm …", "Confirm it")
        does(page, "/operator/providers", "Switch off …", "Switch it off", reason="It is away")
        does(page, "/operator/providers", "Switch on …", "Switch it on", reason="It is back")
        does(page, "/operator/proposals", "Confirm …", "Confirm and do it")
