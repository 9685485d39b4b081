"""Puts the house together: the only place that knows all the rooms."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Flask, Response, g, request
from flask.json.provider import JSONProvider
from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute, RateLimitItemPerSecond
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.middleware.proxy_fix import ProxyFix

from ussd_server.adapters.addresses import AddressGuard
from ussd_server.adapters.client_server import ClientServer
from ussd_server.adapters.providers.prediction import predict
from ussd_server.adapters.providers.sandbox import SandboxProvider
from ussd_server.adapters.transport import Transport
from ussd_server.blueprints.balances import balances
from ussd_server.blueprints.clients import clients, logins
from ussd_server.blueprints.collection import collection
from ussd_server.blueprints.doors import refuse
from ussd_server.blueprints.gateways import gateways
from ussd_server.blueprints.menus import menus
from ussd_server.blueprints.ops import ops
from ussd_server.blueprints.transactions import transactions
from ussd_server.blueprints.ussd import ussd
from ussd_server.blueprints.webhooks import webhooks
from ussd_server.models.base import DATABASE_TROUBLE, close_connections, database_now, open_database, release_connection
from ussd_server.rpc.bell import Bell
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import request_id_from
from ussd_server.rpc.keyring import Keyring
from ussd_server.rpc.limiter import Limiter, Policy, SlidingLogStorage
from ussd_server.rpc.observe import begin_call, end_call, trace_of
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.api_keys import ApiKeyService
from ussd_server.services.audit import AuditService
from ussd_server.services.auth import AuthService
from ussd_server.services.balances import BalanceService
from ussd_server.services.channels import ChannelService
from ussd_server.services.clients import ClientService
from ussd_server.services.conversations import Conversations
from ussd_server.services.credentials import Vault
from ussd_server.services.deeds import Deeds
from ussd_server.services.deliveries import DeliveryService
from ussd_server.services.events import EventService
from ussd_server.services.fanout import FanOut
from ussd_server.services.gateways import GatewayService
from ussd_server.services.health import HealthService
from ussd_server.services.house_keys import HouseKeyService
from ussd_server.services.logins import LoginService
from ussd_server.services.menus import MenuService
from ussd_server.services.providers import Providers
from ussd_server.services.sessions import Sessions
from ussd_server.services.settlement import Settlement
from ussd_server.services.transactions import TransactionService
from ussd_server.services.ussd import UssdService
from ussd_server.services.webhooks import WebhookService
from ussd_server.settings import Settings

log = logging.getLogger(__name__)

_WINDOWS: dict[str, tuple[RateLimitItem, ...]] = {
    # Fixed by the API document.
    "api-key": (RateLimitItemPerMinute(100), RateLimitItemPerHour(1000)),
    "wrong-secret": (RateLimitItemPerMinute(100), RateLimitItemPerHour(1000)),
    # A console page makes several calls at once; no program needs more of the management calls.
    "access-token": (RateLimitItemPerMinute(600), RateLimitItemPerHour(10_000)),
    # Guessing is slowed for one address and one name together: nobody can lock a person out from somewhere else.
    "login-pair": (RateLimitItemPerMinute(10, 15),),
    "login-address": (RateLimitItemPerMinute(60), RateLimitItemPerHour(600)),
    "channel": (RateLimitItemPerMinute(12_000),),
}


@dataclass(frozen=True, slots=True)
class Services:
    """Every service of the house, and the few things that the doors use directly."""

    settings: Settings
    clock: Clock
    limiter: Limiter
    auth: AuthService
    logins: LoginService
    clients: ClientService
    api_keys: ApiKeyService
    audit: AuditService
    house_keys: HouseKeyService
    channels: ChannelService
    menus: MenuService
    ussd: UssdService
    gateways: GatewayService
    health: HealthService
    bell: Bell
    transactions: TransactionService
    balances: BalanceService
    settlement: Settlement
    webhooks: WebhookService
    events: EventService
    fanout: FanOut
    deliveries: DeliveryService


class _Json(JSONProvider):
    """JSON by orjson, in the order in which it was put together."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        return orjson.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        (obj,) = args
        return Response(orjson.dumps(obj), mimetype="application/json")


