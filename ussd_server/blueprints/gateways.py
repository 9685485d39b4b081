"""Endpoints for gateways: the path is the credential, and every reply is a screen in the gateway's format."""

from __future__ import annotations

from flask import Blueprint

from ussd_server.api.bodies import read_body
from ussd_server.api.endpoints import speaks
from ussd_server.api.requests import ApiRequest, ApiResponse, takes_api_request
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.status import ServiceError

gateways = Blueprint("gateways", __name__)


@gateways.route("/ussd/<adapter>/<channel_secret>", methods=["GET", "POST"], provide_automatic_options=False)
@speaks("text/plain", "application/json")
@takes_api_request
def take_step(api_request: ApiRequest, adapter: str, channel_secret: str) -> ApiResponse:
    """Answer a step: 404 for an unknown path, else 200 with a screen."""
    reply = api_request.services.gateways.answer(
        adapter, channel_secret, _gateway_request(api_request), api_request.request_id
    )
    return ApiResponse(200, reply.body, reply.headers.items(), reply.content_type)


@gateways.route("/ussd/<adapter>/<channel_secret>/events", methods=["POST"], provide_automatic_options=False)
@speaks("text/plain")
@takes_api_request
def take_report(api_request: ApiRequest, adapter: str, channel_secret: str) -> ApiResponse:
    """Record a gateway's report on an ended session."""
    api_request.services.gateways.record_end(adapter, channel_secret, _gateway_request(api_request))
    return ApiResponse(200, b"", content_type="text/plain; charset=utf-8")


def _gateway_request(api_request: ApiRequest) -> GatewayRequest:
    """The gateway's request. A body that is too large or incomplete counts as empty, because a phone needs a screen."""
    try:
        body = read_body(api_request.environ) if api_request.has_body else b""
    except ServiceError:
        body = b""
    environ = api_request.environ
    query = environ.get("QUERY_STRING", "").encode("latin1")
    return GatewayRequest(environ["REQUEST_METHOD"], query, body, api_request.address)
