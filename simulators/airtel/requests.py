"""Airtel's bodies: requests are read and checked, and every response is `{data, status}`.

Subscriber numbers have nine digits, amounts are numbers. `status` is that of the call and never of the payment.
"""

import re
from collections.abc import Mapping
from typing import Any

from flask import request

from simulators.airtel.scenarios import UNKNOWN_SUBSCRIBER, magic
from simulators.book import RequestedPayment
from simulators.standin import RefusalError, json_body

PUSH, PAYOUT, REFUND = "payment", "disbursement", "refund"
MSISDN = re.compile(r"[0-9]{9}")
REFERENCE = re.compile(r"[A-Za-z0-9 ._-]{4,64}")
ID = re.compile(r"[A-Za-z0-9._-]{5,80}")
HIGHEST_AMOUNT = 10**12
DONE = "ESB000010"
USUAL_CODES = {400: "ESB000008", 401: "ROUTER001", 404: "ROUTER119", 405: "ROUTER119", 503: "ESB000001"}
MALFORMED, BAD_MSISDN, BAD_COUNTRY, BAD_CURRENCY = "ESB000008", "ESB000033", "ESB000034", "ESB000035"


def envelope(
    data: Mapping[str, Any] | None,
    response_code: str = "",
    *,
    result_code: str = DONE,
    message: str = "SUCCESS",
    success: bool = True,
    status: int = 200,
) -> dict[str, Any]:
    """Returns a response body; without `data` when it is None."""
    call = {
        "code": str(status),
        "message": message,
        "response_code": response_code,
        "result_code": result_code,
        "success": success,
    }
    return {"status": call} if data is None else {"data": dict(data), "status": call}


def error_body(status: int, code: str = "") -> dict[str, Any]:
    """Returns an error of the call: codes that begin with DP as response code, others as result code."""
    code = code or USUAL_CODES.get(status, "ESB000001")
    if code.startswith("DP"):
        return envelope(None, code, result_code="ESB000011", message="Failed", success=False, status=status)
    return envelope(None, result_code=code, message="Failed", success=False, status=status)


def refusal(status: int, code: str) -> RefusalError:
    """Returns an error to raise."""
    return RefusalError(status, error_body(status, code))


def read_json() -> dict[str, object]:
    """Returns the body, which must be a JSON object."""
    try:
        body = json_body()
    except ValueError:
        body = None
    if not isinstance(body, dict) or request.mimetype != "application/json":
        raise refusal(400, MALFORMED)
    return body


def read_push(body: Mapping[str, Any], country: str, currency: str) -> RequestedPayment:
    """Read the body of a payment push."""
    subscriber, transaction = _object(body, "subscriber"), _object(body, "transaction")
    for part in (subscriber, transaction):
        if part.get("country", country) != country:
            raise refusal(400, BAD_COUNTRY)
        if part.get("currency", currency) != currency:
            raise refusal(400, BAD_CURRENCY)
    return _payment(PUSH, body, transaction, subscriber)


def read_disbursement(body: Mapping[str, Any], currency: str, version: str) -> RequestedPayment:
    """Read the body of a disbursement; from v2 on its type is B2C (to a person) or B2B (to a business)."""
    payee, transaction = _object(body, "payee"), _object(body, "transaction")
    if version != "v1" and transaction.get("type") not in ("B2C", "B2B"):
        raise refusal(400, MALFORMED)
    if payee.get("currency", currency) != currency:
        raise refusal(400, BAD_CURRENCY)
    return _payment(PAYOUT, body, transaction, payee)


def read_refund(body: Mapping[str, Any]) -> str:
    """Returns the provider's own number of the payment to refund."""
    receipt = _object(body, "transaction").get("airtel_money_id")
    if not isinstance(receipt, str) or not receipt:
        raise refusal(400, MALFORMED)
    return receipt


def check_msisdn(msisdn: object) -> str:
    """Returns the subscriber number, which must have nine digits without the country code."""
    if not isinstance(msisdn, str) or not MSISDN.fullmatch(msisdn) or magic(msisdn) == UNKNOWN_SUBSCRIBER:
        raise refusal(400, BAD_MSISDN)
    return msisdn


def _payment(
    kind: str, body: Mapping[str, Any], transaction: Mapping[str, Any], party: Mapping[str, Any]
) -> RequestedPayment:
    amount, name, reference = transaction.get("amount"), transaction.get("id"), body.get("reference")
    if isinstance(amount, float) and amount.is_integer():
        amount = int(amount)
    if not isinstance(amount, int) or isinstance(amount, bool) or not 0 < amount <= HIGHEST_AMOUNT:
        raise refusal(400, MALFORMED)
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise refusal(400, MALFORMED)
    if not isinstance(reference, str) or not REFERENCE.fullmatch(reference):
        raise refusal(400, MALFORMED)
    msisdn = check_msisdn(party.get("msisdn"))
    details = {"reference": reference}
    return RequestedPayment(reference=name, kind=kind, amount_cents=amount * 100, party=msisdn, details=details)


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = body.get(name)
    if not isinstance(part, dict):
        raise refusal(400, MALFORMED)
    return part