def build_services(settings: Settings, clock: Clock | None = None) -> Services:
    """Make every service from the settings and open the database; nothing is connected yet."""
    clock = clock or Clock()
    open_database(
        settings.database_url,
        max_connections=settings.threads + settings.worker_threads + settings.delivery_slots + 4,
    )
    keyring = Keyring.create(settings.secrets_file) if settings.is_sandbox else Keyring(settings.secrets_file)
    storage = SlidingLogStorage(settings.redis_url)
    companies = [SandboxProvider(clock.now)] if settings.is_sandbox else []
    policies = [Policy(name, items) for name, items in _WINDOWS.items()]
    policies += [
        Policy(f"provider:{company.name}", (RateLimitItemPerSecond(int(company.pace.per_second)),)) for company in companies
    ]
    limiter = Limiter(storage, policies, settings.workers)
    tokens = Tokens(keyring)
    vault = Vault(keyring)
    bell = Bell(settings.redis_url, lambda: limiter.away)
    providers = Providers(companies, predict)
    guard = AddressGuard(allow_private=settings.allow_private_addresses)
    payments = TransactionService(providers, tokens, clock, bell.ring, waiting_calls=settings.threads // 2)
    accounts = BalanceService(clock)
    channels = ChannelService(vault, clock)
    sessions = Sessions(keyring, clock, settings.session_idle_seconds, settings.session_life_seconds)
    deeds = Deeds(payments, accounts, providers, ClientServer(Transport(guard)), keyring, clock)
    conversations = Conversations(sessions, deeds, clock)
    return Services(
        settings=settings,
        clock=clock,
        limiter=limiter,
        auth=AuthService(vault, tokens, limiter, clock),
        logins=LoginService(tokens, limiter, clock),
        clients=ClientService(tokens, clock),
        api_keys=ApiKeyService(vault, clock),
        audit=AuditService(tokens),
        house_keys=HouseKeyService(keyring, vault),
        channels=channels,
        menus=MenuService(guard, clock, settings.session_life_seconds),
        ussd=UssdService(sessions, conversations, tokens, clock),
        gateways=GatewayService(channels, sessions, conversations, limiter),
        health=HealthService(limiter),
        bell=bell,
        transactions=payments,
        balances=accounts,
        settlement=Settlement(providers, clock, lambda name: limiter.hit(f"provider:{name}", "all").accepted),
        webhooks=WebhookService(guard, vault, clock),
        events=EventService(tokens, clock),
        fanout=FanOut(vault, clock),
        deliveries=DeliveryService(
            vault,
            Transport(guard, max_connections=settings.delivery_slots),
            clock,
            settings.delivery_slots,
        ),
    )


def anchor_clock(clock: Clock) -> None:
    """Set the service's clock by the database's; without a database it keeps the machine's time until the next try."""
    try:
        clock.anchor(database_now())
    except DATABASE_TROUBLE:
        log.warning("the clock could not be set by the database")
    finally:
        release_connection()


def create_app(services: Services) -> Flask:
    """The Flask application around `services`."""
    app = Flask("ussd_server", static_folder=None)
    app.json = _Json(app)
    app.url_map.merge_slashes = False
    app.extensions["ussd_server"] = services
    if services.settings.trusted_proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=services.settings.trusted_proxies, x_proto=1)  # type: ignore[method-assign]
    _register_doors(app)
    _register_hooks(app)
    _register_refusals(app)
    return app


def _register_doors(app: Flask) -> None:
    for room in (gateways, ussd, menus, ops, transactions, collection, balances, logins, clients, webhooks):
        app.register_blueprint(room)


def _register_hooks(app: Flask) -> None:
    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()
        g.request_id = request_id_from(request.headers.get("X-Request-Id"))
        begin_call(g.request_id)

    @app.after_request
    def finish(response: Response) -> Response:
        response.headers["X-Request-Id"] = g.request_id
        response.headers.extend(g.pop("headers", {}))
        if request.path.startswith("/api/clients/"):
            response.headers["Cache-Control"] = "no-store"
        end_call(
            endpoint=request.endpoint or "unknown",
            status=response.status_code,
            code=g.pop("code", "OK"),
            client_id=g.pop("client_id", None),
            took_ms=(time.perf_counter() - g.began) * 1000,
        )
        return response

    @app.teardown_appcontext
    def give_back(_: BaseException | None) -> None:
        release_connection()


def _register_refusals(app: Flask) -> None:
    app.register_error_handler(ServiceError, refuse)

    @app.errorhandler(HTTPException)
    def refuse_by_flask(error: HTTPException) -> Response:
        if isinstance(error, MethodNotAllowed):
            response = refuse(ServiceError(Code.METHOD_NOT_ALLOWED, "Method not allowed"))
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
            return response
        if error.code == Code.NOT_FOUND.http_status:
            return refuse(ServiceError(Code.NOT_FOUND, "Not found"))
        return refuse(ServiceError(Code.INVALID_REQUEST, "The request could not be understood"))

    @app.errorhandler(Exception)
    def refuse_after_trouble(error: Exception) -> Response:
        if isinstance(error, DATABASE_TROUBLE):
            log.error("the database is away: %s", type(error).__name__)
            close_connections()
            return refuse(
                ServiceError(Code.SERVICE_UNAVAILABLE, "Service temporarily unavailable", retry_after_seconds=1)
            )
        log.error("a call failed by a mistake of ours: %s", trace_of(error))
        return refuse(ServiceError(Code.INTERNAL_ERROR, "Internal error"))
