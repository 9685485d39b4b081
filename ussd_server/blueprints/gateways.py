"""The door of phone companies: the path is the credential, and the answer is always a screen in their own language."""

from __future__ import annotations

from flask import Blueprint

from ussd_server.api.bodies import read_body
from ussd_server.api.endpoints import speaks
from ussd_server.api.requests import ApiRequest, ApiResponse, takes_api_request
from ussd_server.messages.gateways import GatewayRequest
from ussd_server.status import ServiceError

gateways = Blueprint("gateways", __name__)


@gateways.route("/ussd/<adapter>/<channel_secret>", methods=["GET", "POST"], provide_automatic_options=False)
@speaks("text/plain", "application/json")
@takes_api_request
def take_step(api_request: ApiRequest, adapter: str, channel_secret: str) -> ApiResponse:
    """One step of a phone conversation; 404 for a path that is nobody's, else 200 with a screen."""
    reply = api_request.services.ussd.gateways.answer(
        adapter, channel_secret, _foreign(api_request), api_request.request_id
    )
    return ApiResponse(200, reply.body, reply.headers.items(), reply.content_type)


@gateways.route("/ussd/<adapter>/<channel_secret>/events", methods=["POST"], provide_automatic_options=False)
@speaks("text/plain")
@takes_api_request
def take_report(api_request: ApiRequest, adapter: str, channel_secret: str) -> ApiResponse:
    """A phone company's report on a session that ended."""
    api_request.services.ussd.gateways.record_end(adapter, channel_secret, _foreign(api_request))
    return ApiResponse(200, b"", content_type="text/plain; charset=utf-8")


def _foreign(api_request: ApiRequest) -> GatewayRequest:
    """What the company sent; a body that is too large or breaks off counts as empty, because a phone needs a screen."""
    try:
        body = read_body(api_request.request) if api_request.has_body else b""
    except ServiceError:
        body = b""
    environ = api_request.environ
    query = environ.get("QUERY_STRING", "").encode("latin1")
    return GatewayRequest(environ["REQUEST_METHOD"], query, body, api_request.address)
