"""Endpoints for payment codes."""

from __future__ import annotations

from schemas.incoming import ListPaymentCodesQuery, PutPaymentCodeBody
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.incoming.messages import ListPaymentCodes, PaymentCodeView, PutPaymentCode
from ussd_server.wire import DeletionResult, Page

payment_codes = ApiBlueprint("payment_codes", authenticate_api_key)


@payment_codes.call(
    "GET", "/api/payment-codes", needs="collection:read", query=ListPaymentCodesQuery, message="Payment codes"
)
def list_payment_codes(request: ListPaymentCodes, context: RequestContext) -> Page[PaymentCodeView]:
    """The codes with which payers pay the client by themselves, newest first."""
    return services().payment_codes.list(request, context)


@payment_codes.call(
    "PUT", "/api/payment-codes/<code>", needs="collection:write", takes=PutPaymentCodeBody, message="Payment code saved"
)
def put_payment_code(request: PutPaymentCode, context: RequestContext) -> PaymentCodeView:
    """Create a payment code, or replace what it says. It begins with the prefix that the operator gave the client."""
    return services().payment_codes.put(request, context)


@payment_codes.call("GET", "/api/payment-codes/<code>", needs="collection:read", message="Payment code")
def get_payment_code(code: str, context: RequestContext) -> PaymentCodeView:
    """One payment code."""
    return services().payment_codes.get(code, context)


@payment_codes.call("DELETE", "/api/payment-codes/<code>", needs="collection:write", message="Payment code deleted")
def delete_payment_code(code: str, context: RequestContext) -> DeletionResult:
    """Remove a payment code; what comes with it from now on is held for the operators."""
    return services().payment_codes.delete(code, context)
