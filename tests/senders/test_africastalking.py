"""Africa's Talking's answers and reports, good and bad, each with what it proves about a message."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.outbound.strange_server import StrangeServer
from tests.providers.provider_server import HANG_UP, SILENCE, ProviderServer, said
from ussd_server.outbound.transport import Transport
from ussd_server.senders.africastalking import AfricasTalkingSender
from ussd_server.senders.messages import DeliveryReport, SendOutcome, SendResult, SmsAccess, SmsFailure

NUMBER = "+256772123456"
MESSAGE_ID = "ATXid_7f0e"


def answered(code: Any = 101, number: str = NUMBER, message_id: Any = MESSAGE_ID, status: str = "201 Created") -> bytes:
    recipient = {"statusCode": code, "number": number, "status": "Word", "messageId": message_id}
    return said(status, {"SMSMessageData": {"Message": "Sent to 1/1", "Recipients": [recipient]}})


def send(reply: bytes, timeout_seconds: float = 20.0) -> tuple[SendResult, ProviderServer]:
    server = ProviderServer({"POST /version1/messaging ": [reply]})
    with StrangeServer(server) as listener:
        sender = AfricasTalkingSender(SmsAccess("africastalking", listener.url, "acme", "key", "ACME"), Transport())
        result = sender.send(NUMBER, "Sente & co + ŋ", timeout_seconds)
        sender.close()
    return result, server


def test_a_message_is_sent_as_a_form_with_the_key_in_a_header() -> None:
    result, server = send(answered())
    assert (result.outcome, result.sender_message_id) == (SendOutcome.SENT, MESSAGE_ID)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert b"apikey: key" in head.lower()
    assert parse_qs(body.decode()) == {
        "username": ["acme"],
        "to": [NUMBER],
        "message": ["Sente & co + ŋ"],
        "from": ["ACME"],
    }


@pytest.mark.parametrize(
    ("reply", "outcome", "failure"),
    [
        (answered(100), SendOutcome.SENT, None),
        (answered(102, status="200 OK"), SendOutcome.SENT, None),
        (answered(101, message_id=7), SendOutcome.SENT, None),
        (answered(403), SendOutcome.FAILED, SmsFailure.NUMBER_NOT_REACHABLE),
        (answered(406), SendOutcome.FAILED, SmsFailure.NUMBER_BLOCKED),
        (answered(405), SendOutcome.FAILED, SmsFailure.SENDER_REFUSED),
        (
            said("201 Created", {"SMSMessageData": {"Message": "InvalidSenderId", "Recipients": []}}),
            SendOutcome.FAILED,
            SmsFailure.SENDER_REFUSED,
        ),
        (said("400 Bad Request", b"to is missing"), SendOutcome.FAILED, SmsFailure.SENDER_REFUSED),
        (said("401 Unauthorized", b"wrong key"), SendOutcome.NOT_SENT, None),
        (said("429 Too Many Requests"), SendOutcome.NOT_SENT, None),
        (answered(500), SendOutcome.UNKNOWN, None),
        (answered("101"), SendOutcome.UNKNOWN, None),
        (answered([101]), SendOutcome.UNKNOWN, None),
        (answered(number="+256772999999"), SendOutcome.UNKNOWN, None),
        (said("201 Created", {"SMSMessageData": {"Recipients": [7]}}), SendOutcome.UNKNOWN, None),
        (said("201 Created", {"SMSMessageData": []}), SendOutcome.UNKNOWN, None),
        (said("200 OK", b"<html>"), SendOutcome.UNKNOWN, None),
        (said("502 Bad Gateway", b"<html>"), SendOutcome.UNKNOWN, None),
        (HANG_UP, SendOutcome.UNKNOWN, None),
    ],
)
def test_an_answer_proves_no_more_than_it_says(reply: bytes, outcome: SendOutcome, failure: SmsFailure | None) -> None:
    result, _ = send(reply)
    assert (result.outcome, result.failure) == (outcome, failure)


@pytest.mark.parametrize("repeated", ["otp 4711", "4711", "atsk_aB3aB3", "key", 4711, ["4711"]])
def test_the_reason_that_is_logged_repeats_no_text_and_no_key(repeated: Any) -> None:
    recipient = {"statusCode": 999, "number": NUMBER, "status": repeated, "messageId": MESSAGE_ID}
    data = {"Message": repeated, "Recipients": []}
    for reply, reason in ((data | {"Recipients": [recipient]}, "999"), (data, "")):
        assert send(said("201 Created", {"SMSMessageData": reply}))[0].reason == reason
    for changed, reason in (({"statusCode": 4711}, ""), ({"status": "InsufficientBalance"}, "InsufficientBalance")):
        reply = {"Recipients": [recipient | changed]}
        assert send(said("201 Created", {"SMSMessageData": reply}))[0].reason == reason


def test_a_sender_that_does_not_answer_leaves_the_outcome_unknown() -> None:
    assert send(SILENCE, timeout_seconds=0.3)[0].outcome is SendOutcome.UNKNOWN


def test_a_sender_that_accepts_no_connection_has_nothing() -> None:
    sender = AfricasTalkingSender(SmsAccess("africastalking", "http://127.0.0.1:1", "acme", "key"), Transport())
    assert sender.send(NUMBER, "Hello", 5.0).outcome is SendOutcome.NOT_SENT


@pytest.mark.parametrize(
    ("body", "report"),
    [
        (b"id=ATXid_1&status=Success&phoneNumber=%2B256772123456", DeliveryReport("ATXid_1", NUMBER)),
        (b"id=ATXid_1&status=Success&phoneNumber=+256772123456", DeliveryReport("ATXid_1", NUMBER)),
        (
            b"id=ATXid_1&status=Failed&phoneNumber=256772123456&failureReason=UserInBlackList",
            DeliveryReport("ATXid_1", NUMBER, SmsFailure.NUMBER_BLOCKED),
        ),
        (
            b"id=ATXid_1&status=Rejected&phoneNumber=256772123456&failureReason=Unheard",
            DeliveryReport("ATXid_1", NUMBER, SmsFailure.NOT_DELIVERED),
        ),
        (b"id=ATXid_1&status=Buffered&phoneNumber=256772123456", None),
        (b"id=ATXid_1&status=Success&phoneNumber=0", None),
        (b"id=None&status=Success&phoneNumber=256772123456", None),
        (b"id=" + b"x" * 5000 + b"&status=Success&phoneNumber=256772123456", None),
        (b"&".join(b"id=ATXid_1" for _ in range(60)), None),
        (b"\xff\xfe", None),
        (b"", None),
    ],
)
def test_a_report_counts_only_in_a_final_state(body: bytes, report: DeliveryReport | None) -> None:
    sender = AfricasTalkingSender(SmsAccess("africastalking"), Transport())
    assert sender.read_report(body) == report
