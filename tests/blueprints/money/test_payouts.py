"""Payouts over HTTP: for programs with keys, and for people by their roles."""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient, answer
from tests.support.money import agree_fee, deposit, work
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.payouts.approval import approval
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.values import iso_milliseconds

RECORD = [
    "payout_id", "reference", "description", "status", "item_count", "ready_count", "invalid_count",
    "succeeded_count", "failed_count", "queued_count", "total_amount", "total_fee", "created_by", "approved_by",
    "created_at", "approved_at", "completed_at", "send_at", "reserved_at", "needs_money_at",
    "approvals", "withdrawn_at", "withdrawal_reason", "cancel_note", "round",
]  # fmt: skip
ITEM = [
    "line", "phone_number", "amount", "fee", "reference", "description", "name", "name_match", "state", "problems",
    "transaction_id", "failure", "registered_name", "amount_text", "warning", "metadata",
    "round", "attempts", "retry_at",
]  # fmt: skip
FILE = 'phone_number,amount,reference,description,name\n0770 000-000,"1,500",E1,=SUM(A1),Sarah\n'


def body(*rows: dict[str, Any], reference: str = "P1") -> dict[str, Any]:
    rows = rows or ({"phone_number": "+256770000000", "amount": 500, "reference": "a"},)
    return {"reference": reference, "items": list(rows)}


@pytest.fixture
def maker(services: Services, web: FlaskClient) -> Program:
    return Program(services, web, shillings=10_000)


@pytest.fixture
def approver(services: Services, web: FlaskClient, maker: Program) -> Program:
    return Program(services, web, "payouts:approve", "payouts:read", client_id=maker.client_id)


def finish(services: Services, clock: MovableClock, turns: int = 8) -> None:
    for _ in range(turns):
        for payout_id in services.payout_sender.claim(10):
            services.payout_sender.advance(payout_id)
        work(services, clock, 0.5)


def test_a_payout_takes_its_date_from_a_list_and_a_file(maker: Program, web: FlaskClient, clock: MovableClock) -> None:
    ahead, past = (iso_milliseconds(clock.now() + timedelta(days=days)) for days in (30, -30))
    made = maker.post("/api/payouts", body() | {"send_at": ahead}).json["data"]
    assert (made["send_at"], made["reserved_at"]) == (ahead, None)
    query, headers = {"reference": "F", "send_at": ahead}, maker.headers | {"Content-Type": "text/csv"}
    read = web.post("/api/payouts", data=FILE, headers=headers, query_string=query)
    assert read.json["data"]["send_at"] == ahead
    reply = maker.post("/api/payouts", body(reference="P4") | {"send_at": past})
    assert (reply.status_code, reply.json["message"]) == (400, "send_at: Must lie ahead, by a year at most.")
    assert maker.post("/api/payouts", body() | {"send_at": "tomorrow"}).json["error"] == "INVALID_REQUEST"


def test_a_payout_goes_from_a_list_to_its_results(
    maker: Program, approver: Program, services: Services, clock: MovableClock
) -> None:
    reply = maker.post("/api/payouts", body() | {"description": "Salaries"})
    payout = reply.json["data"]
    path = f"/api/payouts/{payout['payout_id']}"
    assert (reply.status_code, reply.headers["Location"]) == (201, path)
    assert list(payout) == RECORD
    assert (payout["status"], payout["ready_count"], payout["total_amount"]) == ("draft", 1, 500)
    again = maker.post("/api/payouts", body() | {"description": "Salaries"})
    assert (again.status_code, again.headers["Idempotent-Replayed"], again.json["data"]) == (200, "true", payout)
    other = maker.post("/api/payouts", body())
    assert (other.status_code, other.json["error"]) == (400, "IDEMPOTENCY_KEY_REUSED")

    refused = maker.post(f"{path}/approve", {})
    assert (refused.status_code, refused.json["error"]) == (403, "INSUFFICIENT_SCOPE")
    approved = approver.post(f"{path}/approve", {}).json["data"]
    assert (approved["status"], approved["queued_count"]) == ("approved", 1)
    balance = maker.get("/api/balance").json["data"]
    assert (balance["current"], balance["reserved"], balance["available"]) == (10_000, 500, 9_500)
    finish(services, clock)
    done = approver.get(path).json["data"]
    assert list(done) == [*RECORD, "states"]
    assert (done["status"], done["states"]) == (
        "completed",
        {"succeeded": {"count": 1, "amount": 500, "fee": 0}},
    )
    items = approver.get(f"{path}/items", state="succeeded").json["data"]
    assert list(items["items"][0]) == ITEM
    assert maker.see(items["items"][0]["transaction_id"])["payout_id"] == payout["payout_id"]
    assert approver.get(f"{path}/items", state="failed").json["data"] == {"items": [], "next_cursor": None}
    listed = approver.get("/api/payouts", status="completed").json["data"]
    assert [each["reference"] for each in listed["items"]] == ["P1"]
    late = maker.post(f"{path}/cancel", {})
    assert (late.status_code, late.json["error"]) == (400, "INVALID_REQUEST")


