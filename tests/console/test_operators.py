"""The console of operators."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyotp
import pytest
from flask import Flask

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Visit
from tests.support.money import a_client, deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.messages.operators import CreateOperator
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction

PASSWORD = "correct horse battery"
Operators = Callable[[str], ConsoleVisitor]


@pytest.fixture
def operator(app: Flask, services: Services, clock: MovableClock) -> Operators:
    """Gives a visitor who signed in as the operator with this name."""

    def signed_in(name: str) -> ConsoleVisitor:
        factor = services.operators.accounts.create(CreateOperator(f"{name}@ops.example", PASSWORD), operator_context())
        visitor = ConsoleVisitor(app.test_client())
        visitor.get("/operator/sign-in")
        code = pyotp.TOTP(factor.secret).at(clock.now())
        reply = visitor.post("/operator/sign-in", email=f"{name}@ops.example", password=PASSWORD, code=code)
        assert (reply.status_code, reply.location) == (303, "/console/operator")
        visitor.get("/operator")
        return visitor

    return signed_in


def test_operators_and_clients_people_see_their_own_pages_only(operator: Operators, visit: Visit, app: Flask) -> None:
    ann, owner = operator("ann"), visit("owner")
    assert "Reviews" in ann.get("/operator").text
    assert "ann@ops.example" in ann.get("/operator/operators").text
    assert ann.get("").location == "/console/operator"
    assert ann.get("/api-keys").status_code == owner.get("/operator").status_code == 404
    assert 'href="/console/operator' not in owner.get("").text
    stranger = ConsoleVisitor(app.test_client())
    assert stranger.get("/operator/proposals").location == "/console/operator/sign-in?next=/console/operator/proposals"
    elsewhere = {"REMOTE_ADDR": "203.0.113.9"}
    assert stranger.get("/operator/sign-in", environ_base=elsewhere).status_code == 404
    assert stranger.get("/operator", environ_base=elsewhere).status_code == 404
    assert ann.get("/operator", environ_base=elsewhere).status_code == 404
    assert ann.post("/sign-out").location == "/console/operator/sign-in"
    assert ann.get("/operator").status_code == 302
    wrong = stranger.get("/operator/sign-in") and stranger.post(
        "/operator/sign-in", email="ann@ops.example", password=PASSWORD, code="000000"
    )
    assert wrong.status_code == 401
    assert "Invalid credentials" in wrong.text
    assert PASSWORD not in wrong.text


def test_two_operators_settle_a_payment_that_no_provider_confirmed(
    operator: Operators, services: Services, clock: MovableClock
) -> None:
    call = a_client()
    deposit(services, call, 5000)
    made = services.transactions.transactions.create(request("disbursement", "+256770000007"), call).transaction
    work(services, clock, 45, step=5)
    ann, bob = operator("ann"), operator("bob")
    assert "UGX" in ann.get("/operator/reviews").text
    path = f"/operator/reviews/{made.transaction_id}/propose"
    assert ann.post(path, outcome="eaten", reason="statement").status_code == 400
    assert ann.post(path, outcome="succeeded").status_code == 400
    assert ann.post(path, outcome="succeeded", reason="Their <b>statement</b>").status_code == 303
    assert "ann@ops.example proposed" in bob.get("/operator/reviews").text
    assert "Confirm and do it" not in ann.get("/operator/proposals").text
    page = bob.get("/operator/proposals").text
    assert "Their &lt;b&gt;statement&lt;/b&gt;" in page
    confirm = re.search(r'action="/console(/operator/proposals/[^"]+/confirm)"', page)
    assert confirm
    assert ann.post(confirm[1]).status_code == 400
    assert Transaction.get_by_id(made.transaction_id).completed_at is None
    assert bob.post(confirm[1]).status_code == 303
    row = Transaction.get_by_id(made.transaction_id)
    assert (row.status, row.review_note) == ("succeeded", "Their <b>statement</b> (ann@ops.example, bob@ops.example)")
    settled = AuditEvent.get(AuditEvent.action == "transaction.settled")
    assert (settled.actor, settled.operator, settled.client_id) == ("operator", "bob@ops.example", call.client_id)
    assert bob.post(confirm[1]).status_code == 400
    other = ann.post(path, outcome="failed", reason="again")
    withdrawn = re.search(r'action="/console(/operator/proposals/[^"]+/withdraw)"', ann.get("/operator/proposals").text)
    assert other.status_code == 303
    assert withdrawn
    assert ann.post(withdrawn[1]).status_code == 303
    assert "No proposal is open" in ann.get("/operator/proposals").text


def test_two_operators_refund_a_payment(operator: Operators, services: Services, clock: MovableClock) -> None:
    call = a_client()
    paid = services.transactions.transactions.create(request("collection", "+256770000000"), call).transaction
    work(services, clock, 5, step=1)
    ann, bob = operator("ann"), operator("bob")
    path = f"/operator/transactions/{paid.transaction_id}/refund"
    for amount in ("0", "-5", "1e3", "٣", "1000000"):
        assert ann.post(path, amount=amount, reason="wrong number").status_code == 400
    assert ann.post(path, amount="1000", reason="wrong number").status_code == 303
    confirm = re.search(r'action="/console(/operator/proposals/[^"]+/confirm)"', bob.get("/operator/proposals").text)
    assert confirm
    assert bob.post(confirm[1]).status_code == 303
    (refund,) = Transaction.select().where(Transaction.refund_of == paid.transaction_id)
    assert (refund.amount_cents, refund.client_id) == (100_000, call.client_id)
    assert AuditEvent.get(AuditEvent.action == "transaction.refunded").operator == "bob@ops.example"
