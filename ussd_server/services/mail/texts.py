"""The texts of all mails, in plain text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Any, NamedTuple

from ussd_server.languages import gettext, marked
from ussd_server.services.mail.messages import CHOICES, OF_OPERATORS, MailKind
from ussd_server.values import KAMPALA

_LONGEST_VALUE = 200
_LONGEST_SUBJECT = 120


class MailText(NamedTuple):
    """A subject and a body; `{names}` stand for the parameters of the mail."""

    subject: str
    body: str


_TEXTS: dict[MailKind, MailText] = {
    MailKind.INVITATION: MailText(
        "You are invited to {client}",
        "{by} invites you to work with {client} in the USSD console.\n\n"
        "Choose your password here:\n{link}\n\n"
        "The link works once, until {until}. If you did not expect this invitation, ignore this mail.",
    ),
    MailKind.PASSWORD_LINK: MailText(
        "Choose a new password for {client}",
        "{by} asks you to choose a new password for {client} in the USSD console.\n\n"
        "Choose it here:\n{link}\n\n"
        "The link works once, until {until}. Your present password works until then.",
    ),
    MailKind.PASSWORD_FORGOTTEN: MailText(
        "Choose a new password",
        "A new password was requested for this e-mail address, from the network address {address}.\n\n"
        "Choose it here:\n{link}\n\n"
        "The link works once, until {until}. It ends all your logins. If you did not request it, ignore this mail: "
        "your password has not changed.",
    ),
    MailKind.SECOND_FACTOR_REMOVED: MailText(
        "Your second factor was removed or replaced",
        "The second factor of your account at {client} was removed or replaced by {by}, on {at}.\n\n"
        "If you do not know why, tell an owner of your team or the operator of this service at once.",
    ),
    MailKind.NEEDS_APPROVAL: MailText(
        "Payout {reference} waits for approval",
        "The payout {reference} of {client} waits for approval: {rows} rows, UGX {amount}.\n\n"
        "Look at it and approve it here:\n{page}",
    ),
    MailKind.NEEDS_MONEY: MailText(
        "Payout {reference} needs money",
        "The payout {reference} of {client} is due, and nothing of it was sent: {rows} rows cost UGX {cost} with their "
        "fees, and that is more than is available, or than the key that approved it may still pay today.\n\n"
        "It is sent when the money is there within a day. After that it is cancelled.\n\n"
        "See it here:\n{page}",
    ),
    MailKind.PAYOUT_COMPLETED: MailText(
        "Payout {reference} is {status}",
        "The payout {reference} of {client} is {status}: {succeeded} rows were paid, {failed} failed.\n\n"
        "See each row here:\n{page}",
    ),
    MailKind.WEBHOOK_FAILING: MailText(
        "A webhook fails for an hour",
        "The webhook {url} of {client} has accepted nothing since {since}.\n\n"
        "We send each event again for some time. See what your server replied:\n{page}",
    ),
    MailKind.WEBHOOK_DISABLED: MailText(
        "A webhook was switched off",
        "The webhook {url} of {client} was switched off. Reason: {reason}.\n\n"
        "Events are kept. Correct your server, then switch the webhook on and send the events again:\n{page}",
    ),
    MailKind.KEY_EXPIRES: MailText(
        "API key {key} expires on {expires}",
        "The API key {key} of {client} expires on {expires}. Calls with it are refused from then on.\n\n"
        "Make a new key or change its expiry here:\n{page}",
    ),
    MailKind.KEY_ADDRESS_REFUSED: MailText(
        "API key {key} was used from another address",
        "A call with the API key {key} of {client} and its right secret came from {address}, on {at}. It was refused, "
        "because the key does not allow this address.\n\n"
        "If you do not know the address, the secret has leaked: give the key a new one at once. You get this once a "
        "day for each key:\n{page}",
    ),
    MailKind.BANK_ACCOUNT_CHANGED: MailText(
        "The bank account of {client} was changed",
        "{by} stated another bank account for {client}: {account}.\n\n"
        "Nothing is paid to it before the operator of this service has confirmed it. If it is not yours, tell the "
        "operator at once:\n{page}",
    ),
    MailKind.PROVIDER_AWAY: MailText(
        "{provider} {state}",
        "{provider} {state}, as seen at {at}. {consequence}\n\nSee its calls here:\n{page}",
    ),
    MailKind.FLOAT_LOW: MailText(
        "The float at {provider} is low",
        "The float at {provider} is UGX {amount}; the alert is set to UGX {limit}.\n\n"
        "Top it up, or payments to subscribers of {provider} will fail:\n{page}",
    ),
    MailKind.INCOMING_HELD: MailText(
        "A payment of {amount} is held",
        "{provider} reported a payment of {amount} that fits nothing: {reason}.\n\n"
        "Assign it to a payment code, or mark it for return; others of this day are there too:\n{page}",
    ),
}
_CHOICE = marked("\n\nYou receive this because of your role. Choose which mails you receive:\n{choices}")
# A parameter that is an address on this server is sent as a path and completed here.
_PATHS = ("link", "page")
# Parameters that are words of ours.
_WORDS = ("consequence", "reason", "state", "status")


def message_of(
    kind: MailKind,
    parameters: Mapping[str, Any],
    *,
    public_url: str,
    sender: str,
    mail_id: str,
    created_at: datetime,
) -> EmailMessage:
    """The mail without its recipient, in the present language.

    Its Message-ID is that of the row, so that a second copy can be recognised.
    """
    values = {name: _shown(name, value, public_url) for name, value in parameters.items()}
    text = MailText(*map(gettext, _TEXTS[kind]))
    choices = "/console/operator/notifications" if kind in OF_OPERATORS else "/console/notifications"
    ending = gettext(_CHOICE).format(choices=public_url + choices) if kind in CHOICES else ""
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    # The library decodes an encoded word in a header, and with it line breaks that begin another header.
    subject = text.subject.format_map(values).replace("=?", "= ?")
    message["Subject"] = subject[:_LONGEST_SUBJECT]
    message["Date"] = format_datetime(created_at.astimezone(UTC))
    message["Message-ID"] = f"<{mail_id}@{domain_of(sender)}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"{text.body.format_map(values)}{ending}\n", cte="quoted-printable")
    return message


def written_moment(moment: datetime) -> str:
    """A moment as people read it."""
    return f"{moment.astimezone(KAMPALA):%-d %B %Y, %H:%M} in Kampala"


def domain_of(address: str) -> str:
    """The domain of an e-mail address, with or without a name before it."""
    return parseaddr(address)[1].rpartition("@")[2]


def _shown(name: str, value: Any, public_url: str) -> str:
    """A parameter on one line, without characters that are not printed, and not too long."""
    if name in _PATHS:
        return f"{public_url}{value}"
    if name in _WORDS:
        value = gettext(str(value))
    line = " ".join(str(value).split())
    return "".join(letter for letter in line if letter.isprintable())[:_LONGEST_VALUE]