def test_the_payment_of_a_row_is_found_by_its_whole_reference(
    maker: Program, approver: Program, services: Services, clock: MovableClock
) -> None:
    item = {"phone_number": "+256770000000", "amount": 5, "reference": "r" * 64}
    made = maker.post("/api/payouts", {"reference": "p" * 64, "items": [item]}).json["data"]
    assert approver.post(f"/api/payouts/{made['payout_id']}/approve", {}).status_code == 200
    finish(services, clock, 1)
    whole = f"{'p' * 64}/{'r' * 64}"
    (found,) = maker.get("/api/transactions", reference=whole).json["data"]["items"]
    assert (found["reference"], found["payout_id"]) == (whole, made["payout_id"])
    assert maker.get("/api/transactions", reference=f"{whole}x").json["error"] == "INVALID_REQUEST"


def test_a_file_is_taken_as_people_write_it(maker: Program, web: FlaskClient) -> None:
    def send(file: bytes, reference: str = "F1", kind: str = "text/csv") -> Any:
        headers = maker.headers | {"Content-Type": kind}
        return web.post("/api/payouts", data=file, headers=headers, query_string={"reference": reference})

    created = send(FILE.encode())
    assert created.status_code == 201, created.json
    path = f"/api/payouts/{created.json['data']['payout_id']}/items"
    (item,) = maker.get(path).json["data"]["items"]
    assert (item["phone_number"], item["amount"], item["line"], item["state"]) == ("+256770000000", 1500, 2, "ready")
    written = web.get(path, headers=maker.headers | {"Accept": "text/csv"})
    assert (written.status_code, written.mimetype) == (200, "text/csv")
    assert written.headers["Content-Disposition"].startswith('attachment; filename="payout-')
    table = list(csv.reader(StringIO(written.text)))
    assert table[0] == [*ITEM[:-6], "receipt", "warning", "round", "attempts"]
    # A phone number stays as it is; what a spreadsheet would evaluate is text.
    assert table[1][:7] == ["2", "+256770000000", "1500", "0", "E1", "'=SUM(A1)", "Sarah"]
    # The same rows, also from our own file, are the same payout.
    assert send(written.data, "F9").status_code == 201
    assert send(FILE.encode("utf-16")).status_code == 200
    unnamed = web.post("/api/payouts", data=FILE, headers=maker.headers | {"Content-Type": "text/csv"})
    assert unnamed.json["message"] == "reference: Missing data for required field."
    missing = send(b"phone_number,amount\n0772123456,1\n", "F2")
    assert (missing.status_code, missing.json["message"]) == (400, "Row 1: the headings lack reference.")
    assert send(b"{}", kind="application/pdf").status_code == 415
    big = send(b"x" * (2 * 1024 * 1024 + 1))
    assert (big.status_code, big.json["message"]) == (413, "The request body is larger than 2048 KiB")
    assert web.post("/api/transactions", data=b"x" * 70_000, headers=maker.headers).status_code == 413


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "reference: Missing data for required field."),
        ({"reference": "r"}, "items: Missing data for required field."),
        ({"reference": "r", "items": []}, "items: Must be a list of 1 to 5000 rows."),
        ({"reference": "r", "items": {}}, "items: Must be a list of 1 to 5000 rows."),
        ({"reference": "r", "items": [7]}, "items: Row 1: Must be an object."),
        ({"reference": "r", "items": [{"phone": 1}]}, "items: Row 1, phone: Unknown field."),
        ({"reference": "r", "items": [{}] * 5001}, "items: Must be a list of 1 to 5000 rows."),
        ({"reference": "r", "items": [{}], "currency": "KES"}, "currency: Unknown field."),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_is_no_list_of_rows_is_refused(maker: Program, document: dict[str, Any], message: str) -> None:
    reply = maker.post("/api/payouts", document)
    assert (reply.status_code, reply.json["error"], reply.json["message"]) == (400, "INVALID_REQUEST", message)


