"""Endpoints for transactions, to the letter of the contract."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.money import work
from tests.support.program import Program
from ussd_server.bootstrap import Services

RECORD = [
    "transaction_id", "reference", "type", "phone_number", "to_phone_number", "amount", "fee", "currency", "account",
    "provider", "provider_reference", "provider_transaction_id", "status", "failure", "late", "session_id",
    "description", "metadata", "created_at", "updated_at", "completed_at", "next_check_at",
    "refund_of", "refunded_amount", "payout_id", "origin", "same_money_as", "effect", "corrects",
    "reason", "made_by", "request_id",
]  # fmt: skip
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PATH = "/api/transactions"
BODY = {"type": "collection", "phone_number": "+256770000000", "amount": 5000, "reference": "r1"}


@pytest.fixture
def rich(services: Services, web: FlaskClient) -> Program:
    return Program(services, web, shillings=100_000)


def refusal(reply: TestResponse) -> tuple[int, str]:
    """Status and code of a refusal, after checking its envelope."""
    assert list(reply.json) == ["success", "error", "message", "timestamp"]
    assert reply.json["success"] is False
    assert MOMENT.fullmatch(reply.json["timestamp"])
    return reply.status_code, reply.json["error"]


def test_an_accepted_collection_shows_its_whole_record_and_where_it_lies(program: Program) -> None:
    reply = program.collect(metadata={"order": 12, "share": 0.5}, description="Order 12")
    assert reply.status_code == 201
    assert list(reply.json) == ["success", "data", "message"]
    data = reply.json["data"]
    assert list(data) == RECORD
    assert reply.headers["Location"] == f"{PATH}/{data['transaction_id']}"
    assert "Idempotent-Replayed" not in reply.headers
    moments = {name: data.pop(name) for name in ("created_at", "updated_at", "next_check_at")}
    assert all(MOMENT.fullmatch(moment) for moment in moments.values())
    assert uuid.UUID(data.pop("transaction_id")).version == 7
    assert uuid.UUID(data.pop("provider_reference")).version == 4
    assert {name: value for name, value in data.items() if value is not None} == {
        "reference": "r1", "type": "collection", "phone_number": "+256770000000",
        "amount": 5000, "fee": 0, "currency": "UGX", "account": "main", "provider": "sandbox",
        "status": "created", "late": False,
        "description": "Order 12", "metadata": {"order": 12, "share": 0.5},
        "refunded_amount": 0,
        "origin": "client",
        "made_by": {"kind": "key", "id": program.key_id, "name": None, "via_menu": None},
        "request_id": reply.headers["X-Request-Id"],
    }  # fmt: skip


def test_a_reference_is_not_only_spaces(program: Program) -> None:
    for spaces in (" ", "  ", "\u00a0"):
        reply = program.collect(reference=spaces)
        assert refusal(reply) == (400, "INVALID_REQUEST")
        assert reply.json["message"] == "reference: Must not be blank."
    assert program.post("/api/payouts", {"reference": " ", "items": [BODY]}).status_code == 400


@pytest.mark.parametrize(
    ("given", "shown"),
    [(5000, "5000"), ("5000.50", "5000.5"), ("0.01", "0.01"), (0.1, "0.1"), ("999999.99", "999999.99"), (1e3, "1000")],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_amounts_are_shown_as_numbers_with_no_more_decimals_than_needed(
    program: Program, given: Any, shown: str
) -> None:
    assert f'"amount":{shown},' in program.collect(amount=given).text


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_invalid_request_is_refused_by_its_first_error_and_stores_nothing(program: Program) -> None:
    for changes, code in (
        ({"phone_number": "0770000000"}, "INVALID_PHONE_NUMBER"),
        ({"phone_number": "+256770000000\n"}, "INVALID_PHONE_NUMBER"),
        ({"phone_number": None}, "INVALID_PHONE_NUMBER"),
        ({"phone_number": 256770000000}, "INVALID_PHONE_NUMBER"),
        ({"amount": 0}, "INVALID_AMOUNT"),
        ({"amount": 1_000_000}, "INVALID_AMOUNT"),
        ({"amount": "5,000"}, "INVALID_AMOUNT"),
        ({"amount": True}, "INVALID_AMOUNT"),
        ({"amount": "1.001"}, "INVALID_AMOUNT"),
        ({"amount": None}, "INVALID_AMOUNT"),
        ({"type": "refund"}, "INVALID_REQUEST"),
        ({"type": None}, "INVALID_REQUEST"),
        ({"currency": "EUR"}, "INVALID_REQUEST"),
        ({"reference": ""}, "INVALID_REQUEST"),
        ({"reference": "x" * 65}, "INVALID_REQUEST"),
        ({"reference": 7}, "INVALID_REQUEST"),
        ({"provider": "mpesa"}, "INVALID_REQUEST"),
        ({"account": "savings"}, "INVALID_REQUEST"),
        ({"account": "+2567700000000"}, "INVALID_REQUEST"),
        ({"to_phone_number": "+256770000001"}, "INVALID_REQUEST"),
        ({"to_phone_number": "770000001"}, "INVALID_PHONE_NUMBER"),
        ({"type": "transfer"}, "INVALID_REQUEST"),
        ({"type": "transfer", "to_phone_number": "+256770000000"}, "INVALID_REQUEST"),
        ({"type": "transfer", "to_phone_number": "+256770000001", "provider": "sandbox"}, "INVALID_REQUEST"),
        ({"type": "transfer", "to_phone_number": "+256770000001", "account": "+256770000002"}, "INVALID_REQUEST"),
        ({"metadata": [1]}, "INVALID_REQUEST"),
        ({"metadata": {"long": "x" * 5000}}, "INVALID_REQUEST"),
        ({"callback_url": "ftp://example.com"}, "INVALID_REQUEST"),
        ({"callback_url": "https://name@example.com/"}, "INVALID_REQUEST"),
        ({"wait": 5}, "INVALID_REQUEST"),
        ({"phone_number": "1", "amount": 0, "type": "x", "zzz": 1}, "INVALID_PHONE_NUMBER"),
        ({"amount": 0, "type": "x", "reference": ""}, "INVALID_AMOUNT"),
    ):
        assert refusal(program.post(PATH, BODY | changes)) == (400, code)
    assert program.get(PATH).json["data"] == {"items": [], "next_cursor": None}
    assert program.collect("r1").status_code == 201


@pytest.mark.parametrize("missing", BODY)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_missing_field_is_named(program: Program, missing: str) -> None:
    reply = program.post(PATH, {name: value for name, value in BODY.items() if name != missing})
    assert refusal(reply) == (400, "INVALID_REQUEST")
    assert reply.json["message"].startswith(f"{missing}:")


def test_metadata_comes_back_as_it_was_given(program: Program) -> None:
    metadata = {"n": 2**53, "text": "Ŋŋ 😀", "deep": {"list": [1, None, True, "x", 1.5]}, "": ""}
    assert program.collect(metadata=metadata).json["data"]["metadata"] == metadata


@pytest.mark.parametrize("number", ["1" + "0" * 40, "-9007199254740993", "1e400"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_number_that_some_parsers_cannot_read_is_refused(program: Program, web: FlaskClient, number: str) -> None:
    body = json.dumps(BODY | {"metadata": {"n": 0}}).replace('"n": 0', f'"n": {number}')
    reply = web.post(PATH, data=body, content_type="application/json", headers=program.headers)
    assert refusal(reply) == (400, "INVALID_REQUEST")


def test_a_repeat_answers_200_with_the_present_record(
    program: Program, services: Services, clock: MovableClock
) -> None:
    first = program.collect()
    work(services, clock)
    again = program.collect()
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.json["data"]["transaction_id"] == first.json["data"]["transaction_id"]
    assert again.json["data"]["status"] == "succeeded"
    work(services, clock, 5)
    assert program.get("/api/balance").json["data"]["current"] == 5000
    assert refusal(program.collect(amount=5001)) == (400, "IDEMPOTENCY_KEY_REUSED")


def test_an_idempotency_key_names_a_request_as_well(program: Program) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = program.post(PATH, BODY, key)
    assert program.post(PATH, BODY, key).headers["Idempotent-Replayed"] == "true"
    assert program.post(PATH, BODY).json["data"]["transaction_id"] == first.json["data"]["transaction_id"]
    assert refusal(program.post(PATH, BODY | {"reference": "other"}, key)) == (400, "IDEMPOTENCY_KEY_REUSED")
    assert refusal(program.post(PATH, BODY, {"Idempotency-Key": "x" * 256})) == (400, "INVALID_REQUEST")


def test_a_refused_request_does_not_use_its_reference_up(rich: Program) -> None:
    assert refusal(rich.disburse("d", amount=100_001)) == (400, "INSUFFICIENT_BALANCE")
    assert rich.disburse("d", amount=100_000).status_code == 201


def test_one_transaction_is_shown_with_its_status_history(
    program: Program, services: Services, clock: MovableClock
) -> None:
    transaction_id = program.collect(number="+256770000004").json["data"]["transaction_id"]
    work(services, clock, 5)
    data = program.see(transaction_id)
    assert list(data) == [*RECORD, "explanation", "events"]
    assert [(event["status"], event["source"]) for event in data["events"]] == [
        ("created", "submit"),
        ("submitted", "submit"),
        ("pending", "submit"),
        ("succeeded", "poll"),
    ]
    assert all(MOMENT.fullmatch(event["created_at"]) for event in data["events"])
    assert data["events"][0]["created_at"] == data["created_at"], "the history begins with the transaction"
    assert data["provider_transaction_id"]
    assert data["next_check_at"] is None
    amount = {"account": "main", "amount": 5000, "purpose": "amount"}
    assert data["events"][-1]["ledger"] == [
        {"account": "provider:sandbox", "amount": -5000, "purpose": "amount"},
        amount,
    ]
    asked = data["events"][2]["detail"]
    assert asked.pop("took_ms") >= 0
    assert asked == {"attempt": 1, "sent": "payment", "left_machine": True, "code": "PENDING"}
    assert data["explanation"].startswith("UGX 5,000 arrived in the main account at ")


def test_a_failure_says_whose_fault_it_was_and_what_helps(
    program: Program, services: Services, clock: MovableClock
) -> None:
    transaction_id = program.collect(number="+256770000001").json["data"]["transaction_id"]
    work(services, clock)
    assert program.see(transaction_id)["failure"] == {
        "code": "INSUFFICIENT_BALANCE",
        "message": "The payer's mobile money balance is too low",
        "fault": "payer",
        "retry": "after_user_action",
    }


def test_pages_go_on_where_the_last_one_ended(program: Program, clock: MovableClock) -> None:
    made = []
    for number in range(5):
        made.append(program.collect(f"r{number}").json["data"]["transaction_id"])
        clock.advance(1)
    first = program.get(PATH, limit=2).json["data"]
    assert [item["transaction_id"] for item in first["items"]] == made[:2:-1]
    assert list(first["items"][0]) == RECORD
    program.collect("later")
    second = program.get(PATH, limit=2, cursor=first["next_cursor"]).json["data"]
    third = program.get(PATH, limit=2, cursor=second["next_cursor"]).json["data"]
    assert [item["transaction_id"] for item in second["items"] + third["items"]] == made[2::-1]
    assert third["next_cursor"] is None


def test_filters_narrow_a_page(rich: Program, services: Services, clock: MovableClock) -> None:
    rich.collect("a")
    rich.collect("b", number="+256770000002")
    work(services, clock)
    clock.advance(60)
    rich.disburse("c", number="+256770000004")
    moment = rich.get(PATH, reference="c").json["data"]["items"][0]["created_at"]

    def references(**query: str) -> list[str]:
        return [item["reference"] for item in rich.get(PATH, **query).json["data"]["items"]]

    assert references(status="succeeded", type="collection") == ["a"]
    assert references(status="failed") == ["b"]
    assert references(type="disbursement") == ["c"]
    assert references(phone_number="+256770000002") == ["b"]
    assert references(reference="a") == ["a"]
    assert references(**{"from": moment}) == ["c"]
    assert references(to=moment, type="collection") == ["b", "a"]
    assert references(**{"from": moment, "to": moment}) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_malformed_query_is_refused(program: Program) -> None:
    for query in (
        "cursor=x", "cursor=", "limit=0", "limit=101", "limit=x", "status=done", "type=x", "phone_number=0770",
        "from=today", "from=2026-11-20", "to=2026-13-20T08:15:30Z", "reference=", "page=2", "limit=1&limit=2",
    ):  # fmt: skip
        status, code = refusal(program.get(f"{PATH}?{query}"))
        assert (status, code) == (400, "INVALID_PHONE_NUMBER" if "phone" in query else "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("scope", "reads", "writes", "sends"),
    [
        ("transactions:read", 200, 403, 403),
        ("transactions:write", 403, 201, 403),
        ("transactions:send", 403, 403, 201),
        ("transactions:*", 200, 201, 201),
        ("ussd:*", 403, 403, 403),
    ],
)
def test_scopes_open_reading_collecting_and_sending_apart(
    services: Services, web: FlaskClient, scope: str, reads: int, writes: int, sends: int
) -> None:
    program = Program(services, web, scope)
    assert program.collect().status_code == writes
    assert program.get(PATH).status_code == reads
    assert program.get(f"{PATH}/x").status_code == (404 if reads == 200 else 403)
    assert program.post(f"{PATH}/x/refunds", {"reference": "x"}).status_code == (404 if sends == 201 else 403)
    for kind, more in (("disbursement", {}), ("transfer", {"to_phone_number": "+256770000002"})):
        order = {"type": kind, "phone_number": "+256770000001", "amount": 500, "reference": kind} | more
        status, code = refusal(program.post(PATH, order))
        # The account is empty.
        assert (status, code) == ((400, "INSUFFICIENT_BALANCE") if sends == 201 else (403, "INSUFFICIENT_SCOPE"))
    if writes == sends == 403:
        # Missing permission is reported before faults of the body.
        assert refusal(program.post(PATH, {})) == (403, "INSUFFICIENT_SCOPE")


def test_a_succeeded_collection_is_given_back_in_parts(
    program: Program, services: Services, clock: MovableClock
) -> None:
    original = program.collect().json["data"]["transaction_id"]
    refunds = f"{PATH}/{original}/refunds"
    assert refusal(program.post(refunds, {"reference": "too soon"})) == (400, "INVALID_REQUEST")
    work(services, clock)
    assert refusal(program.post(refunds, {"reference": "x", "amount": 5001})) == (400, "INVALID_AMOUNT")
    assert refusal(program.post(refunds, {"reference": "x", "amount": 0})) == (400, "INVALID_AMOUNT")
    assert refusal(program.post(refunds, {})) == (400, "INVALID_REQUEST")
    part = program.post(refunds, {"reference": "part", "amount": "1000"}, {"Idempotency-Key": "k"})
    assert part.status_code == 201
    assert part.headers["Location"] == f"{PATH}/{part.json['data']['transaction_id']}"
    assert (part.json["data"]["type"], part.json["data"]["amount"]) == ("refund", 1000)
    again = program.post(refunds, {"reference": "part", "amount": 1000}, {"Idempotency-Key": "k"})
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert refusal(program.post(refunds, {"reference": "part"})) == (400, "IDEMPOTENCY_KEY_REUSED")
    rest = program.post(refunds, {"reference": "rest"})
    assert rest.json["data"]["amount"] == 4000
    work(services, clock)
    assert program.see(original)["status"] == "reversed"
