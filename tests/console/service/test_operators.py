"""The console of operators."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

from flask import Flask

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Operators, Visit, confirmation
from tests.support.example_client import PASSWORD, ExampleClient
from tests.support.money import a_client, deposit, request, work
from tests.support.shop import VOUCHER, Shop
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.services.ussd.messages import BeginSession, EnterText


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


def test_a_clients_page_leads_operators_to_its_payments_statement_keys_and_people(
    operator: Operators, example_client: ExampleClient, services: Services, app: Flask
) -> None:
    deposit(services, operator_context(example_client.id), 5000)
    ann, owner = operator("ann"), example_client.email("owner")
    path = f"/operator/clients/{example_client.id}"
    hub = ann.get(path).text
    assert 'Available</dt><dd><span class="money">UGX 5,000' in hub
    assert owner in hub
    payments = ann.get(f"{path}/transactions?type=deposit").text
    link = re.search(r'href="/console(/operator/transactions/[0-9a-f-]{36})"', payments)
    assert link
    assert ann.get(link[1]).status_code == 200
    statement = ann.get(f"{path}/statement").text
    assert link[1] in statement
    assert f'"/console{path}/statement.csv?account=main' in statement
    assert "5000" in ann.get(f"{path}/statement.csv").text
    for below in ("", "/transactions", "/statement"):
        assert f'href="/console{path}{below}"' in hub or not below
        assert ann.get(f"/operator/clients/{operator_context().request_id}{below}").status_code == 404
    stranger = ConsoleVisitor(app.test_client())
    assert 'href="/console/operator/sign-in"' in stranger.get("/sign-in").text
    elsewhere = {"REMOTE_ADDR": "203.0.113.9"}
    assert "/console/operator" not in stranger.get("/sign-in", environ_base=elsewhere).text


def test_two_operators_settle_a_payment_that_no_provider_confirmed(
    operator: Operators, services: Services, clock: MovableClock
) -> None:
    call = a_client()
    deposit(services, call, 5000)
    made = services.transactions.create(request("disbursement", "+256770000007"), call).transaction
    work(services, clock, 45, step=5)
    ann, bob = operator("ann"), operator("bob")
    reviews = ann.get("/operator/reviews")
    assert f'href="/console/operator/transactions/{made.transaction_id}"' in reviews.text
    assert "Propose how it ends" in ann.get(f"/operator/transactions/{made.transaction_id}").text
    assert ann.get("/operator/reviews?cursor=forged").status_code == 400
    path = f"/operator/propose/review.settle/{made.transaction_id}"
    assert ann.post(path, outcome="eaten", reason="statement").status_code == 400
    assert ann.post(path, outcome="succeeded", reason="said").status_code == 400
    assert ann.post(path, outcome="succeeded", no_receipt="on").status_code == 400
    assert ann.post(path, outcome="succeeded", receipt="R1", reason="Their <b>statement</b>").status_code == 303
    assert "<bdi>ann@ops.example</bdi>" in bob.get("/operator/reviews").text
    assert "Confirm and do it" not in ann.get("/operator/proposals").text
    page = bob.get("/operator/proposals").text
    assert "Their &lt;b&gt;statement&lt;/b&gt;" in page
    path_of_confirmation, digest = confirmation(page)
    assert ann.post(path_of_confirmation, digest=digest).status_code == 400
    assert bob.post(path_of_confirmation).status_code == 400
    assert Transaction.get_by_id(made.transaction_id).completed_at is None
    assert bob.post(path_of_confirmation, digest=digest).status_code == 303
    row = Transaction.get_by_id(made.transaction_id)
    assert (row.status, row.review_note) == ("succeeded", "Their <b>statement</b> (ann@ops.example, bob@ops.example)")
    settled = AuditEvent.get(AuditEvent.action == "transaction.settled")
    assert (settled.actor, settled.operator, settled.client_id) == ("operator", "bob@ops.example", call.client_id)
    assert (settled.reason, settled.decided_by) == ("Their <b>statement</b>", "ann@ops.example, bob@ops.example")
    assert (settled.amount_cents, settled.phone_number) == (500_000, "+256770000007")
    assert bob.post(path_of_confirmation, digest=digest).status_code == 400
    assert ann.post(path, outcome="failed", reason="again").status_code == 400
    paid = services.transactions.create(request("collection", "+256770000000"), call).transaction
    work(services, clock, 5, step=1)
    refund = ann.post(f"/operator/propose/transaction.refund/{paid.transaction_id}", amount="1", reason="wrong number")
    assert refund.status_code == 303
    withdrawn = re.search(r'action="/console(/operator/proposals/[^"]+/withdraw)"', ann.get("/operator/proposals").text)
    assert withdrawn
    assert ann.post(withdrawn[1]).status_code == 303
    assert "No proposal is open" in ann.get("/operator/proposals").text


def test_two_operators_refund_a_payment(operator: Operators, services: Services, clock: MovableClock) -> None:
    call = a_client()
    paid = services.transactions.create(request("collection", "+256770000000"), call).transaction
    work(services, clock, 5, step=1)
    ann, bob = operator("ann"), operator("bob")
    path = f"/operator/propose/transaction.refund/{paid.transaction_id}"
    for amount in ("0", "-5", "1e3", "٣", "1000000"):
        assert ann.post(path, amount=amount, reason="wrong number").status_code == 400
    assert ann.post(path, amount="1000", reason="wrong number").status_code == 303
    path_of_confirmation, digest = confirmation(bob.get("/operator/proposals").text)
    assert bob.post(path_of_confirmation, digest=digest).status_code == 303
    (refund,) = Transaction.select().where(Transaction.refund_of == paid.transaction_id)
    assert (refund.amount_cents, refund.client_id) == (100_000, call.client_id)
    assert AuditEvent.get(AuditEvent.action == "transaction.refunded").operator == "bob@ops.example"


def test_an_operator_finds_any_clients_payment_and_proposes_its_refund_where_it_is_explained(
    operator: Operators, services: Services, clock: MovableClock
) -> None:
    call = replace(a_client("<i>Kampala & Sons</i>"), request_id="request-of-the-payment")
    other = a_client("Other")
    paid = services.transactions.create(request(reference="order-1"), call).transaction
    services.transactions.create(request(reference="order-1"), other)
    work(services, clock, 5, step=1)
    ann = operator("ann")
    path = f"/operator/transactions/{paid.transaction_id}"
    both = ann.get("/operator/search?q=order-1")
    assert f'href="/console{path}"' in both.text
    assert both.text.count('class="card"') == 2
    assert "&lt;i&gt;Kampala &amp; Sons&lt;/i&gt;" in both.text
    listed = ann.get("/operator/search?q=order-1&format=json").json["items"]
    assert {item["client"] for item in listed} == {"<i>Kampala & Sons</i>", "Other"}
    assert ann.get("/operator/search?q=request-of-the-payment").location == f"/console{path}"
    page = ann.get(path).text
    for expected in ("arrived in the main account", "request-of-the-payment", call.client_id, "Propose a refund"):
        assert expected in page
    assert (
        ann.post(
            path.replace("transactions", "propose/transaction.refund"), amount="1,000", reason="wrong number"
        ).status_code
        == 303
    )
    page = ann.get(path).text
    assert "A proposal about this transaction is open, by you" in page
    assert "Propose a refund" not in page
    assert ann.get("/operator/transactions/019e0000-0000-7000-8000-000000000000").status_code == 404
    key = ExampleClient(services).create_key()
    found = ann.get(f"/operator/search?q={key.apikey}")
    assert found.location == f"/console/operator/api-keys/{key.id}"
    assert "is accepted" in ann.get(f"/operator/api-keys/{key.id}").text
    assert ann.get("/operator/api-keys/019e0000-0000-7000-8000-000000000000").status_code == 404


def test_an_operator_finds_and_opens_any_clients_session_event_and_payout(
    operator: Operators, visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    shop = Shop(services, client_id=example_client.id)
    session = services.api_sessions.begin(BeginSession("+256772123456", shop.code, text="4"), shop.call)
    services.api_sessions.enter(EnterText(session.session_id, VOUCHER), shop.call)
    deposit(services, operator_context(example_client.id), 100_000)
    paid = services.transactions.create(request(), shop.call).transaction
    events = services.events.list_of_object(paid.transaction_id, shop.call)
    payout = services.payouts.create(
        CreatePayout("NOV", file=b"phone_number,amount,reference\n0770000002,1000,<b>E-1</b>\n"), example_client.call()
    ).payout.payout_id
    ann = operator("ann")
    wanted = (("sessions", session.session_id), ("events", events[0].id), ("payouts", payout))
    client_path, other = f"/operator/clients/{example_client.id}", ExampleClient(services, "other")
    for kind, object_id in (wanted[0], wanted[2]):
        assert f'href="/console{client_path}/{kind}"' in ann.get(client_path).text
        page = ann.get(f"{client_path}/{kind}").text
        assert f'href="/console/operator/{kind}/{object_id}"' in page
        file = ann.get(f"{client_path}/{kind}?format=csv")
        assert re.fullmatch(rf'attachment; filename="{kind}-[0-9-]+\.csv"', file.headers["Content-Disposition"])
        for address in re.findall(r'(?:href|action)="(/console/[^"?]*)', page):
            assert address.startswith(
                ("/console/operator", "/console/static", "/console/language", "/console/sign-out")
            ), address
        assert ann.get(f"/operator/clients/{other.id}/{kind}?format=json").json["items"] == []
        assert "yet" in ann.get(f"/operator/clients/{other.id}/{kind}").text
        assert ann.get(f"/operator/clients/019e0000-0000-7000-8000-000000000000/{kind}").status_code == 404
        assert visit().get(f"{client_path}/{kind}").status_code == 404
    for kind, object_id in wanted:
        path = f"/operator/{kind}/{object_id}"
        assert ann.get(f"/operator/search?q={object_id}").location == f"/console{path}"
        page = ann.get(path).text
        assert f'<a href="/console/operator/clients/{example_client.id}"><bdi>acme</bdi></a>' in page
        # Nothing on it leads to a page that operators do not have.
        for address in re.findall(r'(?:href|action|hx-get)="(/console/[^"?]*)', page):
            assert address.startswith(
                ("/console/operator", "/console/static", "/console/language", "/console/sign-out")
            ), address
        assert ann.get(f"/operator/{kind}/019e0000-0000-7000-8000-000000000000").status_code == 404
        assert ann.get(f"/operator/{kind}/nonsense").status_code == 404
        assert visit().get(path).status_code == 404
    session_page = ann.get(f"/operator/sessions/{session.session_id}").text
    assert "<dt>Language</dt><dd><bdi>English</bdi>" in session_page
    assert "Your voucher was noted." in session_page
    assert VOUCHER not in session_page
    event_page = ann.get(f"/operator/events/{events[0].id}").text
    assert "transaction.created" in event_page
    assert re.search(r'Amount</dt><dd><span class="money">UGX', event_page)
    (listed, *_) = visit().get("/events?type=transaction.created&format=json").json["items"]
    assert (bool(listed["reference"]), bool(listed["amount"]), listed["phone_number"][:4]) == (True, True, "+256")
    path = f"/operator/payouts/{payout}"
    page = ann.get(path).text
    assert "&lt;b&gt;E-1&lt;/b&gt;" in page
    assert "Approve and send" not in page
    assert ann.get(f"{path}/live?was=draft").status_code == 200
    assert "0770000002" not in ann.get(f"{path}/results.csv").text
    assert "+256770000002" in ann.get(f"{path}/results.csv").text
    assert ann.post(f"{path}/cancel").location == f"/console{path}"
    assert "It was cancelled before anything was sent." in ann.get(path).text
    assert AuditEvent.get(AuditEvent.action == "payout.cancelled").operator == "ann@ops.example"
    assert ann.post(f"{path}/cancel").status_code == 303


def test_an_operator_makes_a_client_and_its_first_owner_who_signs_in(
    operator: Operators, app: Flask, services: Services
) -> None:
    ann = operator("ann")
    assert "New client …" in ann.get("/operator/clients").text
    refused = ann.post("/operator/clients", name=" ")
    assert refused.status_code == 400
    assert "printable characters" in refused.text
    path = ann.post("/operator/clients", name="<b>New</b> School").location.removeprefix("/console")
    assert "E-mail of the first owner" in ann.get(path).text
    made = ann.post(f"{path}/owner", email="head@school.example").text
    (password,) = re.findall(r'data-copy="([^"]{12,})" aria-label="Copy password', made)
    assert password not in ann.get(path).text
    again = ann.post(f"{path}/owner", email="other@school.example")
    assert (again.status_code, "who invite others" in again.text) == (400, True)
    owner = ConsoleVisitor(app.test_client())
    assert owner.sign_in("head@school.example", unescape(password)).status_code == 303
    assert "New&lt;/b&gt; School" in owner.get("").text
