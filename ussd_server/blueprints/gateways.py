"""The door of phone companies: the path is the credential, and the answer is always a screen in their own language."""

from __future__ import annotations

from flask import Blueprint

from ussd_server.blueprints.bodies import read_body
from ussd_server.blueprints.doors import speaks
from ussd_server.blueprints.exchange import Answer, Exchange, on_exchange
from ussd_server.messages.gateways import GatewayRequest
from ussd_server.rpc.status import ServiceError

gateways = Blueprint("gateways", __name__)


@gateways.route("/ussd/<adapter>/<channel_secret>", methods=["GET", "POST"], provide_automatic_options=False)
@speaks("text/plain", "application/json")
@on_exchange
def take_step(exchange: Exchange, adapter: str, channel_secret: str) -> Answer:
    """One step of a phone conversation; 404 for a path that is nobody's, else 200 with a screen."""
    reply = exchange.house.gateways.answer(adapter, channel_secret, _foreign(exchange), exchange.request_id)
    return Answer(200, reply.body, reply.headers.items(), reply.content_type)


@gateways.route("/ussd/<adapter>/<channel_secret>/events", methods=["POST"], provide_automatic_options=False)
@speaks("text/plain")
@on_exchange
def take_report(exchange: Exchange, adapter: str, channel_secret: str) -> Answer:
    """A phone company's report on a session that ended."""
    exchange.house.gateways.hear(adapter, channel_secret, _foreign(exchange))
    return Answer(200, b"", content_type="text/plain; charset=utf-8")


def _foreign(exchange: Exchange) -> GatewayRequest:
    """What the company sent; a body that is too large or breaks off counts as empty, because a phone needs a screen."""
    try:
        body = read_body(exchange.request) if exchange.has_body else b""
    except ServiceError:
        body = b""
    environ = exchange.environ
    query = environ.get("QUERY_STRING", "").encode("latin1")
    return GatewayRequest(environ["REQUEST_METHOD"], query, body, exchange.address)
