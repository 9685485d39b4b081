"""MTN's payments and accounts: bodies, conflicts, magic numbers, approval, refunds and balances."""

import uuid
from typing import Any

import pytest

from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from simulators.switches import Switches
from tests.simulators.callers import MtnCaller


def test_a_status_repeats_the_request_and_has_the_providers_number(mtn: MtnCaller) -> None:
    reference = mtn.pay()
    response = mtn.status(reference)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    body = response.json()
    assert body.pop("financialTransactionId").isdigit()
    assert body == mtn.body() | {"status": "SUCCESSFUL"}


def test_every_refund_scenario_has_its_outcome(mtn: MtnCaller) -> None:
    outcomes = {number: mtn.outcome(mtn.pay("refund", party=str(number)), "refund") for number in range(1, 14)}
    assert outcomes == {
        1: ("FAILED", "RESOURCE_NOT_FOUND"),
        2: ("FAILED", "INTERNAL_PROCESSING_ERROR"),
        3: ("FAILED", "APPROVAL_REJECTED"),
        4: ("FAILED", "EXPIRED"),
        5: ("PENDING", ""),
        6: ("PENDING", ""),
        7: ("FAILED", "NOT_ALLOWED"),
        8: ("FAILED", "NOT_ALLOWED_TARGET_ENVIRONMENT"),
        9: ("FAILED", "INVALID_CALLBACK_URL_HOST"),
        10: ("FAILED", "INVALID_CURRENCY"),
        11: ("FAILED", "INTERNAL_PROCESSING_ERROR"),
        12: ("FAILED", "SERVICE_UNAVAILABLE"),
        13: ("FAILED", "COULD_NOT_PERFORM_TRANSACTION"),
    }


def test_amounts_select_an_outcome_only_while_the_switch_is_on(mtn: MtnCaller) -> None:
    assert mtn.outcome(mtn.pay(amount="2000")) == ("SUCCESSFUL", "")
    mtn.switch(amount_scenarios=True)
    references = {amount: mtn.pay(amount=str(amount)) for amount in range(1000, 8000, 1000)}
    assert [mtn.outcome(reference)[0] for reference in references.values()] == [
        "SUCCESSFUL",
        "FAILED",
        "PENDING",
        "PENDING",
        "PENDING",
        "PENDING",
        "FAILED",
    ]
    assert mtn.outcome(references[7000])[1] == "TRANSFER_TYPE_UNKNOWN"
    mtn.advance(31)
    later = [mtn.outcome(references[amount])[0] for amount in (3000, 4000, 5000, 6000)]
    assert later == ["SUCCESSFUL", "FAILED", "PENDING", "PENDING"]


