"""Africa's Talking: sends messages over its SMS API, and reads its delivery reports, which are form posts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ussd_server.outbound.transport import SendState, Transport
from ussd_server.parsing.form_text import form_fields
from ussd_server.providers.http.connection import Breaker, ProviderConnection
from ussd_server.providers.http.replies import ProviderReply
from ussd_server.senders.messages import DeliveryReport, SendOutcome, SendResult, SmsAccess, SmsFailure
from ussd_server.values import phone_number as typed_number

LIVE = "https://api.africastalking.com"
_PATH = "/version1/messaging"
_MESSAGE_ID = re.compile(r"[A-Za-z0-9_.-]{5,100}", re.ASCII)
_MOST_FIELDS, _MOST_ESCAPES = 50, 400
# These refuse the call before anything is sent: wrong credentials, too many calls.
_NOT_SENT_STATUSES = frozenset({401, 403, 429})
# What a recipient's code proves: processed, sent, queued; a code of neither list proves nothing.
_ACCEPTED = frozenset({100, 101, 102})
_FAILURES = {
    402: SmsFailure.SENDER_REFUSED,  # sender id
    403: SmsFailure.NUMBER_NOT_REACHABLE,  # invalid phone number
    404: SmsFailure.NUMBER_NOT_REACHABLE,  # unsupported type of number
    405: SmsFailure.SENDER_REFUSED,  # our balance there
    406: SmsFailure.NUMBER_BLOCKED,  # blacklist
    407: SmsFailure.NUMBER_NOT_REACHABLE,  # no route
    409: SmsFailure.NUMBER_BLOCKED,  # do not disturb
    502: SmsFailure.SENDER_REFUSED,  # rejected by the gateway
}
_MOST_CODE = 999
_WORDS = (
    "Success", "Sent", "Queued", "RiskHold", "InvalidSenderId", "InvalidPhoneNumber", "UnsupportedNumberType",
    "InsufficientBalance", "UserInBlacklist", "CouldNotRoute", "DoNotDisturbRejection", "InternalServerError",
    "GatewayError", "RejectedByGateway",
)  # fmt: skip
_FINAL = frozenset({"Success", "Failed", "Rejected", "AbsentSubscriber", "Expired"})
_REASONS = {
    "UserInBlackList": SmsFailure.NUMBER_BLOCKED,
    "DoNotDisturbRejection": SmsFailure.NUMBER_BLOCKED,
    "UserDoesNotExist": SmsFailure.NUMBER_NOT_REACHABLE,
    "UserAccountSuspended": SmsFailure.NUMBER_NOT_REACHABLE,
    "NotNetworkSubscriber": SmsFailure.NUMBER_NOT_REACHABLE,
}


class AfricasTalkingSender:
    """Sends one message a call, so that each has an answer of its own."""

    name = "africastalking"
    sends_reports = True

    def __init__(self, access: SmsAccess, transport: Transport) -> None:
        self._access = access
        self._transport = transport
        self._connection = ProviderConnection(access.base_url, transport, Breaker())
        self._headers = {
            "apiKey": access.api_key,
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def send(self, phone_number: str, text: str, timeout_seconds: float) -> SendResult:
        """Send one message. What the answer does not prove is UNKNOWN."""
        fields = {"username": self._access.username, "to": phone_number, "message": text}
        if self._access.sent_from:
            fields["from"] = self._access.sent_from
        body = urlencode(fields).encode()
        reply = self._connection.call("POST", _PATH, self._headers, body, time.monotonic() + timeout_seconds)
        return _result(reply, phone_number)

    def read_report(self, body: bytes) -> DeliveryReport | None:
        """Read `id status phoneNumber failureReason`."""
        try:
            # Of a name that is given twice, the first value counts.
            fields = dict(reversed(form_fields(body, _MOST_FIELDS, _MOST_ESCAPES)))
        except ValueError:
            return None
        message_id, status, number, reason = (
            fields.get(name, "") for name in ("id", "status", "phoneNumber", "failureReason")
        )
        # Some senders of forms do not encode the plus.
        phone_number = typed_number(number.strip())
        if status not in _FINAL or phone_number is None or not _MESSAGE_ID.fullmatch(message_id):
            return None
        failure = None if status == "Success" else _REASONS.get(reason, SmsFailure.NOT_DELIVERED)
        return DeliveryReport(message_id, phone_number, failure)

    def close(self) -> None:
        """Close the idle connections of this process."""
        self._transport.close()


def _result(reply: ProviderReply, phone_number: str) -> SendResult:
    if reply.reach is SendState.NOT_SENT or reply.status in _NOT_SENT_STATUSES:
        return SendResult(SendOutcome.NOT_SENT, reason=str(reply.status or ""))
    if 400 <= reply.status < 500:
        return SendResult(SendOutcome.FAILED, failure=SmsFailure.SENDER_REFUSED, reason=str(reply.status))
    recipients = reply.get("SMSMessageData", "Recipients")
    if reply.status not in (200, 201) or not isinstance(recipients, list) or len(recipients) > 1:
        return SendResult(SendOutcome.UNKNOWN, reason=str(reply.status or ""))
    if not recipients:
        word = reply.get("SMSMessageData", "Message")
        return SendResult(SendOutcome.FAILED, failure=SmsFailure.SENDER_REFUSED, reason=_logged(word))
    return _result_of_recipient(recipients[0], phone_number)


def _result_of_recipient(recipient: Any, phone_number: str) -> SendResult:
    if not isinstance(recipient, Mapping) or typed_number(str(recipient.get("number"))) != phone_number:
        return SendResult(SendOutcome.UNKNOWN, reason="another number")
    code, message_id = recipient.get("statusCode"), recipient.get("messageId")
    reason = _logged(recipient.get("status"), code)
    if not isinstance(code, int):
        return SendResult(SendOutcome.UNKNOWN, reason=reason)
    if code in _ACCEPTED:
        is_id = isinstance(message_id, str) and _MESSAGE_ID.fullmatch(message_id)
        return SendResult(SendOutcome.SENT, message_id if is_id else None, reason=reason)
    failure = _FAILURES.get(code)
    return SendResult(SendOutcome.FAILED if failure else SendOutcome.UNKNOWN, failure=failure, reason=reason)


def _logged(*said: Any) -> str:
    """The first word of the documentation, or code, of an answer. Its other texts may repeat the message's."""
    return next((str(each) for each in said if each in _WORDS or (type(each) is int and 0 < each <= _MOST_CODE)), "")