def test_strange_values_make_a_row_invalid_and_nothing_else(maker: Program) -> None:
    rows: list[dict[str, Any]] = [
        {},
        {"phone_number": 256772123456, "amount": True, "reference": ["x"]},
        {"phone_number": "+256772123456\n", "amount": 1e300, "reference": "x" * 65, "name": 5, "description": "a\nb"},
        {"phone_number": "0772123456", "amount": "1,000", "reference": "q"},
    ]
    payout = maker.post("/api/payouts", body(*rows)).json["data"]
    assert (payout["invalid_count"], payout["total_amount"]) == (4, 0)
    items = maker.get(f"/api/payouts/{payout['payout_id']}/items").json["data"]["items"]
    assert [len(item["problems"]) for item in items] == [3, 3, 5, 2]


def test_people_make_and_approve_payouts_by_their_roles(
    services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    client = ExampleClient(services)
    deposit(services, RequestContext(Caller(CallerKind.KEY, client_id=client.id, grants=None)), 10_000)
    people = {role: client.browser(web, role) for role in ("owner", "admin", "developer", "viewer")}
    assert answer(people["viewer"].ask("POST", "payouts", body())) == (403, "Insufficient permissions")
    created = people["developer"].ask("POST", "payouts", body())
    assert answer(created) == (201, "Payout created")
    path = f"payouts/{created.json['data']['payout_id']}"
    assert created.headers["Location"] == f"/api/clients/{path}"
    assert answer(people["viewer"].ask("GET", path)) == (200, "Payout")
    assert answer(people["viewer"].ask("GET", f"{path}/items"))[0] == 200
    assert answer(people["developer"].ask("POST", f"{path}/approve", {})) == (403, "Insufficient permissions")
    approved = people["admin"].ask("POST", f"{path}/approve", {})
    assert answer(approved) == (200, "Payout approved")
    assert approved.json["data"]["approved_by"] != approved.json["data"]["created_by"]
    assert answer(people["owner"].ask("POST", f"{path}/approve", {}))[0] == 400
    assert answer(people["owner"].ask("POST", "payouts", {"reference": "x"})) == (400, "Invalid request body")
    assert answer(people["viewer"].ask("POST", f"{path}/cancel", {}))[0] == 403
    assert answer(people["developer"].ask("POST", f"{path}/cancel", {})) == (200, "Payout cancelled")
    own = people["owner"].ask("POST", "payouts", body(reference="P2")).json["data"]["payout_id"]
    assert answer(people["owner"].ask("POST", f"payouts/{own}/approve", {}))[0] == 403
    actions = [event["action"] for event in people["owner"].ask("GET", "audit-events").json["data"]["items"]]
    assert {"payout.created", "payout.approved", "payout.cancelled"} <= set(actions)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("amount", "5x", "6x"),
        ("amount", 0, -1),
        ("amount", [1], [2]),
        ("phone_number", 1, 2),
        ("reference", "r" * 65, "r" * 66),
        ("name", 1, 2),
    ],
)
def test_a_repeat_with_another_invalid_cell_is_another_payout(
    maker: Program, name: str, first: object, second: object
) -> None:
    item = {"phone_number": "+256770000000", "amount": 500, "reference": "a"}
    assert maker.post("/api/payouts", body(item | {name: first})).status_code == 201
    same = maker.post("/api/payouts", body(item | {name: first}))
    assert (same.status_code, same.headers["Idempotent-Replayed"]) == (200, "true")
    other = maker.post("/api/payouts", body(item | {name: second}))
    assert (other.status_code, other.json["error"]) == (400, "IDEMPOTENCY_KEY_REUSED")


def test_an_approval_that_names_the_fees_is_refused_when_they_have_changed(maker: Program, approver: Program) -> None:
    path = f"/api/payouts/{maker.post('/api/payouts', body()).json['data']['payout_id']}"
    agree_fee(FeeTerms(maker.client_id, TransactionType.DISBURSEMENT, 1_550, 0))
    refused = approver.post(f"{path}/approve", {"total_fee": 0})
    assert (refused.status_code, refused.json["error"]) == (400, "INVALID_REQUEST")
    assert refused.json["message"] == "total_fee: The fees of the payout are 15.5 now"
    assert approver.get(path).json["data"]["total_fee"] == 15.5
    assert approver.get(f"{path}/items").json["data"]["items"][0]["fee"] == 15.5
    assert maker.get("/api/balance").json["data"]["reserved"] == 0
    assert check_everything() == []
    for wrong in (-1, "x", True, None, 1.555, "1e3"):
        assert approver.post(f"{path}/approve", {"total_fee": wrong}).json["error"] == "INVALID_REQUEST"
    approved = approver.post(f"{path}/approve", {"total_fee": "15.50"}).json["data"]
    assert (approved["status"], approved["total_fee"]) == ("approved", 15.5)
    assert approver.post(f"{path}/approve", {"total_fee": 0}).json["data"]["status"] == "approved"


