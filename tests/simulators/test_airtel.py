"""Airtel's tokens, pushes, signatures, disbursements, enquiries and accounts, as tables of raw requests."""

import json
import re
from typing import Any

import pytest

from tests.simulators.callers import AirtelCaller


def test_a_token_is_valid_180_seconds_which_it_states_as_text(airtel: AirtelCaller) -> None:
    response = airtel.request_token()
    body = response.json()
    assert len(body.pop("access_token")) > 20
    assert (response.status_code, body) == (200, {"expires_in": "180", "token_type": "bearer"})
    airtel.headers()
    airtel.advance(181)
    assert airtel.enquire("anything").status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"client_id": "airtel-client", "client_secret": "wrong", "grant_type": "client_credentials"}, 401),
        ({"client_id": "airtel-client", "client_secret": "airtel-secret", "grant_type": "password"}, 400),
        ({}, 400),
        ([], 400),
    ],
)
def test_a_token_is_refused(airtel: AirtelCaller, body: Any, status: int) -> None:
    assert airtel.http.post("/auth/oauth2/token", json=body).status_code == status


def test_the_response_to_a_push_confirms_the_prompt(airtel: AirtelCaller) -> None:
    response = airtel.push("txn-1")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {
        "data": {"transaction": {"id": "txn-1", "status": "SUCCESS"}},
        "status": {
            "code": "200",
            "message": "SUCCESS",
            "result_code": "ESB000010",
            "response_code": "DP00800001006",
            "success": True,
        },
    }


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"X_Country": ""}, 400, "ROUTER003"),
        ({"X_Currency": ""}, 400, "ROUTER003"),
        ({"X_Country": "KE"}, 400, "ROUTER006"),
        ({"X_Currency": "KES"}, 400, "ROUTER112"),
        ({"Authorization": "Bearer unknown"}, 403, None),
    ],
)
def test_every_header_of_a_push_is_checked(
    airtel: AirtelCaller, headers: dict[str, str], status: int, code: str | None
) -> None:
    response = airtel.post("/merchant/v1/payments/", airtel.push_body("txn-1"), **headers)
    assert response.status_code == status
    if code:
        assert response.json()["status"]["result_code"] == code
    assert airtel.book()["payments"] == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"amount": "500"}, "ESB000008"),
        ({"amount": 500.5}, "ESB000008"),
        ({"amount": 0}, "ESB000008"),
        ({"amount": True}, "ESB000008"),
        ({"amount": 10**13}, "ESB000008"),
        ({"id": ""}, "ESB000008"),
        ({"id": 7}, "ESB000008"),
        ({"msisdn": "256700123123"}, "ESB000033"),
        ({"msisdn": "0700123123"}, "ESB000033"),
        ({"msisdn": 700123123}, "ESB000033"),
        ({"msisdn": "750000033"}, "ESB000033"),
        ({"country": "KE"}, "ESB000034"),
        ({"currency": "KES"}, "ESB000035"),
    ],
)
def test_a_malformed_push_is_refused(airtel: AirtelCaller, changes: dict[str, Any], code: str) -> None:
    msisdn = changes.pop("msisdn", "700123123")
    response = airtel.post("/merchant/v1/payments/", airtel.push_body("txn-1", msisdn, **changes))
    assert (response.status_code, response.json()["status"]["result_code"]) == (400, code)
    assert response.json()["status"]["success"] is False


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"transaction": 1}'])
def test_a_push_that_is_no_object_is_refused(airtel: AirtelCaller, body: bytes) -> None:
    headers = airtel.headers(Content_Type="application/json")
    response = airtel.http.post("/merchant/v1/payments/", headers=headers, content=body)
    assert (response.status_code, response.json()["status"]["result_code"]) == (400, "ESB000008")


def test_a_signed_push_must_be_the_one_that_was_signed(airtel: AirtelCaller) -> None:
    good, forged = airtel.push_body("good-1"), airtel.push_body("forged")
    assert airtel.post_signed("/merchant/v2/payments/", good).json()["status"]["success"] is True
    more = json.dumps(airtel.push_body("forged", amount=5000)).encode()
    for response in (
        airtel.post_signed("/merchant/v2/payments/", forged, more),
        airtel.post_signed("/merchant/v2/payments/", forged, json.dumps(forged, indent=1).encode()),
        airtel.post("/merchant/v2/payments/", forged),
        airtel.post("/merchant/v2/payments/", forged, x_signature="AAAA", x_key="not base64"),
    ):
        assert response.json()["status"]["response_code"] == "DP00800001026"
    assert [payment["reference"] for payment in airtel.book()["payments"]] == ["good-1"]


def test_the_success_of_an_enquiry_is_not_that_of_the_payment(airtel: AirtelCaller) -> None:
    airtel.push("txn-1", "750000007")
    body = airtel.enquire("txn-1").json()
    assert (body["status"]["success"], body["status"]["code"]) == (True, "200")
    assert set(body["data"]["transaction"]) == {"airtel_money_id", "id", "message", "status"}
    assert body["data"]["transaction"]["status"] == "TF"


def test_a_push_waits_for_its_payer_and_expires(airtel: AirtelCaller) -> None:
    airtel.switch(approve_delay_seconds=20)
    airtel.push("approved")
    airtel.switch(approve_delay_seconds=3600)
    airtel.push("unapproved")
    assert airtel.outcome("approved") == ("TIP", "DP00800001006")
    airtel.advance(21)
    assert airtel.outcome("approved") == ("TS", "DP00800001001")
    airtel.advance(280)
    airtel.token = ""
    assert airtel.outcome("unapproved") == ("TE", "DP00800001029")


