"""Requests to a sender of messages, and the closed set of its replies."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Protocol


class SmsFailure(StrEnum):
    """Why a message did not arrive; the values are stored."""

    NUMBER_NOT_REACHABLE = "NUMBER_NOT_REACHABLE"
    NUMBER_BLOCKED = "NUMBER_BLOCKED"
    NOT_DELIVERED = "NOT_DELIVERED"
    SENDER_REFUSED = "SENDER_REFUSED"
    SENDER_AWAY = "SENDER_AWAY"


SMS_FAILURES: dict[SmsFailure, str] = {
    SmsFailure.NUMBER_NOT_REACHABLE: "The phone number cannot receive messages",
    SmsFailure.NUMBER_BLOCKED: "The subscriber does not want messages",
    SmsFailure.NOT_DELIVERED: "The network did not deliver the message",
    SmsFailure.SENDER_REFUSED: "The sender refused the message",
    SmsFailure.SENDER_AWAY: "The sender could not be reached in time; nothing was sent",
}
"""Each failure in words."""


class SendOutcome(Enum):
    """What a reply to a message proves. NOT_SENT: nothing left this machine or was accepted; it may be sent again."""

    SENT = "sent"
    DELIVERED = "delivered"
    FAILED = "failed"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SendResult:
    """The outcome, and the sender's own id of the message where it gave one. `failure` belongs to FAILED.

    `reason` is the sender's own word for it, for the log.
    """

    outcome: SendOutcome
    sender_message_id: str | None = None
    failure: SmsFailure | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """A report on a message. None of `failure`: it was delivered."""

    sender_message_id: str
    phone_number: str
    failure: SmsFailure | None = None


@dataclass(frozen=True, slots=True)
class SmsAccess:
    """The adapter, and how its sender is reached. `sent_from` is the name or short code that phones show."""

    adapter: str
    base_url: str = ""
    username: str = ""
    api_key: str = field(default="", repr=False)
    sent_from: str = ""


class Sender(Protocol):
    """An adapter. `name` is its setting `USSD_SMS_ADAPTER`, and a part of the path of its reports."""

    name: str
    sends_reports: bool

    def send(self, phone_number: str, text: str, timeout_seconds: float) -> SendResult:
        """Send one message. Never raises for what the sender answers."""

    def read_report(self, body: bytes) -> DeliveryReport | None:
        """Read a delivery report; None for a report without a final state, and for anything else."""

    def close(self) -> None:
        """Close the idle connections of this process."""
