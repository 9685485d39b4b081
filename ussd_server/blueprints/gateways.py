"""The door of phone companies: the path is the credential, and the answer is always a screen in their own language."""

from __future__ import annotations

from flask import Blueprint, Response, request

from ussd_server.blueprints.bodies import read_body
from ussd_server.blueprints.doors import speaks
from ussd_server.blueprints.turns import present_turn, services
from ussd_server.messages.gateways import GatewayRequest
from ussd_server.rpc.status import ServiceError

gateways = Blueprint("gateways", __name__)


@gateways.route("/ussd/<adapter>/<channel_secret>", methods=["GET", "POST"], provide_automatic_options=False)
@speaks("text/plain", "application/json")
def take_step(adapter: str, channel_secret: str) -> Response:
    """One step of a phone conversation; 404 for a path that is nobody's, else 200 with a screen."""
    reply = services().gateways.answer(adapter, channel_secret, _foreign_request(), present_turn().request_id)
    response = Response(reply.body, content_type=reply.content_type)
    response.headers.extend(reply.headers)
    return response


@gateways.route("/ussd/<adapter>/<channel_secret>/events", methods=["POST"], provide_automatic_options=False)
@speaks("text/plain")
def take_report(adapter: str, channel_secret: str) -> Response:
    """A phone company's report on a session that ended."""
    services().gateways.hear(adapter, channel_secret, _foreign_request())
    return Response(status=200, content_type="text/plain; charset=utf-8")


def _foreign_request() -> GatewayRequest:
    """What the company sent; a body that is too large or breaks off counts as empty, because a phone needs a screen."""
    try:
        body = read_body(request)
    except ServiceError:
        body = b""
    return GatewayRequest(request.method, request.query_string, body)