def test_enquiries_before_three_minutes_are_counted(airtel: AirtelCaller) -> None:
    airtel.push("txn-1")
    airtel.enquire("txn-1")
    airtel.advance(181)
    airtel.token = ""
    airtel.enquire("txn-1")
    assert (airtel.counted("early_enquiry", "txn-1"), airtel.counted("payment_status", "txn-1")) == (1, 2)


def test_the_response_to_a_disbursement_is_final(airtel: AirtelCaller) -> None:
    body = airtel.disburse("txn-1").json()
    transaction = body["data"]["transaction"]
    assert (transaction["id"], transaction["status"]) == ("txn-1", "TS")
    assert re.fullmatch(r"CI[0-9]{6}\.[0-9]{4}\.H[0-9]{5}", transaction["reference_id"])
    assert transaction["airtel_money_id"].startswith("disburs-")
    assert body["status"]["message"].startswith("You have sent UGX 500")
    for path in ("/standard/v1/disbursements", "/standard/v1/payments"):
        assert airtel.enquire("txn-1", path).json()["data"]["transaction"]["status"] == "TS"


@pytest.mark.parametrize(("pin", "code"), [("not base64!", "ROUTER116"), ("AAAA", "ROUTER116")])
def test_a_pin_must_be_encrypted(airtel: AirtelCaller, pin: str, code: str) -> None:
    response = airtel.disburse("txn-1", pin=pin)
    assert (response.status_code, response.json()["status"]["result_code"]) == (400, code)


def test_a_wrong_pin_is_refused_and_no_pin_is_in_the_book(airtel: AirtelCaller) -> None:
    refused = airtel.disburse("txn-1", pin=airtel.encrypt(b"9999"))
    assert refused.json()["status"]["result_code"] == "ROUTER115"
    airtel.disburse("txn-2")
    assert "1234" not in json.dumps(airtel.book("txn-2")["payments"][0]["details"])


def test_the_second_version_of_disbursements_needs_a_type_and_checks_a_signature_if_there_is_one(
    airtel: AirtelCaller,
) -> None:
    def body(name: str, **changes: str) -> dict[str, Any]:
        return {
            "payee": {"msisdn": "700160185", "currency": "UGX"},
            "reference": "wages",
            "pin": airtel.encrypt(b"1234"),
            "transaction": {"amount": 500, "id": name} | changes,
        }

    path = "/standard/v2/disbursements/"
    assert airtel.post(path, body("txn-a")).status_code == 400
    assert airtel.post(path, body("txn-b", type="B2C")).json()["data"]["transaction"]["status"] == "TS"
    assert airtel.post_signed(path, body("txn-c", type="B2B")).json()["data"]["transaction"]["status"] == "TS"
    forged = airtel.post_signed(path, body("txn-d", type="B2C"), json.dumps(body("txn-d", type="B2B")).encode())
    assert forged.json()["status"]["response_code"] == "DP00900001016"


def test_an_unsigned_refund_of_the_second_version_is_refused(airtel: AirtelCaller) -> None:
    response = airtel.post("/standard/v2/payments/refund", {"transaction": {"airtel_money_id": "x"}})
    assert response.json()["status"]["response_code"] == "DP00800001026"


def test_a_subscriber_has_a_name_a_grade_and_a_status(airtel: AirtelCaller) -> None:
    body = airtel.http.get("/standard/v1/users/700123123", headers=airtel.headers()).json()
    assert {"first_name", "last_name", "grade", "is_barred", "registration"} <= set(body["data"])
    assert airtel.http.get("/standard/v1/users/256700123123", headers=airtel.headers()).status_code == 400
    barred = airtel.http.get("/standard/v1/users/750000010", headers=airtel.headers()).json()
    assert (body["data"]["is_barred"], barred["data"]["is_barred"]) == (False, True)


def test_balances_follow_the_payments_and_a_short_float_refuses_disbursements(airtel: AirtelCaller) -> None:
    airtel.switch(opening_balance=1000)
    airtel.push("money-in", amount=700)
    airtel.disburse("money-out", amount=600)
    short = airtel.disburse("too-much", amount=401).json()
    assert (short["data"]["transaction"]["status"], short["status"]["response_code"]) == ("TF", "DP00900001007")
    balances = {
        path: airtel.http.get(f"/standard/{path}", headers=airtel.headers()).json()["data"]["balance"]
        for path in ("v1/users/balance", "v2/users/balance?type=COLL", "v2/users/balance?type=DISB")
    }
    assert list(balances.values()) == ["700", "700", "400"]
    assert airtel.http.get("/standard/v2/users/balance?type=ALL", headers=airtel.headers()).status_code == 400


def test_the_published_key_carries_its_end(airtel: AirtelCaller) -> None:
    body = airtel.http.get("/v1/rsa/encryption-keys", headers=airtel.headers()).json()
    assert set(body["data"]) == {"key_id", "key", "valid_upto"}
    assert body["status"]["response_code"] == "DP02010001001"


def test_unknown_paths_return_the_envelope(airtel: AirtelCaller) -> None:
    response = airtel.http.get("/merchant/v9/payments/")
    assert (response.status_code, response.json()["status"]["result_code"]) == (404, "ROUTER119")
