"""Refunds over the API: why they are made, and who finds them in the audit trail."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.example_client import ExampleClient
from tests.support.money import work
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.transactions.messages import OperatorRefund


def test_each_refund_is_in_the_clients_audit_trail_with_who_how_much_to_whom_and_why(
    services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    client = ExampleClient(services)
    program = Program(services, web, client_id=client.id, shillings=100_000)
    paid = program.collect().json["data"]["transaction_id"]
    work(services, clock)
    path = f"/api/transactions/{paid}/refunds"
    made = program.post(path, {"reference": "back", "amount": 1500, "reason": "came late"}, {"X-Request-Id": "why-1"})
    assert (made.status_code, made.json["data"]["description"]) == (201, "came late")
    assert program.post(path, {"reference": "more", "amount": 500}).json["data"]["description"] is None
    services.refunds.create_by_operators(
        OperatorRefund(paid, "paid twice", "Jane", "Mary", 100_000), operator_context()
    )
    browser = client.browser(web)
    events = [
        event
        for event in browser.ask("GET", "audit-events").json["data"]["items"]
        if event["action"] == "transaction.refunded"
    ]
    key_id = next(
        key["id"]
        for key in browser.ask("GET", "api-keys").json["data"]
        if key["apikey"] == program.headers["x-api-key"]
    )
    shown = ("actor", "key_id", "amount", "phone_number", "reason", "decided_by", "object_id")
    assert [tuple(event[name] for name in shown) for event in events] == [
        ("operator", None, 1000, "+256770000000", "paid twice", "Jane, Mary", paid),
        ("key", key_id, 500, "+256770000000", None, None, paid),
        ("key", key_id, 1500, "+256770000000", "came late", None, paid),
    ]
    assert events[2]["request_id"] == "why-1"


def test_the_reason_of_a_refund_is_part_of_what_is_repeated(
    services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    program = Program(services, web, shillings=100_000)
    paid = program.collect().json["data"]["transaction_id"]
    work(services, clock)
    path, body = f"/api/transactions/{paid}/refunds", {"reference": "back", "amount": 1500, "reason": "came late"}
    first = program.post(path, body)
    again = program.post(path, body)
    assert (again.status_code, again.json["data"]) == (200, first.json["data"])
    for other in ("came early", None):
        refused = program.post(path, body | {"reason": other})
        assert (refused.status_code, refused.json["error"]) == (400, "IDEMPOTENCY_KEY_REUSED")
    for wrong in ("", "x" * 201, 5, "a\nb"):
        refused = program.post(path, body | {"reference": "other", "reason": wrong})
        assert (refused.status_code, refused.json["error"]) == (400, "INVALID_REQUEST")