def test_the_switch_turns_magic_numbers_into_500_that_records_nothing(mtn: MtnCaller) -> None:
    mtn.switch(refuse_at_once=True)
    reference = str(uuid.uuid4())
    refused = mtn.submit(reference=reference, party="46733123455")
    assert (refused.status_code, refused.json()["code"]) == (500, "PAYER_NOT_FOUND")
    assert mtn.submit(party="46733123462").status_code == 503
    assert mtn.status(reference).status_code == 404


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"amount": 1500}, 400),
        ({"amount": "-5"}, 400),
        ({"amount": "0"}, 400),
        ({"amount": "1_000"}, 400),
        ({"amount": "1500\n"}, 400),
        ({"amount": "١٥٠٠"}, 400),
        ({"amount": None}, 400),
        ({"amount": "10.50"}, 202),
        ({"payerMessage": "Mary's shop"}, 400),
        ({"payeeNote": "50% & more"}, 400),
        ({"payerMessage": "x" * 128}, 202),
        ({"payerMessage": "x" * 129}, 400),
        ({"payeeNote": "x" * 161}, 400),
        ({"externalId": 12}, 400),
        ({"payer": None}, 400),
        ({"payer": {"partyIdType": "MSISDN", "partyId": "+256772123456"}}, 400),
        ({"payer": {"partyIdType": "PHONE", "partyId": "256772123456"}}, 400),
        ({"payer": {"partyIdType": "EMAIL", "partyId": "mary@example.com"}}, 202),
    ],
)
def test_a_malformed_payment_is_400(mtn: MtnCaller, changes: dict[str, Any], status: int) -> None:
    assert mtn.submit(**changes).status_code == status


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff", b"[" * 30000])
def test_a_body_that_is_no_object_is_400(mtn: MtnCaller, body: bytes) -> None:
    headers = mtn.headers("collection", str(uuid.uuid4())) | {"Content-Type": "application/json"}
    assert mtn.http.post("/collection/v1_0/requesttopay", headers=headers, content=body).status_code == 400


def test_another_currency_is_a_permanent_500(mtn: MtnCaller) -> None:
    refused = mtn.submit(currency="UGX")
    assert (refused.status_code, refused.json()["code"]) == (500, "INVALID_CURRENCY")


def test_shillings_are_whole() -> None:
    with run(MtnMomo(MtnSettings(currency="UGX"))) as base_url:
        caller = MtnCaller(base_url, "UGX").provision()
        with caller:
            assert caller.submit(amount="10.50").status_code == 400
            assert caller.submit(amount="10.00").status_code == 202


def test_an_unknown_reference_is_404_and_so_is_one_of_another_kind(mtn: MtnCaller) -> None:
    unknown = mtn.status(str(uuid.uuid4()))
    assert (unknown.status_code, unknown.json()["code"]) == (404, "RESOURCE_NOT_FOUND")
    assert mtn.status(mtn.pay(), "transfer").status_code == 404


def test_a_status_request_takes_null_and_no_other_body(mtn: MtnCaller) -> None:
    path = f"/collection/v1_0/requesttopay/{mtn.pay()}"
    headers = mtn.headers("collection") | {"Content-Type": "application/json"}
    responses = [mtn.http.request("GET", path, headers=headers, content=body) for body in (b"null", b"{}", b'{"a": 1}')]
    assert [response.status_code for response in responses] == [200, 200, 400]


def test_a_payer_approves_after_the_delay_and_the_request_expires_after_five_minutes(mtn: MtnCaller) -> None:
    mtn.switch(approve_delay_seconds=20)
    approved = mtn.pay()
    mtn.switch(approve_delay_seconds=3600)
    unapproved = mtn.pay()
    assert mtn.outcome(approved) == ("PENDING", "")
    mtn.advance(21)
    assert mtn.outcome(approved) == ("SUCCESSFUL", "")
    mtn.advance(270)
    assert mtn.outcome(unapproved) == ("PENDING", "")
    mtn.advance(10)
    assert mtn.outcome(unapproved) == ("FAILED", "EXPIRED")


def test_a_refund_returns_no_more_than_was_paid(mtn: MtnCaller) -> None:
    paid, failed = mtn.pay(amount="1000"), mtn.pay(party="46733123450")
    parts = [mtn.outcome(mtn.pay("refund", party=paid, amount=amount), "refund") for amount in ("600", "500", "400")]
    assert parts == [("SUCCESSFUL", ""), ("FAILED", "NOT_ALLOWED"), ("SUCCESSFUL", "")]
    for other in (failed, str(uuid.uuid4())):
        assert mtn.outcome(mtn.pay("refund", party=other), "refund") == ("FAILED", "RESOURCE_NOT_FOUND")


def test_balances_follow_the_payments_and_a_short_float_refuses_transfers(mtn: MtnCaller) -> None:
    mtn.switch(opening_balance=1000)
    mtn.pay(amount="1500.50")
    mtn.pay(amount="70", party="46733123450")
    assert mtn.account("account/balance").json() == {"availableBalance": "1500.50", "currency": "EUR"}
    mtn.pay("transfer", amount="700")
    assert mtn.outcome(mtn.pay("transfer", amount="301"), "transfer") == ("FAILED", "NOT_ENOUGH_FUNDS")
    assert mtn.account("account/balance", "disbursement").json()["availableBalance"] == "300"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("MSISDN/256772123456", 200, {"result": True}),
        ("msisdn/256772123456", 200, {"result": True}),
        ("email/mary@example.com", 200, {"result": True}),
        ("party_code/5cecb5a7-8bd0-4f49-87b1-8eb9ecc7b7bc", 200, {"result": True}),
        ("msisdn/46733123451", 200, {"result": False}),
        ("phone/256772123456", 400, None),
        ("msisdn/+256772123456", 400, None),
        ("msisdn/46733123450", 404, "RESOURCE_NOT_FOUND"),
        ("msisdn/46733123452", 500, "NOT_ALLOWED"),
        ("msisdn/46733123453", 500, "NOT_ALLOWED_TARGET_ENVIRONMENT"),
        ("msisdn/46733123454", 500, "INTERNAL_PROCESSING_ERROR"),
        ("msisdn/46733123455", 503, "SERVICE_UNAVAILABLE"),
    ],
)
def test_an_account_holder_is_active_or_not(mtn: MtnCaller, path: str, status: int, body: Any) -> None:
    for product in ("collection", "disbursement"):
        response = mtn.account(f"accountholder/{path}/active", product)
        assert response.status_code == status
        if body is not None:
            assert response.json() == body or response.json()["code"] == body


@pytest.mark.parametrize("party_type", ["msisdn", "MSISDN"])
def test_an_account_holder_has_a_name(mtn: MtnCaller, party_type: str) -> None:
    body = mtn.account(f"accountholder/{party_type}/256772123456/basicuserinfo").json()
    assert set(body) == {"given_name", "family_name", "birthdate", "locale", "gender", "status"}
    assert mtn.account(f"accountholder/{party_type}/46733123450/basicuserinfo").status_code == 404


def test_switches_given_at_the_start_hold_after_a_reset() -> None:
    with run(MtnMomo(switches=Switches(approve_delay_seconds=5))) as base_url:
        caller = MtnCaller(base_url).provision()
        with caller:
            caller.switch(approve_delay_seconds=0)
            caller.http.post("/_control/reset")
            caller.provision()
            assert caller.outcome(caller.pay()) == ("PENDING", "")
