"""Payment codes in the API, and what providers send about payments that payers made by themselves (contract 21)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from marshmallow import EXCLUDE, ValidationError

from schemas import fields
from ussd_server.services.incoming.messages import CODE_DESCRIPTION
from ussd_server.values import KAMPALA, LONGEST_RECEIPT, canonical_receipt, phone_number

_LONGEST_TYPED = 160
_TYPED = fields.Text("What the payer typed as the reason.", required=True, shortest=0, longest=_LONGEST_TYPED)


class PutPaymentCodeBody(fields.Body):
    """What a payment code says. A field that is left out has its default."""

    description = fields.Text("What is paid with it; payers read it.", required=True, longest=CODE_DESCRIPTION.longest)
    account = fields.Text(
        "The account that is credited: `main` (default), or a subscriber's phone number.",
        longest=13,
        pattern=fields.ACCOUNT_PATTERN,
    )
    amount_cents = fields.Amount(
        "The only amount that is taken, in shillings. Default: any within the bounds.",
        data_key="amount",
        allow_none=True,
    )
    min_amount_cents = fields.Amount(
        "The least amount in shillings. Default: none.", data_key="min_amount", allow_none=True
    )
    max_amount_cents = fields.Amount(
        "The largest amount in shillings. Default: none.", data_key="max_amount", allow_none=True
    )
    expires_at = fields.Timestamp("From when payments with it are held. Default: never.", allow_none=True)
    single_use = fields.Flag("Whether only one payment is taken. Default: false.")


class ListPaymentCodesQuery(fields.Query):
    """The page of a list of payment codes, newest first."""

    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR


class CheckPaymentBody(fields.Body):
    """A provider asks whether a payment would be taken."""

    code = _TYPED
    amount_cents = fields.AnySum("Shillings. Default: any amount.", data_key="amount", allow_none=True)
    phone_number = fields.PhoneNumber("The payer: `+256` and nine digits.", allow_none=True)


class _Lenient(fields.Field[Any]):
    """A field of a signed notice: what cannot be read is null, because money that came is never turned away for it."""

    json_schema: dict[str, Any] = {}

    def __init__(self, meaning: str, read: Callable[[Any], Any]) -> None:
        super().__init__(meaning, load_default=None, allow_none=True)
        self._read = read

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        return self._read(value)


class _Receipt(fields.Field[str]):
    """A provider's receipt: a text or a number, at most 200 characters, with a letter or a digit."""

    json_schema = {"type": ["string", "integer"], "minLength": 1, "maxLength": 200}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = _text(value) or ""
        if not canonical_receipt(text) or len(text) > LONGEST_RECEIPT:
            raise ValidationError("Must be the provider's receipt, of at most 200 characters.")
        return text


def _text(value: Any) -> str | None:
    """A text, or a number as one, without control characters and ends of spaces; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    letters = "".join(letter for letter in f"{value}" if unicodedata.category(letter) not in ("Cc", "Cs"))
    return letters.strip()


def _shortened(value: Any) -> str | None:
    text = _text(value)
    return None if text is None else text[:_LONGEST_TYPED]


def _number(value: Any) -> str | None:
    """A Ugandan phone number, however it is written; None for a masked, hashed or foreign one."""
    return phone_number(_text(value) or "")


def _moment(value: Any) -> datetime | None:
    """A time, Kampala's where it has no offset; None for what is no time."""
    try:
        moment = datetime.fromisoformat(_text(value) or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=KAMPALA)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class NotifyPaymentBody(fields.Body):
    """A provider reports that a payer has paid. Without an upper bound: money that came must not be refused.

    Unknown fields are left out.
    """

    class Meta:
        unknown = EXCLUDE
        ordered = True

    provider_transaction_id = _Receipt("The provider's receipt; each is booked once.", required=True)
    code = _Lenient("What the payer typed as the reason.", _shortened)
    amount_cents = fields.AnySum("Shillings.", required=True, data_key="amount")
    phone_number = _Lenient("The payer: `+256` and nine digits; null where the provider does not say it.", _number)
    name = _Lenient("The payer's name.", _shortened)
    at = _Lenient("When the payer paid: an ISO 8601 time, Kampala's without an offset. Default: now.", _moment)
