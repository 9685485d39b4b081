"""Airtel's answers, good and bad, each with what it proves about a payment."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP, PKCS1v15
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.outbound.strange_server import StrangeServer
from tests.providers.provider_server import HANG_UP, SILENCE, ProviderServer, said
from ussd_server.outbound.transport import Transport
from ussd_server.providers.airtel.access import AIRTEL_SCHEDULE, AirtelAccess
from ussd_server.providers.airtel.adapter import AirtelProvider
from ussd_server.providers.airtel.encryption import read_key
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, Provider, ProviderAnswer, Registration

Call = Callable[[bytes, PaymentOrder], ProviderAnswer]
REFERENCE = "0b3c8a50-9a44-4c1e-8a44-0d5b6a3f9f10"
PAYMENT = PaymentOrder("t-1", REFERENCE, Direction.COLLECTION, "+256700123123", 50_000, "UGX", note="ACME's order, #12")
PAYOUT = replace(PAYMENT, direction=Direction.DISBURSEMENT)
REFUND = replace(PAYMENT, direction=Direction.REFUND, original_provider_transaction_id="MP210603.1234.L06941")
ACCESS = AirtelAccess("", "our-id", "our-secret", encrypted_pin="sealed-by-the-portal", version="v1")
LONG_SECONDS = 20.0
SHORT_SECONDS = 0.4

# 1024 bits is what Airtel uses.
KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)
PUBLISHED = base64.b64encode(KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()


@contextmanager
def airtel(answers: dict[str, list[bytes]], access: AirtelAccess = ACCESS) -> Iterator[tuple[Provider, ProviderServer]]:
    token = {"access_token": "t-1", "expires_in": "180", "token_type": "bearer"}
    server = ProviderServer(
        {
            "POST /auth/oauth2/token ": [said("200 OK", token)],
            "GET /v1/rsa/encryption-keys ": [said("200 OK", {"data": {"key_id": "1", "key": PUBLISHED}})],
        }
        | answers
    )
    transport = Transport()
    with StrangeServer(server) as listener:
        yield AirtelProvider(replace(access, base_url=listener.url), transport), server
        transport.close()


def send(reply: bytes, payment: PaymentOrder = PAYMENT, timeout_seconds: float = LONG_SECONDS) -> ProviderAnswer:
    with airtel({"POST /": [reply]}) as (provider, _):
        return provider.send(payment, timeout_seconds)


def query(reply: bytes, payment: PaymentOrder = PAYMENT, timeout_seconds: float = LONG_SECONDS) -> ProviderAnswer:
    with airtel({"GET /standard": [reply]}) as (provider, _):
        return provider.query_status(payment, timeout_seconds)


def said_of(letters: object, code: object = "", status: str = "200 OK", **others: object) -> bytes:
    transaction: dict[str, object] = {"id": REFERENCE, "status": letters, "airtel_money_id": "MP1", "message": "x"}
    envelope = {"code": status[:3], "response_code": code, "result_code": "ESB000010", "success": True}
    return said(status, {"data": {"transaction": transaction | others}, "status": envelope})


def refused(code: object, result_code: str = "ESB000011", status: str = "200 OK") -> bytes:
    envelope = {"code": status[:3], "response_code": code, "result_code": result_code, "success": False}
    return said(status, {"status": envelope})


REPLIES = [
    ("prompt sent", said_of("SUCCESS", "DP00800001006"), PAYMENT, Outcome.PENDING, None),
    ("prompt sent under a false id", said_of("SUCCESS", id=False), PAYMENT, Outcome.PENDING, None),
    ("prompt sent and called a success", said_of("SUCCESS", "DP00800001001"), PAYMENT, Outcome.PENDING, None),
    ("paid out at once", said_of("TS", "DP00900001001"), PAYOUT, Outcome.SUCCEEDED, None),
    ("paid out under a false id", said_of("TS", id=False), PAYOUT, Outcome.SUCCEEDED, None),
    ("paid out for somebody else", said_of("TS", id="other"), PAYOUT, Outcome.UNKNOWN, None),
    ("paid out in a broken envelope", said_of("TS", "DP00900001003"), PAYOUT, Outcome.SUCCEEDED, None),
    ("failed in a good envelope", said_of("TF", "DP00900001001"), PAYOUT, Outcome.FAILED, FailureCode.PROVIDER_ERROR),
    ("our float is short", said_of("TF", "DP00900001007"), PAYOUT, Outcome.FAILED, FailureCode.CLIENT_FLOAT_LOW),
    ("in progress", said_of("TIP", "DP00900001006"), PAYOUT, Outcome.PENDING, None),
    ("ambiguous", said_of("TA", "DP00900001001"), PAYOUT, Outcome.UNKNOWN, None),
    ("given back", said_of("SUCCESS", id=None), REFUND, Outcome.SUCCEEDED, None),
    ("not given back", refused("DP00800001025"), REFUND, Outcome.UNKNOWN, None),
    ("given back already", refused("", "ESB000041"), REFUND, Outcome.SUCCEEDED, None),
    ("a success without letters", refused("DP00800001001", "ESB000010"), PAYMENT, Outcome.UNKNOWN, None),
    ("in process without letters", refused("DP00800001006", "ESB000010"), PAYMENT, Outcome.PENDING, None),
    ("a timeout", refused("DP00800001024"), PAYMENT, Outcome.UNKNOWN, None),
    ("ambiguous by the bus", refused("", "ESB000004"), PAYMENT, Outcome.UNKNOWN, None),
    ("a duplicate", refused("", "ESB000041"), PAYMENT, Outcome.PENDING, None),
    ("a duplicate payout", refused("DP00900001011"), PAYOUT, Outcome.PENDING, None),
    ("a bad number", refused("", "ESB000033", "400 Bad"), PAYMENT, Outcome.FAILED, FailureCode.PAYER_NOT_FOUND),
    ("a bad signature", refused("DP00800001026"), PAYMENT, Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("a wrong route", refused("", "ROUTER006", "400 Bad"), PAYMENT, Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("too little money", refused("DP00800001007"), PAYMENT, Outcome.FAILED, FailureCode.INSUFFICIENT_BALANCE),
    ("failed and undecided", said_of("TF", "DP00900001000"), PAYOUT, Outcome.PENDING, None),
    ("failed as a duplicate", said_of("TF", "DP00900001011"), PAYOUT, Outcome.PENDING, None),
    ("a refusal of the router alone", said("400 Bad", {"status_code": "ROUTER110", "status_message": "x"}), PAYMENT,
     Outcome.FAILED, FailureCode.PROVIDER_CONFIG),
    ("a new code", refused("DP00800009999"), PAYMENT, Outcome.UNKNOWN, None),
    ("a code that is an object", refused({"a": 1}, "x"), PAYMENT, Outcome.UNKNOWN, None),
    ("a known code behind a breakdown", refused("", "ESB000008", "500 Error"), PAYMENT, Outcome.UNKNOWN, None),
    ("letters behind a breakdown", said_of("TF", "DP00800001007", "500 Error"), PAYMENT, Outcome.UNKNOWN, None),
    ("new letters", said_of("TX"), PAYMENT, Outcome.UNKNOWN, None),
    ("letters that are a list", said_of(["TS"]), PAYMENT, Outcome.UNKNOWN, None),
    ("a transaction that is a list", said("200 OK", {"data": {"transaction": ["TS"]}}), PAYMENT, Outcome.UNKNOWN, None),
    ("an empty 200", said("200 OK"), PAYMENT, Outcome.UNKNOWN, None),
    ("a page", said("502 Bad Gateway", b"<html>", "text/html"), PAYMENT, Outcome.UNKNOWN, None),
    ("hung up", HANG_UP, PAYMENT, Outcome.UNKNOWN, None),
    ("refused at the door twice", said("401 Unauthorized"), PAYMENT, Outcome.NOT_SENT, None),
]  # fmt: skip

QUERIED = [
    ("paid", said_of("TS", "DP00800001001"), PAYMENT, Outcome.SUCCEEDED, None),
    ("paid for somebody else", said_of("TS", id="other"), PAYMENT, Outcome.UNKNOWN, None),
    ("wrong PIN", said_of("TF", "DP00800001002"), PAYMENT, Outcome.FAILED, FailureCode.WRONG_PIN),
    ("failed and ambiguous", said_of("TF", "DP00800001000"), PAYMENT, Outcome.PENDING, None),
    ("failed and in process", said_of("TF", "DP00800001006"), PAYMENT, Outcome.PENDING, None),
    ("failed and timed out", said_of("TF", "DP00800001024"), PAYMENT, Outcome.PENDING, None),
    ("failed at the router", said_of("TF", "ROUTER117"), PAYMENT, Outcome.PENDING, None),
    ("failed with a new code", said_of("TF", "DP1"), PAYMENT, Outcome.FAILED, FailureCode.PROVIDER_ERROR),
    ("failed for somebody else", said_of("TF", "DP00800001002", id="other"), PAYMENT, Outcome.UNKNOWN, None),
    ("expired", said_of("TE", "DP00800001029"), PAYMENT, Outcome.FAILED, FailureCode.PAYER_TIMEOUT),
    ("ambiguous", said_of("TA", "DP00800001000"), PAYMENT, Outcome.UNKNOWN, None),
    ("in progress", said_of("TIP"), PAYMENT, Outcome.PENDING, None),
    ("a success of the call alone", said_of("SUCCESS", "DP00800001001"), PAYMENT, Outcome.UNKNOWN, None),
    ("a failure of the call alone", refused("DP00800001007"), PAYMENT, Outcome.UNKNOWN, None),
    ("not found", refused("DP00800001025", status="404 Not Found"), PAYMENT, Outcome.NOT_FOUND, None),
    ("not found with 200", refused("", "ESB000045"), PAYMENT, Outcome.NOT_FOUND, None),
    ("a payout not found", refused("DP00900001015"), PAYOUT, Outcome.NOT_FOUND, None),
    ("a lost path", refused("", "ROUTER119", "404 Not Found"), PAYMENT, Outcome.UNKNOWN, None),
    ("a bare 404", said("404 Not Found"), PAYMENT, Outcome.UNKNOWN, None),
    ("a refund", said_of("TS"), REFUND, Outcome.UNKNOWN, None),
    ("refused at the door", said("401 Unauthorized"), PAYMENT, Outcome.UNKNOWN, None),
    ("hung up", HANG_UP, PAYMENT, Outcome.UNKNOWN, None),
]  # fmt: skip


ANSWERS = [(send, *row) for row in REPLIES] + [(query, *row) for row in QUERIED]


@pytest.mark.parametrize(
    ("call", "reply", "payment", "outcome", "failure"),
    [(call, *row) for call, _, *row in ANSWERS],
    ids=[f"{call.__name__}: {name}" for call, name, *_ in ANSWERS],
)
def test_an_answer_proves_no_more_than_it_says(
    call: Call, reply: bytes, payment: PaymentOrder, outcome: Outcome, failure: FailureCode | None
) -> None:
    got = call(reply, payment)
    assert (got.outcome, got.failure) == (outcome, failure)


def test_silence_proves_nothing() -> None:
    assert send(SILENCE, timeout_seconds=SHORT_SECONDS).outcome is Outcome.UNKNOWN
    assert query(SILENCE, timeout_seconds=SHORT_SECONDS).outcome is Outcome.UNKNOWN


def test_silence_instead_of_a_token_means_not_sent() -> None:
    with airtel({"POST /auth/oauth2/token ": [SILENCE]}) as (provider, _):
        assert provider.send(PAYMENT, SHORT_SECONDS).outcome is Outcome.NOT_SENT


def test_a_success_carries_airtels_id() -> None:
    assert query(said_of("TS")).provider_transaction_id == "MP1"
    assert query(said_of("TS", airtel_money_id={"a": 1})).provider_transaction_id is None


@pytest.mark.parametrize("sentence", ["Paid UGX 5,000 to X", "You have deposited UGX 5,000", "You have sent UGX 5,000"])
def test_the_amount_is_read_from_airtels_sentence(sentence: str) -> None:
    assert query(said_of("TS", message=sentence), PAYOUT).amount_cents == 500_000


def test_an_unclear_answer_keeps_what_airtel_said() -> None:
    got = query(said_of("TA", "DP00800001000", message="Ambiguous, eyJ" + "x" * 60))
    assert (got.is_unclear, got.reason) == (True, "HTTP 200 TA DP00800001000 Ambiguous ...")
    assert not query(HANG_UP).is_unclear
    assert not query(said("502 Bad Gateway", b"<html>", "text/html")).is_unclear


def test_a_push_is_written_as_airtel_wants_it() -> None:
    with airtel({"POST /merchant/v1/payments/ ": [said_of("SUCCESS")]}) as (provider, server):
        provider.send(PAYMENT, LONG_SECONDS)
    token, request = server.requests
    credentials = {"client_id": "our-id", "client_secret": "our-secret", "grant_type": "client_credentials"}
    assert json.loads(token.split(b"\r\n\r\n")[1]) == credentials
    head, body = request.split(b"\r\n\r\n")
    for line in (b"Authorization: Bearer t-1", b"X-Country: UG", b"X-Currency: UGX", b"Content-Type: application/json"):
        assert line in head.split(b"\r\n")
    assert b"x-signature" not in head.lower()
    assert json.loads(body) == {
        "reference": "ACME s order 12",
        "subscriber": {"country": "UG", "currency": "UGX", "msisdn": "700123123"},
        "transaction": {"amount": 500, "country": "UG", "currency": "UGX", "id": REFERENCE},
    }


def test_a_payout_is_written_with_the_pin_that_the_operator_encrypted() -> None:
    with airtel({"POST /standard/v1/disbursements/ ": [said_of("TS")]}) as (provider, server):
        provider.send(PAYOUT, LONG_SECONDS)
    assert json.loads(server.requests[-1].split(b"\r\n\r\n")[1]) == {
        "payee": {"msisdn": "700123123"},
        "reference": "ACME s order 12",
        "pin": "sealed-by-the-portal",
        "transaction": {"amount": 500, "id": REFERENCE},
    }


def test_a_refund_names_airtels_own_id() -> None:
    with airtel({"POST /standard/v1/payments/refund ": [said_of("SUCCESS")]}) as (provider, server):
        provider.send(REFUND, LONG_SECONDS)
    body = json.loads(server.requests[-1].split(b"\r\n\r\n")[1])
    assert body == {"transaction": {"airtel_money_id": "MP210603.1234.L06941"}}


def test_a_plain_pin_is_encrypted_for_airtel_and_the_key_fetched_once() -> None:
    access = replace(ACCESS, encrypted_pin=None, pin="1234")
    with airtel({"POST /standard/v1/disbursements/ ": [said_of("TS")]}, access) as (provider, server):
        for _ in range(2):
            provider.send(PAYOUT, LONG_SECONDS)
    assert len(server.to("GET /v1/rsa/encryption-keys")) == 1
    pin = json.loads(server.requests[-1].split(b"\r\n\r\n")[1])["pin"]
    assert KEY.decrypt(base64.b64decode(pin), PKCS1v15()) == b"1234"


def test_version_two_signs_the_very_bytes_it_sends() -> None:
    access = replace(ACCESS, version="v2")
    with airtel({"POST /merchant/v2/payments/ ": [said_of("SUCCESS")]}, access) as (provider, server):
        assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.PENDING
    head, body = server.requests[-1].split(b"\r\n\r\n")
    headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    key, iv = KEY.decrypt(base64.b64decode(headers[b"x-key"]), PKCS1v15()).split(b":")
    decryptor = Cipher(algorithms.AES256(base64.b64decode(key)), modes.CBC(base64.b64decode(iv))).decryptor()
    padded = decryptor.update(base64.b64decode(headers[b"x-signature"])) + decryptor.finalize()
    unpadder = padding.PKCS7(128).unpadder()
    assert unpadder.update(padded) + unpadder.finalize() == body


def test_version_two_says_that_a_disbursement_goes_to_a_person() -> None:
    access = replace(ACCESS, version="v2")
    with airtel({"POST /standard/v2/disbursements/ ": [said_of("TS")]}, access) as (provider, server):
        provider.send(PAYOUT, LONG_SECONDS)
    body = json.loads(server.requests[-1].split(b"\r\n\r\n")[1])
    assert body["payee"] == {"msisdn": "700123123", "currency": "UGX"}
    assert body["transaction"]["type"] == "B2C"


@pytest.mark.parametrize("key", [None, "", "!!", base64.b64encode(b"nonsense").decode(), 5])
def test_without_airtels_key_nothing_is_sent(key: object) -> None:
    answers = {
        "GET /v1/rsa/encryption-keys ": [said("200 OK", {"data": {"key": key}})],
        "POST /merchant": [said_of("SUCCESS")],
    }
    with airtel(answers, replace(ACCESS, version="v2")) as (provider, server):
        assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.NOT_SENT
    assert server.to("POST /merchant") == []


@pytest.mark.parametrize(
    ("payment", "failure"),
    [
        (replace(PAYMENT, amount_cents=50_050), FailureCode.AMOUNT_OUT_OF_BOUNDS),
        (replace(PAYMENT, amount_cents=49_900), FailureCode.AMOUNT_OUT_OF_BOUNDS),
        (replace(REFUND, original_provider_transaction_id=None), FailureCode.PROVIDER_ERROR),
        (PAYOUT, FailureCode.PROVIDER_CONFIG),
    ],
)
def test_what_airtel_cannot_do_is_refused_here(payment: PaymentOrder, failure: FailureCode) -> None:
    with airtel({}, replace(ACCESS, encrypted_pin=None)) as (provider, server):
        got = provider.send(payment, LONG_SECONDS)
    assert (got.outcome, got.failure) == (Outcome.FAILED, failure)
    assert server.requests == []


def test_the_path_of_a_payouts_query_is_a_setting() -> None:
    access = replace(ACCESS, disbursement_enquiry_path="/standard/v1/payments/{id}")
    with airtel({f"GET /standard/v1/payments/{REFERENCE} ": [said_of("TS")]}, access) as (provider, _):
        assert provider.query_status(PAYOUT, LONG_SECONDS).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("data", "cents"),
    [
        ({"balance": "1000.5", "currency": "UGX"}, 100_050),
        ({"balance": 1000, "currency": "UGX"}, 100_000),
        ({"balance": "37,600.00", "currency": "UGX"}, 3_760_000),
        ({"balance": "37,60.00", "currency": "UGX"}, None),
        ({"balance": "1000", "currency": "KES"}, None),
        ({"balance": "a lot", "currency": "UGX"}, None),
        ([], None),
    ],
)
def test_the_float_is_known_or_not(data: object, cents: int | None) -> None:
    with airtel({"GET /standard/v1/users/balance ": [said("200 OK", {"data": data})]}) as (provider, _):
        assert provider.balance_cents(Direction.COLLECTION, LONG_SECONDS) == cents


def test_version_one_has_no_float_for_payouts_and_another_path_may_be_set() -> None:
    with airtel({}) as (provider, server):
        assert provider.balance_cents(Direction.DISBURSEMENT, LONG_SECONDS) is None
    assert server.requests == []
    reply = said("200 OK", {"data": {"balance": "7", "currency": "UGX"}})
    access = replace(ACCESS, balance_path="/standard/v2/users/balance/{type}")
    with airtel({"GET /standard/v2/users/balance/DISB ": [reply]}, access) as (provider, _):
        assert provider.balance_cents(Direction.DISBURSEMENT, LONG_SECONDS) == 700


def test_collections_are_pushed_at_version_two_unless_a_version_is_set() -> None:
    default = replace(ACCESS, version=None)
    assert [default.version_of(each) for each in Direction] == ["v2", "v1", "v1"]


def test_version_three_names_the_kind_of_wallet() -> None:
    access = replace(ACCESS, versions={Direction.DISBURSEMENT: "v3"}, signing="off")
    with airtel({"POST /standard/v3/disbursements/ ": [said_of("TS")]}, access) as (provider, server):
        provider.send(PAYOUT, LONG_SECONDS)
    body = json.loads(server.requests[-1].split(b"\r\n\r\n")[1])
    assert (body["payee"], body["transaction"]["type"]) == ({"msisdn": "700123123", "wallet_type": "NORMAL"}, "B2C")


def test_a_pin_may_be_padded_by_oaep() -> None:
    access = replace(ACCESS, encrypted_pin=None, pin="1234", pin_padding="oaep")
    with airtel({"POST /standard/v1/disbursements/ ": [said_of("TS")]}, access) as (provider, server):
        provider.send(PAYOUT, LONG_SECONDS)
    pin = json.loads(server.requests[-1].split(b"\r\n\r\n")[1])["pin"]
    assert KEY.decrypt(base64.b64decode(pin), OAEP(MGF1(SHA256()), SHA256(), None)) == b"1234"


def test_a_receipt_in_the_message_is_a_second_receipt() -> None:
    message = "You have sent UGX 500 to X. Trans ID: 133410000531."
    got = query(said_of("TS", airtel_money_id="disburs-1", message=message), PAYOUT)
    assert (got.provider_transaction_id, got.receipt) == ("disburs-1", "133410000531")


def test_version_two_names_the_float_it_asks_for() -> None:
    reply = said("200 OK", {"data": {"balance": "7", "currency": "UGX"}})
    with airtel({"GET /standard/v2/users/balance?type=DISB ": [reply]}, replace(ACCESS, version="v2")) as (provider, _):
        assert provider.balance_cents(Direction.DISBURSEMENT, LONG_SECONDS) == 700


def test_a_subscriber_is_known_or_not() -> None:
    reply = said("200 OK", {"data": {"first_name": "Grace", "last_name": "Auma"}})
    unknown = said("400 Bad Request", {"status": {"response_code": "DP00900001012"}})
    unregistered = said("200 OK", {"status": {"response_code": "DP02200000002"}})
    replies = [reply, said("404 Not Found"), unknown, unregistered]
    with airtel({"GET /standard/v1/users/700123123 ": replies}) as (provider, _):
        found = [provider.look_up("+256700123123", LONG_SECONDS) for _ in range(4)]
    assert found == [Registration("Grace Auma", True), Registration(), *[Registration(None, False)] * 2]


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        (json.dumps({"transaction": {"id": REFERENCE, "status_code": "TS"}, "hash": "x"}).encode(), REFERENCE),
        (b'{"transaction": {"id": 5}}', None),
        (b'{"transaction": []}', None),
        (b"[]", None),
        (b"", None),
    ],
)
def test_a_callback_is_read_for_its_reference_only(body: bytes, reference: str | None) -> None:
    with airtel({}) as (provider, _):
        assert provider.reference_in(body) == reference


def test_no_secret_is_shown_with_the_settings() -> None:
    shown = repr(replace(ACCESS, pin="4711"))
    assert not any(secret in shown for secret in ("our-secret", "4711", "sealed-by-the-portal"))


def test_airtel_is_not_queried_before_three_minutes_are_over() -> None:
    assert AIRTEL_SCHEDULE.delays[0] >= 180
    assert AIRTEL_SCHEDULE.not_found_means_lost_after >= 180


def test_every_product_has_a_version_of_its_own() -> None:
    access = replace(ACCESS, versions={Direction.DISBURSEMENT: "v2"}, signing="off")
    paths = {
        "POST /merchant/v1/payments/ ": [said_of("SUCCESS")],
        "POST /standard/v2/disbursements/ ": [said_of("TS")],
        f"GET /standard/v2/disbursements/{REFERENCE}?transactionType=B2C ": [said_of("TS")],
    }
    with airtel(paths, access) as (provider, server):
        provider.send(PAYMENT, LONG_SECONDS)
        provider.send(PAYOUT, LONG_SECONDS)
        assert provider.query_status(PAYOUT, LONG_SECONDS).outcome is Outcome.SUCCEEDED
    assert not any(b"x-signature" in request.lower() for request in server.requests)
    assert server.to("GET /v1/rsa") == []


def test_the_public_key_may_be_a_setting() -> None:
    access = replace(ACCESS, version="v2", encrypted_pin=None, pin="1234", public_key=read_key(PUBLISHED))
    answers = {"POST /standard/v2/disbursements/ ": [said_of("TS")], "GET /v1/rsa": [said("404 Not Found")]}
    with airtel(answers, access) as (provider, server):
        assert provider.send(PAYOUT, LONG_SECONDS).outcome is Outcome.SUCCEEDED
    assert server.to("GET /v1/rsa") == []
    assert b"x-signature" in server.requests[-1].lower()


def test_a_key_that_airtel_does_not_publish_is_said() -> None:
    answers = {"GET /v1/rsa/encryption-keys ": [said("404 Not Found")], "POST /merchant": [said_of("SUCCESS")]}
    with airtel(answers, replace(ACCESS, version="v2")) as (provider, server):
        got = provider.send(PAYMENT, LONG_SECONDS)
    assert (got.outcome, got.reason, got.left_machine) == (Outcome.NOT_SENT, "HTTP 404 (no encryption key)", False)
    assert server.to("POST /merchant") == []


def test_a_disbursement_has_two_receipts() -> None:
    got = query(said_of("TS", airtel_money_id="disburs-1", reference_id="CI250506.1824.H00006"), PAYOUT)
    assert (got.provider_transaction_id, got.receipt) == ("disburs-1", "CI250506.1824.H00006")
    assert got.reason == "TS CI250506.1824.H00006"


def test_a_token_refused_with_403_is_renewed() -> None:
    refusal = said("403 Forbidden", {"error": "invalid_token", "error_description": "x"})
    with airtel({"POST /merchant/v1/payments/ ": [refusal, said_of("SUCCESS")]}) as (provider, server):
        assert provider.send(PAYMENT, LONG_SECONDS).outcome is Outcome.PENDING
    assert len(server.to("POST /auth/oauth2/token")) == 2


@pytest.mark.parametrize(("written", "sent"), [("", "Payment"), ("Tea", "Payment Tea"), ("Rent", "Rent")])
def test_a_short_note_is_made_longer(written: str, sent: str) -> None:
    with airtel({"POST /merchant/v1/payments/ ": [said_of("SUCCESS")]}) as (provider, server):
        provider.send(replace(PAYMENT, note=written), LONG_SECONDS)
    assert json.loads(server.requests[-1].split(b"\r\n\r\n")[1])["reference"] == sent


def test_a_payment_sent_without_hyphens_is_the_same_payment() -> None:
    plain = replace(PAYMENT, provider_reference=REFERENCE.replace("-", ""))
    with airtel({f"GET /standard/v1/payments/{plain.provider_reference} ": [said_of("TS")]}) as (provider, _):
        assert provider.query_status(plain, LONG_SECONDS).outcome is Outcome.SUCCEEDED
        callback = json.dumps({"transaction": {"id": plain.provider_reference.upper()}}).encode()
        assert provider.reference_in(callback) == REFERENCE
