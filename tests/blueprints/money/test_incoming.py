"""Payment codes in the API, and what a till sends: checks, and notices that are signed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from standardwebhooks import Webhook
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.money import operator
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import Movement
from ussd_server.services.incoming.messages import IncomingPaths, SetPrefix

NOTICE = {
    "provider_transaction_id": "R-77",
    "code": "sch 1042",
    "amount": 5000,
    "phone_number": "+256772123456",
    "name": "Achieng Sarah",
    "at": "2026-11-20T08:15:30Z",
}
CODE = {"description": "Fees of Achieng", "min_amount": 1000, "expires_at": "2030-01-01T00:00:00Z"}


@pytest.fixture
def program(services: Services, web: FlaskClient) -> Program:
    program = Program(services, web)
    services.payment_codes.set_prefix(SetPrefix(program.client_id, "SCH"), operator())
    return program


@pytest.fixture
def till(services: Services, web: FlaskClient, clock: MovableClock) -> Till:
    return Till(services, web, clock)


class Till:
    """Signs as the sandbox's till does."""

    def __init__(self, services: Services, web: FlaskClient, clock: MovableClock) -> None:
        (paths,) = services.notices.paths(operator())
        self.paths: IncomingPaths = paths
        self._web, self._clock = web, clock

    def check(self, body: dict[str, Any]) -> TestResponse:
        return self._web.post(f"{self.paths.path}/check", json=body)

    def notify(self, body: dict[str, Any], seconds: float = 0, secret: str | None = None) -> TestResponse:
        text, at = json.dumps(body), self._clock.now() + timedelta(seconds=seconds)
        signature = Webhook(secret or self.paths.secret).sign("msg_1", at, text)
        signed = {"webhook-id": "msg_1", "webhook-timestamp": f"{int(at.timestamp())}", "webhook-signature": signature}
        return self.send(text, signed)

    def send(self, text: str, headers: dict[str, str]) -> TestResponse:
        return self._web.post(f"{self.paths.path}/notify", data=text, headers=headers, content_type="application/json")


def put(program: Program, code: str, body: dict[str, Any]) -> TestResponse:
    """Put a code, as if it had been made long before the notices of these tests."""
    made = program.web.put(f"/api/payment-codes/{code}", json=body, headers=program.headers)
    PaymentCode.update(account_since=datetime(2026, 1, 1, tzinfo=UTC)).execute()
    return made


def test_a_code_is_put_read_listed_and_deleted(program: Program) -> None:
    made = put(program, "sch-1042", CODE)
    assert (made.status_code, made.json["data"]["code"]) == (200, "SCH1042")
    assert {name: made.json["data"][name] for name in ("account", "amount", "min_amount", "single_use", "used_at")} == {
        "account": "main", "amount": None, "min_amount": 1000, "single_use": False, "used_at": None,
    }  # fmt: skip
    assert program.get("/api/payment-codes/SCH1042").json["data"] == made.json["data"]
    assert program.get("/api/payment-codes").json["data"] == {"items": [made.json["data"]], "next_cursor": None}
    deleted = program.web.delete("/api/payment-codes/SCH1042", headers=program.headers)
    assert (deleted.status_code, deleted.json["data"]["deleted_id"]) == (200, "SCH1042")
    assert program.get("/api/payment-codes/SCH1042").json["error"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("code", "body", "error"),
    [
        ("TEA1", CODE, "INVALID_REQUEST"),
        ("SCH1", {"min_amount": 5}, "INVALID_REQUEST"),
        ("SCH1", CODE | {"amount": 0}, "INVALID_AMOUNT"),
        ("SCH1", CODE | {"amount": 5}, "INVALID_REQUEST"),
        ("SCH1", CODE | {"account": "savings"}, "INVALID_REQUEST"),
    ],
)
def test_a_code_that_says_something_wrong_is_refused(
    program: Program, code: str, body: dict[str, Any], error: str
) -> None:
    refused = put(program, code, body)
    assert (refused.status_code, refused.json["error"]) == (400, error)


def test_a_signed_notice_is_booked_once_and_a_check_is_not_signed(program: Program, till: Till) -> None:
    put(program, "SCH1042", CODE)
    checked = till.check({"code": "SCH1042", "amount": 999}).json["data"]
    assert (checked["accepted"], checked["message"]) == (False, "This code takes at least UGX 1,000.")
    assert till.check({"code": "SCH1042"}).json["data"]["accepted"] is True
    booked = till.notify(NOTICE)
    assert (booked.status_code, booked.json["data"]["status"]) == (200, "booked")
    assert till.notify(NOTICE, seconds=200).json == booked.json
    record = program.get(f"/api/transactions/{booked.json['data']['transaction_id']}").json["data"]
    assert (record["origin"], record["reference"], record["amount"]) == ("payer", "in/R-77", 5000)
    assert till.notify(NOTICE | {"provider_transaction_id": "R-78", "code": ""}).json["data"] == {
        "transaction_id": None, "status": "held",
    }  # fmt: skip
    assert till.notify(NOTICE | {"provider_transaction_id": "R-79", "amount": 2_000_000}).json["data"]["transaction_id"]


