"""Receives what providers and the sender of messages send, and keeps the payment codes of what payers send.

The path of what is received is its credential; a notice of money is signed, too.
"""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response, request

from schemas.fields import Body
from schemas.incoming import CheckPaymentBody, ListPaymentCodesQuery, NotifyPaymentBody, PutPaymentCodeBody
from ussd_server.api.endpoints import ApiBlueprint, allow_anyone, authenticate_api_key, replies_in
from ussd_server.api.requests import current_request, load, parse_object, services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.incoming import messages
from ussd_server.services.processing.messages import Callback
from ussd_server.wire import DeletionResult, ListPage, Page, success_envelope, writer

callbacks = ApiBlueprint(
    "callbacks", allow_anyone, "Provider callbacks", "The paths to which providers send callbacks."
)
payment_codes = ApiBlueprint(
    "payment_codes", authenticate_api_key, "Payment codes", "Codes with which payers pay by themselves, as at a till."
)

_CHECK, _NOTICE = CheckPaymentBody(), NotifyPaymentBody()
_write_check, _write_notified = writer(messages.PaymentCheck), writer(messages.NotifiedPayment)


@callbacks.route("/callbacks/<provider>/<callback_secret>", methods=["PUT", "POST"])
@replies_in("application/json")
def receive_callback(provider: str, callback_secret: str) -> Response:
    """A report of MTN or Airtel about a payment. The service queries the provider for the status. 404: unknown path.

    The sender of messages reports deliveries here.
    """
    callback = Callback(provider, callback_secret, request.get_data())
    if services().sms_reports.come_from(provider):
        services().sms_reports.receive(callback)
    else:
        services().callbacks.receive(callback)
    return Response(b"{}", content_type="application/json")


@callbacks.route("/callbacks/<provider>/incoming/<secret>/check", methods=["POST"])
@replies_in("application/json")
def check_payment(provider: str, secret: str) -> Response:
    """A provider asks whether a payment code takes a payment, before the payer pays. 404: unknown path."""
    services().notices.require_path(provider, secret)
    answer = services().notices.check(messages.CheckPayment(**_parts(_CHECK, is_storable=True)))
    return _reply(answer.message, _write_check(answer))


@callbacks.route("/callbacks/<provider>/incoming/<secret>/notify", methods=["POST"])
@replies_in("application/json")
def notify_payment(provider: str, secret: str) -> Response:
    """A provider reports a payment with a payment code, signed by Standard Webhooks. It is booked once, or held."""
    notices = services().notices
    notices.require_path(provider, secret)
    headers = {name.lower(): value for name, value in request.headers}
    notices.require_signature(provider, headers, request.get_data())
    current = current_request()
    context = RequestContext(Caller(CallerKind.NOBODY), current.request_id, current.address)
    answer = notices.notify(messages.NotifyPayment(account=provider, **_parts(_NOTICE, is_storable=False)), context)
    return _reply(f"The payment is {answer.status}", _write_notified(answer))


def _parts(schema: Body, *, is_storable: bool) -> dict[str, Any]:
    document = parse_object(request, request.get_data(), schema.most_values, is_storable=is_storable)
    parts: dict[str, Any] = load(schema, document)
    return parts


def _reply(message: str, data: Any) -> Response:
    return Response(orjson.dumps(success_envelope(message, data)), content_type="application/json")


@payment_codes.call(
    "GET", "/api/payment-codes", needs="collection:read", query=ListPaymentCodesQuery, message="Payment codes"
)
def list_payment_codes(request: ListPage, context: RequestContext) -> Page[messages.PaymentCodeView]:
    """The codes with which payers pay the client by themselves, newest first."""
    return services().payment_codes.list(request, context)


@payment_codes.call(
    "PUT", "/api/payment-codes/<code>", needs="collection:write", takes=PutPaymentCodeBody, message="Payment code saved"
)
def put_payment_code(request: messages.PutPaymentCode, context: RequestContext) -> messages.PaymentCodeView:
    """Create a payment code, or replace what it says. It begins with the prefix that the operator gave the client."""
    return services().payment_codes.put(request, context)


@payment_codes.call("GET", "/api/payment-codes/<code>", needs="collection:read", message="Payment code")
def get_payment_code(code: str, context: RequestContext) -> messages.PaymentCodeView:
    """One payment code."""
    return services().payment_codes.get(code, context)


@payment_codes.call("DELETE", "/api/payment-codes/<code>", needs="collection:write", message="Payment code deleted")
def delete_payment_code(code: str, context: RequestContext) -> DeletionResult:
    """Remove a payment code; what comes with it from now on is held for the operators."""
    return services().payment_codes.delete(code, context)
