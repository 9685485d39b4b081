"""The kinds of mails: who receives them, and their texts, in plain text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Any, NamedTuple

from ussd_server.languages import gettext, marked
from ussd_server.services.mail.messages import MailKind
from ussd_server.values import KAMPALA

_LONGEST_VALUE = 200
_LONGEST_SUBJECT = 120


OPERATORS = ("operator",)
_OWNER = ("owner",)
_MANAGERS = (*_OWNER, "admin")
_BUILDERS = (*_MANAGERS, "developer")


class MailText(NamedTuple):
    """A kind of mail: its title, and its subject and body, in which `{names}` stand for the parameters of the mail.

    `roles` are those of a client's people who receive it, or `OPERATORS`; none for a mail about a person's own access.
    `is_optional`: a person may switch it off. Mails about access and the client's bank account are always sent.
    """

    title: str
    subject: str
    body: str
    roles: tuple[str, ...] = ()
    is_optional: bool = False


TEXTS: dict[MailKind, MailText] = {
    MailKind.INVITATION: MailText(
        "Invitation",
        "You are invited to {client}",
        "{by} invites you to work with {client} in the USSD console.\n\n"
        "Choose your password here:\n{link}\n\n"
        "The link works once, until {until}. If you did not expect this invitation, ignore this mail.",
    ),
    MailKind.PERSON_UNCONFIRMED: MailText(
        "A new person is to be confirmed",
        "Confirm that {email} is a person of their own",
        "{by} gave {email} the role {role} at {client}. Until another person who may approve payouts has confirmed "
        "that this is a person of their own, the two count as one person, and neither approves what the other makes."
        "\n\n"
        "If you know the person, confirm it here:\n{page}",
        _MANAGERS,
        is_optional=True,
    ),
    MailKind.PASSWORD_LINK: MailText(
        "Link for a new password",
        "Choose a new password for {client}",
        "{by} asks you to choose a new password for {client} in the USSD console.\n\n"
        "Choose it here:\n{link}\n\n"
        "The link works once, until {until}. Your present password works until then.",
    ),
    MailKind.PASSWORD_FORGOTTEN: MailText(
        "Link for a forgotten password",
        "Choose a new password",
        "A new password was requested for this e-mail address, from the network address {address}.\n\n"
        "Choose it here:\n{link}\n\n"
        "The link works once, until {until}. It ends all your logins. If you did not request it, ignore this mail: "
        "your password has not changed.",
    ),
    MailKind.SECOND_FACTOR_REMOVED: MailText(
        "Second factor removed",
        "Your second factor was removed or replaced",
        "The second factor of your account at {client} was removed or replaced by {by}, on {at}.\n\n"
        "If you do not know why, tell an owner of your team or the operator of this service at once.",
    ),
    MailKind.NEEDS_APPROVAL: MailText(
        "A payout waits for approval",
        "Payout {reference} waits for approval",
        "The payout {reference} of {client} waits for approval. Rows: {rows}; amount: UGX {amount}.\n{notes}\n"
        "Look at it and approve it here:\n{page}",
        _MANAGERS,
        is_optional=True,
    ),
    MailKind.NEEDS_MONEY: MailText(
        "A payout is due and its money is missing",
        "Payout {reference} needs money",
        "The payout {reference} of {client} is due, and nothing of it was sent. Its rows ({rows}) cost UGX {cost} with "
        "their fees, and that is more than is available, or than the key that approved it may still pay today.\n\n"
        "It is sent when the money is there within a day. After that it is cancelled.\n\n"
        "See it here:\n{page}",
        _BUILDERS,
        is_optional=True,
    ),
    MailKind.APPROVAL_WITHDRAWN: MailText(
        "An approval of a payout was withdrawn",
        "The approval of payout {reference} was withdrawn",
        "An approval of the payout {reference} of {client} was withdrawn. Rows: {rows}; amount: UGX {amount}.\n"
        "{withdrawal}\n\n"
        "The payout is a draft again, nothing of it was sent, and no money is reserved for it. Look at it, and approve "
        "or cancel it:\n{page}",
        _BUILDERS,
        is_optional=True,
    ),
    MailKind.PAYOUT_COMPLETED: MailText(
        "A payout is complete",
        "Payout {reference} is {status}",
        "The payout {reference} of {client} is {status}. Rows that were paid: {succeeded}; that failed: {failed}.\n"
        "{notes}\nSee each row here:\n{page}",
        _BUILDERS,
        is_optional=True,
    ),
    MailKind.WEBHOOK_FAILING: MailText(
        "A webhook fails for an hour",
        "A webhook fails for an hour",
        "The webhook {url} of {client} has accepted nothing since {since}.\n\n"
        "We send each event again for some time. See what your server replied:\n{page}",
        _BUILDERS,
        is_optional=True,
    ),
    MailKind.WEBHOOK_DISABLED: MailText(
        "A webhook was switched off",
        "A webhook was switched off",
        "The webhook {url} of {client} was switched off. Reason: {reason}.\n\n"
        "Events are kept. Correct your server, then switch the webhook on and send the events again:\n{page}",
        _BUILDERS,
        is_optional=True,
    ),
    MailKind.KEY_EXPIRES: MailText(
        "An API key expires in 7 days, and in 1 day",
        "API key {key} expires on {expires}",
        "The API key {key} of {client} expires on {expires}. Calls with it are refused from then on.\n\n"
        "Make a new key or change its expiry here:\n{page}",
        _BUILDERS,
        is_optional=True,
    ),
    MailKind.KEY_ADDRESS_REFUSED: MailText(
        "An API key was used from an address that it does not allow",
        "API key {key} was used from another address",
        "A call with the API key {key} of {client} and its right secret came from {address}, on {at}. It was refused, "
        "because the key does not allow this address.\n\n"
        "If you do not know the address, the secret has leaked: give the key a new one at once. You get this once a "
        "day for each key:\n{page}",
        _BUILDERS,
    ),
    MailKind.MENU_SENDS_NO_MONEY: MailText(
        "A menu sends no money any more",
        "The menu {menu} sends no money any more",
        "The menu {menu} of {client} just refused a payment: the API key or the person that published it may not send "
        "money any more.\n\n"
        "If its payments are right, publish it again in your own name:\n{page}",
        _OWNER,
    ),
    MailKind.BANK_ACCOUNT_CHANGED: MailText(
        "The bank account was changed",
        "The bank account of {client} was changed",
        "{by} stated another bank account for {client}: {account}.\n\n"
        "Nothing is paid to it before the operator of this service has confirmed it. If it is not yours, tell the "
        "operator at once:\n{page}",
        _OWNER,
    ),
    MailKind.ACCOUNT_CORRECTED: MailText(
        "An account was corrected",
        "{amount} was {effect} your account {account}",
        "The operator of this service corrected an account of {client}: {amount} was {effect} {account}, because the "
        "money moved at the provider or the bank.\n\n"
        "Reason: {why}\n\nSee it here:\n{page}",
        _OWNER,
    ),
    MailKind.PROVIDER_AWAY: MailText(
        "A provider does not answer, and when it answers again",
        "{provider} {state}",
        "{provider} {state}, as seen at {at}. {consequence}\n\n{said}See its calls here:\n{page}",
        OPERATORS,
        is_optional=True,
    ),
    MailKind.FLOAT_LOW: MailText(
        "The float at a provider is low",
        "The float at {provider} is low",
        "The float at {provider} is UGX {amount}; the alert is set to UGX {limit}.\n\n"
        "Top it up, or payments to subscribers of {provider} will fail:\n{page}",
        OPERATORS,
        is_optional=True,
    ),
    MailKind.INCOMING_HELD: MailText(
        "A payment that came by itself is held, the first of a day",
        "A payment of {amount} is held",
        "{provider} reported a payment of {amount} that fits nothing: {reason}.\n\n"
        "Assign it to a payment code, or mark it for return; others of this day are there too:\n{page}",
        OPERATORS,
        is_optional=True,
    ),
}
_CHOICE = marked("\n\nYou receive this because of your role. Choose which mails you receive:\n{choices}")
# A parameter that is an address on this server is sent as a path and completed here.
_PATHS = ("link", "page")
# Parameters that are words of ours.
_WORDS = ("consequence", "effect", "reason", "state", "status")


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
    text = TEXTS[kind]
    choices = "/console/operator/notifications" if text.roles == OPERATORS else "/console/notifications"
    ending = gettext(_CHOICE).format(choices=public_url + choices) if text.is_optional else ""
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    # The library decodes an encoded word in a header, and with it line breaks that begin another header.
    subject = gettext(text.subject).format_map(values).replace("=?", "= ?")
    message["Subject"] = subject[:_LONGEST_SUBJECT]
    message["Date"] = format_datetime(created_at.astimezone(UTC))
    message["Message-ID"] = f"<{mail_id}@{domain_of(sender)}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"{gettext(text.body).format_map(values)}{ending}\n", cte="quoted-printable")
    return message


def written_moment(moment: datetime) -> str:
    return f"{moment.astimezone(KAMPALA):%d %b %Y, %H:%M} in Kampala"


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
