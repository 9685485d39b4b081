"""MTN's answers, good and bad, each with what it proves about a payment."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version

import pytest

from tests.outbound.strange_server import StrangeServer
from tests.providers.provider_server import HANG_UP, SILENCE, TOKEN, ProviderServer, said
from ussd_server.outbound.transport import Transport
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http.connection import Breaker
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, Provider, ProviderAnswer, Registration
from ussd_server.providers.mtn.adapter import MTN_SCHEDULE, MtnAccess, MtnProduct, MtnProvider

REFERENCE = "0b3c8a50-9a44-4c1e-8a44-0d5b6a3f9f10"
PAYMENT = PaymentOrder("t-1", REFERENCE, Direction.COLLECTION, "+256772123456", 500_000, "UGX", note="ACME's order #12")
PAYOUT = replace(PAYMENT, direction=Direction.DISBURSEMENT)
REFUND = replace(
    PAYMENT, direction=Direction.REFUND, original_provider_reference="11111111-2222-4333-8444-555555555555"
)
ACCESS = MtnAccess(
    base_url="",
    target_environment="mtnuganda",
    collection=MtnProduct("key-c", "user-c", "secret-c"),
    disbursement=MtnProduct("key-d", "user-d", "secret-d"),
    callback_url="https://hooks.example.com/callbacks/mtn/x",
)
LONG_SECONDS = 20.0
SHORT_SECONDS = 0.4


@contextmanager
def mtn(
    answers: dict[str, list[bytes]], access: MtnAccess = ACCESS, breaker: Breaker | None = None
) -> Iterator[tuple[Provider, ProviderServer]]:
    server = ProviderServer(
        {"POST /collection/token/": [said("200 OK", TOKEN)], "POST /disbursement/token/": [said("200 OK", TOKEN)]}
        | answers
    )
    transport = Transport()
    with StrangeServer(server) as listener:
        yield MtnProvider(replace(access, base_url=listener.url), transport, breaker=breaker), server
        transport.close()


def ask(*replies: bytes, payment: PaymentOrder = PAYMENT, timeout_seconds: float = LONG_SECONDS) -> ProviderAnswer:
    with mtn({"POST /": list(replies)}) as (provider, _):
        return provider.send(payment, timeout_seconds)


def enquire(*replies: bytes, payment: PaymentOrder = PAYMENT, timeout_seconds: float = LONG_SECONDS) -> ProviderAnswer:
    with mtn({"GET /": list(replies)}) as (provider, _):
        return provider.query_status(payment, timeout_seconds)


def error(status: str, code: str) -> bytes:
    return said(status, {"code": code, "message": "Refused."})


def status(word: object, **others: object) -> bytes:
    body: dict[str, object] = {
        "amount": "5000",
        "currency": "UGX",
        "financialTransactionId": "23503452",
        "externalId": REFERENCE,
        "payer": {"partyIdType": "MSISDN", "partyId": "256772123456"},
        "status": word,
    }
    return said("200 OK", {name: value for name, value in (body | others).items() if value is not None})


REPLIES = [
    ("accepted", said("202 Accepted"), Outcome.PENDING, None),
    ("a bad request", said("400 Bad Request"), Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("a forbidden address", error("403 Forbidden", "FORBIDDEN"), Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("a used quota", said("403 Quota", {"statusCode": 403, "message": "Out of call volume quota. Quota will be "
     "replenished in 00:12:00."}), Outcome.NOT_SENT, None),
    ("a permanent 500", error("500 Error", "PAYER_NOT_FOUND"), Outcome.FAILED, FailureCode.PAYER_NOT_FOUND),
    ("another permanent 500", error("500 Error", "INVALID_CURRENCY"), Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("a permanent 500 in lower case", error("500 Error", "not_allowed"), Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("a 500 that may have worked", error("500 Error", "INTERNAL_PROCESSING_ERROR"), Outcome.UNKNOWN, None),
    ("a 500 with a new word", error("500 Error", "SOMETHING_NEW"), Outcome.UNKNOWN, None),
    ("a 500 that is a list", said("500 Error", ["PAYER_NOT_FOUND"]), Outcome.UNKNOWN, None),
    ("a 500 whose code is an object", said("500 Error", {"code": {"a": 1}}), Outcome.UNKNOWN, None),
    ("unavailable", error("503 Unavailable", "SERVICE_UNAVAILABLE"), Outcome.UNKNOWN, None),
    ("a gateway's page", said("502 Bad Gateway", b"<html>", "text/html"), Outcome.UNKNOWN, None),
    ("a bare 500", said("500 Error"), Outcome.UNKNOWN, None),
    ("a lost path", said("404 Not Found", {"statusCode": 404}), Outcome.UNKNOWN, None),
    ("a redirect", said("302 Found"), Outcome.UNKNOWN, None),
    ("throttled", said("429 Too Many"), Outcome.UNKNOWN, None),
    ("another good status", said("200 OK", {"status": "SUCCESSFUL"}), Outcome.UNKNOWN, None),
    ("hung up", HANG_UP, Outcome.UNKNOWN, None),
    ("garbage", b"\x00\x01\x02\r\n\r\n", Outcome.UNKNOWN, None),
    ("refused at the door twice", said("401 Unauthorized"), Outcome.NOT_SENT, None),
]  # fmt: skip

ENQUIRED = [
    ("paid", status("SUCCESSFUL"), Outcome.SUCCEEDED, None),
    ("paid with a numeric id", status("SUCCESSFUL", financialTransactionId=7), Outcome.SUCCEEDED, None),
    ("paid without an id", status("SUCCESSFUL", financialTransactionId=None), Outcome.SUCCEEDED, None),
    ("paid without an external id", status("SUCCESSFUL", externalId=None), Outcome.SUCCEEDED, None),
    ("paid for somebody else", status("SUCCESSFUL", externalId="other"), Outcome.UNKNOWN, None),
    ("paid by somebody else", status("SUCCESSFUL", payer={"partyId": "256772999999"}), Outcome.UNKNOWN, None),
    ("paid in other money", status("SUCCESSFUL", currency="EUR"), Outcome.UNKNOWN, None),
    ("paid in no money", status("SUCCESSFUL", currency=None), Outcome.UNKNOWN, None),
    ("paid, the amount as a number", status("SUCCESSFUL", amount=5000), Outcome.SUCCEEDED, None),
    ("paid, the amount with cents", status("SUCCESSFUL", amount="5000.00"), Outcome.SUCCEEDED, None),
    ("paid nobody knows how much", status("SUCCESSFUL", amount="5,000"), Outcome.UNKNOWN, None),
    ("paid without an amount", status("SUCCESSFUL", amount=None), Outcome.UNKNOWN, None),
    ("failed without an amount", status("FAILED", amount=None, currency=None, reason="EXPIRED"),
     Outcome.FAILED, FailureCode.PAYER_TIMEOUT),
    ("failed in other money", status("FAILED", currency="EUR"), Outcome.UNKNOWN, None),
    ("failed but decided later", status("FAILED", reason="PAYER_DELAYED"), Outcome.PENDING, None),
    ("paid with a status in lower case", status("successful"), Outcome.UNKNOWN, None),
    ("waiting", status("PENDING"), Outcome.PENDING, None),
    ("failed with a word", status("FAILED", reason="EXPIRED"), Outcome.FAILED, FailureCode.PAYER_TIMEOUT),
    ("failed with an object", status("FAILED", reason={"code": "APPROVAL_REJECTED", "message": "No."}),
     Outcome.FAILED, FailureCode.PAYER_DECLINED),
    ("failed with a message alone", status("FAILED", reason={"message": "NOT_ENOUGH_FUNDS"}),
     Outcome.FAILED, FailureCode.INSUFFICIENT_BALANCE),
    ("failed without a reason", status("FAILED"), Outcome.FAILED, FailureCode.PROVIDER_ERROR),
    ("failed with a new word", status("FAILED", reason="SOMETHING_NEW"), Outcome.FAILED, FailureCode.PROVIDER_ERROR),
    ("failed with a list", status("FAILED", reason=["EXPIRED"]), Outcome.FAILED, FailureCode.PROVIDER_ERROR),
    ("failed but going on", status("FAILED", reason="ONGOING"), Outcome.PENDING, None),
    ("failed for somebody else", status("FAILED", externalId="other"), Outcome.UNKNOWN, None),
    ("a new status", status("CANCELLED"), Outcome.UNKNOWN, None),
    ("a status that is an object", status({"a": 1}), Outcome.UNKNOWN, None),
    ("no status", status(None), Outcome.UNKNOWN, None),
    ("an empty 200", said("200 OK"), Outcome.UNKNOWN, None),
    ("an endless number", said("200 OK", b'{"status":"FAILED","currency":"UGX","amount":' + b"9" * 6000 + b"}"),
     Outcome.UNKNOWN, None),
    ("a deep answer", said("200 OK", b'{"status":' + b"[" * 20000), Outcome.UNKNOWN, None),
    ("not found", error("404 Not Found", "RESOURCE_NOT_FOUND"), Outcome.NOT_FOUND, None),
    ("a lost path", said("404 Not Found", {"statusCode": 404, "message": "Resource not found"}), Outcome.UNKNOWN, None),
    ("a bare 404", said("404 Not Found"), Outcome.UNKNOWN, None),
    ("a permanent 500", error("500 Error", "NOT_ALLOWED"), Outcome.UNKNOWN, None),
    ("a 400", error("400 Bad Request", "PAYER_NOT_FOUND"), Outcome.UNKNOWN, None),
    ("forbidden", said("403 Forbidden"), Outcome.UNKNOWN, None),
    ("refused at the door", said("401 Unauthorized"), Outcome.UNKNOWN, None),
    ("hung up", HANG_UP, Outcome.UNKNOWN, None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "outcome", "failure"), [row[1:] for row in REPLIES], ids=[row[0] for row in REPLIES])
def test_the_answer_to_a_request_proves_no_more_than_it_says(
    reply: bytes, outcome: Outcome, failure: FailureCode | None
) -> None:
    got = ask(reply)
    assert (got.outcome, got.failure) == (outcome, failure)


@pytest.mark.parametrize(
    ("reply", "outcome", "failure"), [row[1:] for row in ENQUIRED], ids=[row[0] for row in ENQUIRED]
)
def test_the_answer_to_an_enquiry_proves_no_more_than_it_says(
    reply: bytes, outcome: Outcome, failure: FailureCode | None
) -> None:
    got = enquire(reply)
    assert (got.outcome, got.failure) == (outcome, failure)


def test_silence_proves_nothing() -> None:
    assert ask(SILENCE, timeout_seconds=SHORT_SECONDS).outcome is Outcome.UNKNOWN
    assert enquire(SILENCE, timeout_seconds=SHORT_SECONDS).outcome is Outcome.UNKNOWN


def test_half_an_answer_proves_nothing() -> None:
    assert enquire(status("SUCCESSFUL")[:-1], timeout_seconds=SHORT_SECONDS).outcome is Outcome.UNKNOWN


def test_a_provider_that_cannot_be_reached_was_not_sent_anything() -> None:
    provider = MtnProvider(replace(ACCESS, base_url="http://127.0.0.1:1"), Transport())
    assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.NOT_SENT
    assert provider.query_status(PAYMENT, LONG_SECONDS).outcome is Outcome.UNKNOWN


def test_a_success_carries_mtns_id_and_what_was_moved() -> None:
    got = enquire(status("SUCCESSFUL", amount="4000"))
    assert (got.provider_transaction_id, got.amount_cents) == ("23503452", 400_000)


def test_an_unclear_answer_keeps_what_mtn_said_and_is_no_outage() -> None:
    got = enquire(status("SUCCESSFUL", amount=None))
    assert (got.outcome, got.is_unclear, got.reason) == (Outcome.UNKNOWN, True, "HTTP 200 SUCCESSFUL no amount")
    assert enquire(said("404 Not Found", {"code": "LOST", "message": "No."})).reason == "HTTP 404: LOST No."
    for silent in (HANG_UP, said("503 Away"), said("401 Unauthorized")):
        assert not enquire(silent).is_unclear


def test_a_refused_token_is_told_with_its_reason_and_without_our_secrets() -> None:
    reason = {"error": "Invalid or missing X-Target-Environment header", "key": "key-c", "secret": "secret-c"}
    with mtn({"POST /collection/token/": [said("400 Bad Request", reason)]}) as (provider, _):
        got = provider.send(PAYMENT, LONG_SECONDS)
    told = "HTTP 400: Invalid or missing X-Target-Environment header *** ***"
    assert (got.outcome, got.reason) == (Outcome.NOT_SENT, told)


def test_the_page_of_a_gateway_is_told_without_its_tags() -> None:
    page = b"<html><head><title>403 Forbidden</title></head><body>Microsoft-Azure-Application-Gateway/v2</body></html>"
    got = ask(said("403 Forbidden", page, "text/html"))
    assert got.reason == "HTTP 403: 403 Forbidden Microsoft-Azure-Application-Gateway/v2"


def test_no_more_than_two_hundred_characters_of_a_refusal_are_told() -> None:
    got = ask(error("400 Bad Request", "a " * 400))
    assert len(got.reason) == len("HTTP 400: ") + 200


@pytest.mark.parametrize("party", ["0772123456", "+256772123456", "FRI:256772123456/MSISDN", "fri:0772123456/msisdn"])
def test_another_form_of_the_same_number_is_the_same_number(party: str) -> None:
    assert enquire(status("SUCCESSFUL", payer={"partyId": party})).outcome is Outcome.SUCCEEDED


def test_our_float_that_is_short_is_not_the_payers_fault() -> None:
    reply = status("FAILED", reason="NOT_ENOUGH_FUNDS", payer=None)
    assert enquire(reply, payment=PAYOUT).failure is FailureCode.CLIENT_FLOAT_LOW


def test_a_request_to_pay_is_written_as_mtn_wants_it() -> None:
    with mtn({"POST /": [said("202 Accepted")]}) as (provider, server):
        provider.send(PAYMENT, LONG_SECONDS)
    token, request = server.requests
    assert token.startswith(b"POST /collection/token/ HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Basic " + base64.b64encode(b"user-c:secret-c") in token
    assert token.endswith(b"\r\n\r\n")
    assert b"\r\nX-Target-Environment: mtnuganda\r\n" in token
    assert f"\r\nUser-Agent: ussd-server/{version('ussd-server')}\r\n".encode() in token
    head, body = request.split(b"\r\n\r\n")
    assert head.startswith(b"POST /collection/v1_0/requesttopay HTTP/1.1\r\n")
    for line in (
        b"Authorization: Bearer t-1",
        b"X-Reference-Id: " + REFERENCE.encode(),
        b"X-Target-Environment: mtnuganda",
        b"Ocp-Apim-Subscription-Key: key-c",
        b"X-Callback-Url: https://hooks.example.com/callbacks/mtn/x",
        b"Content-Type: application/json",
    ):
        assert line in head.split(b"\r\n")
    assert json.loads(body) == {
        "amount": "5000",
        "currency": "UGX",
        "externalId": REFERENCE,
        "payer": {"partyIdType": "MSISDN", "partyId": "256772123456"},
        "payerMessage": "ACME s order 12",
        "payeeNote": "ACME s order 12",
    }


@pytest.mark.parametrize(
    ("payment", "path", "field", "value"),
    [
        (PAYOUT, b"POST /disbursement/v1_0/transfer ", "payee", {"partyIdType": "MSISDN", "partyId": "256772123456"}),
        (REFUND, b"POST /disbursement/v1_0/refund ", "referenceIdToRefund", "11111111-2222-4333-8444-555555555555"),
        (
            replace(REFUND, original_provider_reference=None),
            b"POST /disbursement/v1_0/transfer ",
            "payee",
            {"partyIdType": "MSISDN", "partyId": "256772123456"},
        ),
    ],
)
def test_money_that_goes_out_uses_its_own_product_and_field(
    payment: PaymentOrder, path: bytes, field: str, value: object
) -> None:
    with mtn({"POST /": [said("202 Accepted")]}) as (provider, server):
        assert provider.send(payment, LONG_SECONDS).outcome is Outcome.PENDING
    token, request = server.requests
    assert token.startswith(b"POST /disbursement/token/ ")
    assert request.startswith(path)
    assert b"Ocp-Apim-Subscription-Key: key-d\r\n" in request
    assert json.loads(request.split(b"\r\n\r\n")[1])[field] == value


def test_the_sandbox_gets_no_callback_url() -> None:
    access = replace(ACCESS, target_environment="sandbox", currency="EUR")
    with mtn({"POST /": [said("202 Accepted")]}, access) as (provider, server):
        provider.send(PAYMENT, LONG_SECONDS)
    assert b"x-callback-url" not in server.requests[1].lower()


def test_a_reference_that_is_used_already_is_enquired_after() -> None:
    used = error("409 Conflict", "RESOURCE_ALREADY_EXIST")
    for paid, outcome in (
        (status("SUCCESSFUL"), Outcome.SUCCEEDED),
        (status("FAILED", reason="EXPIRED"), Outcome.FAILED),
        (status("PENDING"), Outcome.PENDING),
        (error("404 Not Found", "RESOURCE_NOT_FOUND"), Outcome.PENDING),
        (HANG_UP, Outcome.PENDING),
    ):
        with mtn({"POST /": [used], "GET /": [paid]}) as (provider, server):
            assert provider.send(PAYMENT, LONG_SECONDS).outcome is outcome
        assert server.requests[-1].startswith(b"GET /collection/v1_0/requesttopay/" + REFERENCE.encode())


def test_an_expired_token_is_renewed_once_and_the_payment_asked_again() -> None:
    with mtn({"POST /collection/v1_0": [said("401 Unauthorized"), said("202 Accepted")]}) as (provider, server):
        assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.PENDING
        provider.send(PAYMENT, LONG_SECONDS)
    assert len(server.to("POST /collection/token/")) == 2
    assert len(server.to("POST /collection/v1_0/requesttopay")) == 3


@pytest.mark.parametrize("reply", [said("401 Unauthorized"), said("500 Error"), said("200 OK", b"{"), HANG_UP])
def test_without_a_token_nothing_is_sent(reply: bytes) -> None:
    with mtn({"POST /collection/token/": [reply], "POST /collection/v1_0": [said("202 Accepted")]}) as (
        provider,
        server,
    ):
        assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.NOT_SENT
    assert server.to("POST /collection/v1_0") == []


@pytest.mark.parametrize("amount_cents", [500_050, 499_99, 1, 49_900, 500_000_100])
def test_an_amount_that_mtn_does_not_move_is_refused_here(amount_cents: int) -> None:
    with mtn({}) as (provider, server):
        got = provider.send(replace(PAYMENT, amount_cents=amount_cents), LONG_SECONDS)
    assert (got.outcome, got.failure) == (Outcome.FAILED, FailureCode.AMOUNT_OUT_OF_BOUNDS)
    assert server.requests == []


def test_a_product_that_is_not_set_up_is_refused_here() -> None:
    with mtn({}, replace(ACCESS, disbursement=None)) as (provider, server):
        assert provider.send(PAYOUT, LONG_SECONDS).failure is FailureCode.PROVIDER_CONFIG
        assert provider.query_status(PAYOUT, LONG_SECONDS).outcome is Outcome.UNKNOWN
        assert provider.balance_cents(Direction.DISBURSEMENT, LONG_SECONDS) is None
    assert server.requests == []


def test_an_unavailable_provider_is_not_called_and_shown_as_unavailable() -> None:
    breaker = Breaker(failures_to_open=3, rest_seconds=600)
    with mtn({"POST /collection/v1_0": [said("503 Unavailable")]}, breaker=breaker) as (provider, server):
        assert provider.available
        assert [provider.send(PAYMENT, LONG_SECONDS).outcome for _ in range(3)] == [Outcome.UNKNOWN] * 3
        assert not provider.available
        assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.NOT_SENT
    assert len(server.to("POST /collection/v1_0")) == 3


def test_a_provider_that_refuses_our_credentials_is_shown_as_unavailable() -> None:
    breaker = Breaker(failures_to_open=3, rest_seconds=600)
    with mtn({"POST /collection/token/": [said("401 Unauthorized")]}, breaker=breaker) as (provider, _):
        assert [provider.send(PAYMENT, LONG_SECONDS).outcome for _ in range(3)] == [Outcome.NOT_SENT] * 3
        assert not provider.available


def test_refused_tokens_and_our_configuration_are_counted_until_access_is_granted() -> None:
    breaker = Breaker(failures_to_open=50)
    refused = said("401 Unauthorized", {"message": "Wrong key."})
    tokens = {"POST /collection/token/": [refused, refused, said("200 OK", TOKEN)]}
    replies = [error("500 Error", "NOT_ALLOWED"), error("500 Error", "PAYER_NOT_FOUND"), said("202 Accepted")]
    with mtn(tokens | {"POST /collection/v1_0": replies}, breaker=breaker) as (provider, _):
        counts = [(provider.send(PAYMENT, LONG_SECONDS).outcome, provider.refused_in_a_row) for _ in range(5)]
    outcomes = [Outcome.NOT_SENT, Outcome.NOT_SENT, Outcome.FAILED, Outcome.FAILED, Outcome.PENDING]
    assert counts == list(zip(outcomes, [1, 2, 1, 1, 0], strict=True))


def test_refusals_of_payments_do_not_make_the_provider_seem_unavailable() -> None:
    with mtn({"POST /collection/v1_0": [error("500 Error", "PAYER_NOT_FOUND")]}) as (provider, _):
        for _ in range(10):
            assert provider.send(PAYMENT, LONG_SECONDS).failure is FailureCode.PAYER_NOT_FOUND
        assert provider.available


@pytest.mark.parametrize(
    ("reply", "cents"),
    [
        (said("200 OK", {"availableBalance": "1000.50", "currency": "UGX"}), 100_050),
        (said("200 OK", {"availableBalance": "1000", "currency": "EUR"}), None),
        (said("200 OK", {"availableBalance": None, "currency": "UGX"}), None),
        (said("500 Error"), None),
        (HANG_UP, None),
    ],
)
def test_the_float_is_known_or_not(reply: bytes, cents: int | None) -> None:
    with mtn({"GET /disbursement/v1_0/account/balance": [reply]}) as (provider, _):
        assert provider.balance_cents(Direction.DISBURSEMENT, LONG_SECONDS) == cents


@pytest.mark.parametrize(
    ("reply", "name", "is_registered"),
    [
        (said("200 OK", {"given_name": "Grace", "family_name": "Auma"}), "Grace Auma", True),
        (said("200 OK", {"given_name": "Grace", "family_name": 5}), "Grace", True),
        (said("200 OK", {}), None, None),
        (said("404 Not Found"), None, None),
        (said("404 Not Found", {"code": "RESOURCE_NOT_FOUND"}), None, False),
        (said("500 Internal Server Error", {"code": "RESOURCE_NOT_FOUND"}), None, None),
    ],
)
def test_a_subscriber_is_known_or_not(reply: bytes, name: str | None, is_registered: bool | None) -> None:
    path = "GET /collection/v1_0/accountholder/msisdn/256772123456/basicuserinfo"
    with mtn({path: [reply]}) as (provider, _):
        assert provider.look_up(PAYMENT.phone_number, LONG_SECONDS) == Registration(name, is_registered)


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        (status("SUCCESSFUL").split(b"\r\n\r\n")[1], REFERENCE),
        (json.dumps({"externalId": REFERENCE.upper()}).encode(), REFERENCE),
        (b'{"externalId": 5}', None),
        (b'{"externalId": "order 5"}', None),
        (b"{}", None),
        (b"[]", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
    ids=lambda body: str(body)[:20],
)
def test_a_callback_is_read_for_its_reference_only(body: bytes, reference: str | None) -> None:
    with mtn({}) as (provider, _):
        assert provider.reference_in(body) == reference


def test_no_secret_is_shown_with_the_settings() -> None:
    assert "secret-c" not in repr(ACCESS)
    assert "key-c" not in repr(ACCESS)


def test_mtn_is_first_asked_after_about_five_seconds() -> None:
    assert MTN_SCHEDULE.delays[0] == 5
    assert MTN_SCHEDULE.not_found_means_lost_after >= 60
