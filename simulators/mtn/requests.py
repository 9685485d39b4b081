"""Requests to MTN: the kinds of payment, and the checks of headers and bodies.

Refusals are `{statusCode, message}` from MTN's gateway, `{code, message}` from its wallet platform.
"""

import re
import uuid
from dataclasses import dataclass

from flask import request

from simulators.book import RequestedPayment
from simulators.standin import RefusalError, json_body

AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,2})?")
NOTE = re.compile(r"[A-Za-z0-9 .,-]{0,128}")
PARTIES = {
    "MSISDN": re.compile(r"[0-9]{8,15}"),
    "EMAIL": re.compile(r"[^@\s]+@[^@\s]+"),
    "PARTY_CODE": re.compile(r"[0-9A-Fa-f-]{36}"),
}
USUAL_CODES = {
    404: "RESOURCE_NOT_FOUND",
    409: "RESOURCE_ALREADY_EXIST",
    500: "INTERNAL_PROCESSING_ERROR",
    503: "SERVICE_UNAVAILABLE",
}


@dataclass(frozen=True, slots=True)
class MtnPaymentKind:
    """A kind of payment: its product, and the field that names the payer or payee."""

    name: str
    product: str
    party_field: str


REQUEST_TO_PAY = MtnPaymentKind("requesttopay", "collection", "payer")
TRANSFER = MtnPaymentKind("transfer", "disbursement", "payee")
DEPOSIT = MtnPaymentKind("deposit", "disbursement", "payee")
REFUND = MtnPaymentKind("refund", "disbursement", "")
KINDS = (REQUEST_TO_PAY, TRANSFER, DEPOSIT, REFUND)


def error_body(status: int, code: str = "") -> dict[str, str | int]:
    """Returns the platform's error body, or the gateway's where no code belongs to the status."""
    code = code or USUAL_CODES.get(status, "")
    if not code:
        return {"statusCode": status, "message": "The gateway refused this call."}
    return {"code": code, "message": f"Refused: {code.replace('_', ' ').lower()}."}


def refusal(status: int, code: str = "") -> RefusalError:
    """Returns an error to raise."""
    return RefusalError(status, error_body(status, code))


def malformed(what: str) -> RefusalError:
    """Returns a 400 to raise; `what` is the rule that the request breaks."""
    return RefusalError(400, {"statusCode": 400, "message": f"Malformed: {what}."})


def reference_id() -> str:
    """Returns X-Reference-Id, which must be a version 4 UUID in its usual form."""
    text = request.headers.get("X-Reference-Id", "")
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        raise malformed("X-Reference-Id is a version 4 UUID") from None
    if parsed.version != 4 or str(parsed) != text.lower():
        raise malformed("X-Reference-Id is a version 4 UUID")
    return str(parsed)


def read_json() -> object:
    """Returns the body as JSON, or raises a 400."""
    if request.mimetype != "application/json":
        raise malformed("the content type is application/json")
    try:
        return json_body()
    except ValueError:
        raise malformed("the body is JSON") from None


def refuse_a_body() -> None:
    """Raise a 400 for a body where none belongs; allows `{}` and `null`, which real clients send."""
    try:
        superfluous = json_body() not in (None, {})
    except ValueError:
        superfluous = True
    if superfluous:
        raise malformed("this call takes no body")


def read_payment(kind: MtnPaymentKind, reference: str, body: object, currency: str) -> RequestedPayment:
    """Read the body of a submission; `details` are the fields that every status of the payment repeats.

    Raises a 400 for a malformed body, a 500 INVALID_CURRENCY for another currency.
    """
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
    return RequestedPayment(
        reference=reference,
        kind=kind.name,
        amount_cents=amount_cents,
        party=party,
        original=original.lower(),
        details=details,
    )


def _party(party: object) -> tuple[dict[str, str], str]:
    kind = party.get("partyIdType") if isinstance(party, dict) else None
    name = party.get("partyId") if isinstance(party, dict) else None
    if kind not in PARTIES or not isinstance(name, str) or not PARTIES[kind].fullmatch(name):
        raise malformed("the party is a type and an id, a number without a plus sign")
    return {"partyIdType": kind, "partyId": name}, name
