"""Receives the callbacks of providers. The path is the credential; every callback gets the same reply at once."""

from __future__ import annotations

from flask import Blueprint

from ussd_server.api.bodies import read_body
from ussd_server.api.endpoints import speaks
from ussd_server.api.requests import ApiRequest, ApiResponse, takes_api_request
from ussd_server.services.settlement.messages import Callback

callbacks = Blueprint("callbacks", __name__)


@callbacks.route("/callbacks/<provider>/<callback_secret>", methods=["PUT", "POST"], provide_automatic_options=False)
@speaks("application/json")
@takes_api_request
def receive_callback(api_request: ApiRequest, provider: str, callback_secret: str) -> ApiResponse:
    """A report of MTN or Airtel about a payment. The service queries the provider for the status. 404: unknown path."""
    callback = Callback(provider, callback_secret, read_body(api_request.environ))
    api_request.services.callbacks.receive(callback)
    return ApiResponse(200, b"{}")