def test_fees_that_change_during_an_approval_are_never_charged_unseen(
    maker: Program, approver: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/api/payouts/{maker.post('/api/payouts', body()).json['data']['payout_id']}"
    still_allowed = approval.require_still_allowed

    def agree_meanwhile(*given: Any) -> None:
        # The call has begun, and nothing is compared yet.
        monkeypatch.setattr(approval, "require_still_allowed", still_allowed)
        agree_fee(FeeTerms(maker.client_id, TransactionType.DISBURSEMENT, 2_000, 0))
        still_allowed(*given)

    monkeypatch.setattr(approval, "require_still_allowed", agree_meanwhile)
    refused = approver.post(f"{path}/approve", {"total_fee": 0})
    assert refused.json["message"] == "total_fee: The fees of the payout are 20 now"
    assert maker.get("/api/balance").json["data"]["reserved"] == 0


def test_a_retry_opens_a_round_of_the_rows_that_failed(
    maker: Program, approver: Program, web: FlaskClient, services: Services, clock: MovableClock
) -> None:
    rows = [
        {"phone_number": "+256770000000", "amount": "500.50", "reference": "a", "metadata": {"branch": "Gulu"}},
        {"phone_number": "+256770000002", "amount": 1000, "reference": "b"},
        {"phone_number": "+256770000000", "amount": 1000, "reference": "c", "metadata": {"branch": 7}},
    ]
    first = maker.post("/api/payouts", body(*rows)).json["data"]
    path = f"/api/payouts/{first['payout_id']}"
    assert first["round"] == {"number": 1, "item_count": 2, "total_amount": 1500.5, "total_fee": 0}
    approver.post(f"{path}/approve", {})
    finish(services, clock, 3)
    items = maker.get(f"{path}/items").json["data"]["items"]
    (attempt,) = items[0]["attempts"]
    assert (items[0]["metadata"], items[2]["problems"][0][:9]) == ({"branch": "Gulu"}, "metadata:")
    assert (attempt["number"], attempt["transaction_id"], attempt["status"], attempt["failure"]) == (
        1, items[0]["transaction_id"], "succeeded", None,
    )  # fmt: skip
    paid = maker.get(f"/api/transactions/{attempt['transaction_id']}").json["data"]
    assert paid["metadata"] == {"branch": "Gulu"}
    early = maker.post(f"{path}/retry", {"rows": ["b"]})
    assert early.status_code == 400
    assert early.json["message"].endswith(f"row b: not before {items[1]['retry_at']}")
    clock.advance(6)
    finish(services, clock)
    made = maker.post(f"{path}/retry", {"rows": ["b"]})
    opened = made.json["data"]
    assert (made.status_code, opened["status"], opened["round"]["number"]) == (201, "draft", 2)
    assert made.headers["Location"] == path
    again = maker.post(f"{path}/retry", {})
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert approver.post(f"{path}/approve", {}).status_code == 400
    assert approver.post(f"{path}/approve", {"round": 2}).json["data"]["status"] == "approved"
    finish(services, clock)
    line = web.get(f"{path}/items", headers=maker.headers | {"Accept": "text/csv"}).text.splitlines()[2]
    names = [maker.get(f"{path}/items").json["data"]["items"][1]["attempts"][place] for place in (0, 1)]
    assert (
        " ".join(f"{each['number']}:{each['transaction_id']}:failed:{each['failure']['code']}" for each in names)
        in line
    )
    assert maker.post(f"{path}/copy", {"reference": "P2"}).status_code == 404
    unknown = maker.post(f"/api/payouts/{maker.client_id}/retry", {})
    assert (unknown.status_code, unknown.json["error"]) == (404, "NOT_FOUND")


def test_a_retry_may_name_every_row_of_the_largest_payout(maker: Program) -> None:
    draft = maker.post("/api/payouts", body({"phone_number": "+256770000000", "amount": 500, "reference": "a"})).json
    rows = [f"{row:064}" for row in range(5000)]
    refused = maker.post(f"/api/payouts/{draft['data']['payout_id']}/retry", {"rows": rows})
    assert (refused.status_code, refused.json["error"]) == (400, "INVALID_REQUEST"), refused.json["message"][:200]


def test_one_large_body_of_a_client_is_read_at_a_time(maker: Program, services: Services) -> None:
    rows = [{"phone_number": "+256770000000", "amount": 500, "reference": f"r{row}"} for row in range(1500)]
    with services.large_bodies.permit(maker.client_id):
        reply = maker.post("/api/payouts", body(*rows))
        assert (reply.status_code, reply.headers["Retry-After"]) == (503, "1")
        assert maker.post("/api/payouts", body(*rows[:50])).status_code == 201, "a small one needs no place"
    assert maker.post("/api/payouts", body(*rows, reference="P2")).status_code == 201
