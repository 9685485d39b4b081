"""What a client may order at MTN: the kinds of payment, and the reading of their bodies."""

import re
from dataclasses import dataclass
from typing import Any

from simulators.mtn.errors import malformed, refusal

AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,2})?")
NOTE = re.compile(r"[A-Za-z0-9 .,-]{0,128}")
PARTIES = {
    "MSISDN": re.compile(r"[0-9]{8,15}"),
    "EMAIL": re.compile(r"[^@\s]+@[^@\s]+"),
    "PARTY_CODE": re.compile(r"[0-9A-Fa-f-]{36}"),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of payment: the product it belongs to, and the field that names the other side."""

    name: str
    product: str
    party_field: str


REQUEST_TO_PAY = Kind("requesttopay", "collection", "payer")
TRANSFER = Kind("transfer", "disbursement", "payee")
DEPOSIT = Kind("deposit", "disbursement", "payee")
REFUND = Kind("refund", "disbursement", "")
KINDS = (REQUEST_TO_PAY, TRANSFER, DEPOSIT, REFUND)


@dataclass(frozen=True, slots=True)
class Order:
    """A payment a client asked for; `details` are the fields that every answer about it repeats."""

    kind: Kind
    amount_cents: int
    party: str
    original: str
    details: dict[str, Any]


def read_order(kind: Kind, body: object, currency: str) -> Order:
    """Read the body of a submission; 400 for what is malformed, 500 INVALID_CURRENCY for another currency."""
    if not isinstance(body, dict):
        raise malformed("the body is an object")
    amount = body.get("amount")
    if not isinstance(amount, str) or not AMOUNT.fullmatch(amount):
        raise malformed("amount is a string of digits")
    whole, _, fraction = amount.partition(".")
    amount_cents = int(whole) * 100 + int(fraction.ljust(2, "0"))
    if amount_cents == 0 or (currency == "UGX" and amount_cents % 100):
        raise malformed("amount is positive, and whole where the currency has no smaller unit")
    details = {"amount": amount, "currency": body.get("currency")}
    for name in ("externalId", "payerMessage", "payeeNote"):
        text = body.get(name, "")
        if not isinstance(text, str) or (name != "externalId" and not NOTE.fullmatch(text)):
            raise malformed(f"{name} is a short text without special characters")
        details[name] = text
    party = original = ""
    if kind.party_field:
        details[kind.party_field], party = _party(body.get(kind.party_field))
    else:
        original = body.get("referenceIdToRefund", "")
        if not isinstance(original, str) or not original:
            raise malformed("referenceIdToRefund is a text")
    if details["currency"] != currency:
        raise refusal(500, "INVALID_CURRENCY")
    return Order(kind, amount_cents, party, original, details)


def _party(party: object) -> tuple[dict[str, str], str]:
    kind = party.get("partyIdType") if isinstance(party, dict) else None
    name = party.get("partyId") if isinstance(party, dict) else None
    if kind not in PARTIES or not isinstance(name, str) or not PARTIES[kind].fullmatch(name):
        raise malformed("the party is a type and an id, a number without a plus sign")
    return {"partyIdType": kind, "partyId": name}, name
