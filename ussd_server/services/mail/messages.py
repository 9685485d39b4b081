"""Messages about mails: their kinds, their states, and the choices of people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ussd_server.outbound.smtp import MailTrouble
from ussd_server.wire import ListPage


class MailKind(StrEnum):
    """Every kind of mail."""

    INVITATION = "person.invited"
    PERSON_UNCONFIRMED = "person.unconfirmed"
    PASSWORD_LINK = "person.password_link"  # noqa: S105 - the name of a kind
    PASSWORD_FORGOTTEN = "person.password_forgotten"  # noqa: S105 - the name of a kind
    SECOND_FACTOR_REMOVED = "person.second_factor_removed"
    NEEDS_APPROVAL = "payout.needs_approval"
    NEEDS_MONEY = "payout.needs_money"
    APPROVAL_WITHDRAWN = "payout.approval_withdrawn"
    PAYOUT_COMPLETED = "payout.completed"
    WEBHOOK_FAILING = "webhook.failing"
    WEBHOOK_DISABLED = "webhook.disabled"
    KEY_EXPIRES = "api_key.expires"
    KEY_ADDRESS_REFUSED = "api_key.address_refused"
    MENU_SENDS_NO_MONEY = "menu.sends_no_money"
    BANK_ACCOUNT_CHANGED = "bank_account.changed"
    PROVIDER_AWAY = "provider.away"
    FLOAT_LOW = "provider.float_low"
    ACCOUNT_CORRECTED = "account.corrected"
    INCOMING_HELD = "incoming.held"


LINKS = (MailKind.INVITATION, MailKind.PASSWORD_LINK)
"""The kinds with a link that a colleague had sent."""


class MailStatus(StrEnum):
    """The state of a mail; the values are stored."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"


TROUBLES: dict[MailTrouble, str] = {
    MailTrouble.UNREACHABLE: "the mail server accepts no connection",
    MailTrouble.TIMEOUT: "the mail server did not reply in time",
    MailTrouble.TLS: "the connection with the mail server is not safe: TLS is missing or its certificate is not valid",
    MailTrouble.LOGIN: "the mail server refused the user or the password",
    MailTrouble.SENDER: "the mail server refused the sender",
    MailTrouble.RECIPIENT: "the mail server refused the recipient",
    MailTrouble.REFUSED: "the mail server refused the mail",
    MailTrouble.LATER: "the mail server asks to try again later",
    MailTrouble.INTERNATIONAL: "the mail server takes no addresses with letters beyond ASCII",
    MailTrouble.MALFORMED: "this is not an address that mail can be sent to",
    MailTrouble.ENDED: "the link in it was used or has ended",
    MailTrouble.LATE: "no worker could send it in time",
}
"""Each trouble in words."""


@dataclass(frozen=True, slots=True)
class MailView:
    """A mail as it is shown: its recipient and its state, not its text."""

    mail_id: str
    kind: MailKind
    title: str
    recipient: str
    client_id: str | None
    status: MailStatus
    attempts: int
    trouble: str | None
    next_attempt_at: datetime | None
    created_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ListMails(ListPage):
    """Request for a page of mails, newest first; `status` leaves out the others."""

    status: MailStatus | None = None


@dataclass(frozen=True, slots=True)
class MailChoice:
    """A kind of mail that a person may switch off, and whether the person receives it."""

    kind: MailKind
    title: str
    is_wanted: bool
