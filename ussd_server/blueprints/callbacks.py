"""Receives the callbacks of providers and of the sender of messages.

The path is the credential; every callback gets the same reply at once.
"""

from __future__ import annotations

from flask import Blueprint, Response, request

from ussd_server.api.endpoints import speaks
from ussd_server.api.requests import services
from ussd_server.services.settlement.messages import Callback

callbacks = Blueprint("callbacks", __name__)


@callbacks.route("/callbacks/<provider>/<callback_secret>", methods=["PUT", "POST"])
@speaks("application/json")
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