def test_a_notice_with_a_wrong_old_or_missing_signature_is_refused(program: Program, till: Till) -> None:
    put(program, "SCH1042", CODE)
    for refused in (
        till.notify(NOTICE, seconds=-301),
        till.notify(NOTICE, seconds=301),
        till.notify(NOTICE, secret="whsec_c29tZSBvdGhlciBzZWNyZXQ="),
        till.send(json.dumps(NOTICE), {}),
        till.send(json.dumps(NOTICE), {"webhook-id": "1", "webhook-timestamp": "now", "webhook-signature": "v1,"}),
    ):
        assert (refused.status_code, refused.json["error"]) == (401, "INVALID_CREDENTIALS")
    assert program.get("/api/transactions").json["data"]["items"] == []


def test_an_unknown_path_does_not_exist(till: Till, web: FlaskClient) -> None:
    for path in ("/callbacks/sandbox/incoming/guess", till.paths.path.replace("sandbox", "mtn")):
        for call in ("check", "notify"):
            assert web.post(f"{path}/{call}", json={"code": "SCH1042"}).status_code == 404


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"amount": "1e3"}, "INVALID_AMOUNT"),
        ({"amount": None}, "INVALID_AMOUNT"),
        ({"provider_transaction_id": ""}, "INVALID_REQUEST"),
        ({"provider_transaction_id": "- \u200b"}, "INVALID_REQUEST"),
        ({"provider_transaction_id": None}, "INVALID_REQUEST"),
    ],
)
def test_a_signed_notice_without_receipt_or_amount_is_refused(till: Till, change: dict[str, Any], error: str) -> None:
    refused = till.notify(NOTICE | change)
    assert (refused.status_code, refused.json["error"]) == (400, error)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"phone_number": "0772123456"}, "booked"),
        ({"phone_number": "25677****56"}, "booked"),
        ({"phone_number": "a9993e364706816aba3e25717850c26c9cd0d89d"}, "booked"),
        ({"phone_number": "+254712345678"}, "booked"),
        ({"phone_number": ""}, "booked"),
        ({"phone_number": None}, "booked"),
        ({"phone_number": 256772123456}, "booked"),
        ({"phone_number": ["+256772123456"]}, "booked"),
        ({"code": None}, "held"),
        ({"code": 1042}, "held"),
        ({"code": {"is": "SCH1042"}}, "held"),
        ({"code": "x" * 5000}, "held"),
        ({"name": "A" * 5000}, "booked"),
        ({"name": 7}, "booked"),
        ({"at": "2026-11-20 09:05:10"}, "booked"),
        ({"at": None}, "booked"),
        ({"at": "yesterday"}, "booked"),
        ({"at": 1700000000}, "booked"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "booked"),
        ({"at": "2999-01-01T00:00:00Z"}, "held"),
        ({"provider_transaction_id": 31000000041}, "booked"),
        ({"provider_transaction_id": "R" * 200}, "booked"),
        ({"provider_transaction_id": "R\t7"}, "booked"),
        ({"name": "A\x00\ud800B"}, "booked"),
        ({"provider_transaction_id": "R\x007"}, "booked"),
        ({"code": "SCH\x001042"}, "booked"),
        ({"colour": "\udc00"}, "booked"),
        ({"colour": "red", "channel": {"deep": [1]}}, "booked"),
    ],
)
def test_a_signed_notice_is_never_turned_away_for_a_field(
    program: Program, till: Till, change: dict[str, Any], status: str
) -> None:
    put(program, "SCH1042", CODE)
    answer = till.notify(NOTICE | change)
    assert (answer.status_code, answer.json["data"]["status"]) == (200, status), answer.json
    assert till.notify(NOTICE | change).json["data"] == answer.json["data"]


@pytest.mark.parametrize("name", ["code", "phone_number", "name", "at"])
def test_a_field_of_a_signed_notice_may_be_missing(program: Program, till: Till, name: str) -> None:
    put(program, "SCH1042", CODE)
    notice = {key: value for key, value in NOTICE.items() if key != name}
    answer = till.notify(notice)
    assert (answer.status_code, answer.json["data"]["status"]) == (200, "held" if name == "code" else "booked")


def test_a_time_without_an_offset_is_that_of_kampala(program: Program, till: Till) -> None:
    put(program, "SCH1042", CODE)
    till.notify(NOTICE | {"at": "2026-11-20 09:05:10"})
    assert Movement.get().at == datetime(2026, 11, 20, 6, 5, 10, tzinfo=UTC)
