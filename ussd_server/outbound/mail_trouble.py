"""Why a mail could not be sent."""

from __future__ import annotations

from enum import StrEnum


class MailTrouble(StrEnum):
    """Why an attempt failed; the values are stored."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    LOGIN = "login"
    SENDER = "sender"
    RECIPIENT = "recipient"
    REFUSED = "refused"
    LATER = "later"
    INTERNATIONAL = "international"
    MALFORMED = "malformed"
    ENDED = "ended"
    LATE = "late"
