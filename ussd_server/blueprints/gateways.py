"""Endpoints for gateways: the path is the credential, and every reply is a screen in the gateway's format."""

from __future__ import annotations

from flask import Blueprint, Response, request

from ussd_server.api.endpoints import speaks
from ussd_server.api.requests import current_request, services
from ussd_server.gateways.messages import GatewayRequest

gateways = Blueprint("gateways", __name__)


@gateways.route("/ussd/<adapter>/<channel_secret>", methods=["GET", "POST"])
@speaks("text/plain", "application/json")
def take_step(adapter: str, channel_secret: str) -> Response:
    """Answer a step: 404 for an unknown path, else 200 with a screen."""
    reply = services().gateways.answer(adapter, channel_secret, _gateway_request(), current_request().request_id)
    return Response(reply.body, headers=reply.headers, content_type=reply.content_type)


@gateways.route("/ussd/<adapter>/<channel_secret>/events", methods=["POST"])
@speaks("text/plain")
def take_report(adapter: str, channel_secret: str) -> Response:
    """Record a gateway's report on an ended session."""
    services().gateways.record_end(adapter, channel_secret, _gateway_request())
    return Response(b"", content_type="text/plain; charset=utf-8")


def _gateway_request() -> GatewayRequest:
    return GatewayRequest(request.method, request.query_string, request.get_data(), request.remote_addr or "")
