"""Messages about mails: their kinds, their states, and the choices of people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ussd_server.outbound.smtp import MailTrouble

_MANAGERS = ("owner", "admin")
_BUILDERS = (*_MANAGERS, "developer")


class MailKind(StrEnum):
    """Every kind of mail."""

    INVITATION = "person.invited"
    PASSWORD_LINK = "person.password_link"  # noqa: S105 - the name of a kind
    PASSWORD_FORGOTTEN = "person.password_forgotten"  # noqa: S105 - the name of a kind
    SECOND_FACTOR_REMOVED = "person.second_factor_removed"
    NEEDS_APPROVAL = "payout.needs_approval"
    NEEDS_MONEY = "payout.needs_money"
    PAYOUT_COMPLETED = "payout.completed"
    WEBHOOK_FAILING = "webhook.failing"
    WEBHOOK_DISABLED = "webhook.disabled"
    KEY_EXPIRES = "api_key.expires"
    KEY_ADDRESS_REFUSED = "api_key.address_refused"
    BANK_ACCOUNT_CHANGED = "bank_account.changed"
    PROVIDER_AWAY = "provider.away"
    FLOAT_LOW = "provider.float_low"
    INCOMING_HELD = "incoming.held"


CHOICES: dict[MailKind, str] = {
    MailKind.NEEDS_APPROVAL: "A payout waits for approval",
    MailKind.NEEDS_MONEY: "A payout is due and its money is missing",
    MailKind.PAYOUT_COMPLETED: "A payout is complete",
    MailKind.WEBHOOK_FAILING: "A webhook fails for an hour",
    MailKind.WEBHOOK_DISABLED: "A webhook was switched off",
    MailKind.KEY_EXPIRES: "An API key expires in 7 days, and in 1 day",
    MailKind.PROVIDER_AWAY: "A provider does not answer, and when it answers again",
    MailKind.FLOAT_LOW: "The float at a provider is low",
    MailKind.INCOMING_HELD: "A payment that came by itself is held, the first of a day",
}
"""The kinds that a person may switch off."""

PERSONAL: dict[MailKind, str] = {
    MailKind.INVITATION: "Invitation",
    MailKind.PASSWORD_LINK: "Link for a new password",
    MailKind.PASSWORD_FORGOTTEN: "Link for a forgotten password",
    MailKind.SECOND_FACTOR_REMOVED: "Second factor removed",
    MailKind.KEY_ADDRESS_REFUSED: "An API key was used from an address that it does not allow",
    MailKind.BANK_ACCOUNT_CHANGED: "The bank account was changed",
}
"""The kinds about access and the client's bank account, which are always sent."""

ROLES: dict[MailKind, tuple[str, ...]] = {
    MailKind.NEEDS_APPROVAL: _MANAGERS,
    MailKind.NEEDS_MONEY: _BUILDERS,
    MailKind.PAYOUT_COMPLETED: _BUILDERS,
    MailKind.WEBHOOK_FAILING: _BUILDERS,
    MailKind.WEBHOOK_DISABLED: _BUILDERS,
    MailKind.KEY_EXPIRES: _BUILDERS,
    MailKind.KEY_ADDRESS_REFUSED: _BUILDERS,
    MailKind.BANK_ACCOUNT_CHANGED: ("owner",),
}
"""The roles of a client's people who receive a kind."""

LINKS = (MailKind.INVITATION, MailKind.PASSWORD_LINK)
"""The kinds with a link that a colleague had sent."""

OF_OPERATORS = frozenset({MailKind.PROVIDER_AWAY, MailKind.FLOAT_LOW, MailKind.INCOMING_HELD})
"""The kinds that operators receive."""


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
class ListMails:
    """Ask for one page of mails, newest first; `status` leaves out the others."""

    status: MailStatus | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class MailChoice:
    """A kind of mail that a person may switch off, and whether the person receives it."""

    kind: MailKind
    title: str
    is_wanted: bool
