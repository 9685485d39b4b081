"""The door of money companies: the path is the credential, and every callback is answered at once in the same way."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from ussd_server.api.bodies import read_body
from ussd_server.api.endpoints import speaks
from ussd_server.api.requests import services
from ussd_server.messages.callbacks import Callback

callbacks = Blueprint("callbacks", __name__)


@callbacks.route("/callbacks/<company>/<callback_secret>", methods=["PUT", "POST"], provide_automatic_options=False)
@speaks("application/json")
def hear_callback(company: str, callback_secret: str) -> Response:
    """A money company's word about a payment, which is asked about; 404 for a path that is nobody's."""
    services().transactions.callbacks.hear(Callback(company, callback_secret, read_body(request)))
    return jsonify({})
