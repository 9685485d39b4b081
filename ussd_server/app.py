"""The web application: every door of the house, and what each call passes on its way in and out."""

from __future__ import annotations

import time
from typing import Any

import orjson
from flask import Flask, Response, g, request
from flask.json.provider import JSONProvider
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.middleware.proxy_fix import ProxyFix

from ussd_server.blueprints.balances import balances
from ussd_server.blueprints.callbacks import callbacks
from ussd_server.blueprints.clients import clients, logins
from ussd_server.blueprints.collection import collection
from ussd_server.blueprints.doors import refuse
from ussd_server.blueprints.gateways import gateways
from ussd_server.blueprints.menus import menus
from ussd_server.blueprints.openapi import openapi
from ussd_server.blueprints.ops import ops
from ussd_server.blueprints.transactions import transactions
from ussd_server.blueprints.ussd import ussd
from ussd_server.blueprints.webhooks import webhooks
from ussd_server.house import Services
from ussd_server.models.base import DATABASE_TROUBLE, close_connections, release_connection
from ussd_server.rpc.context import request_id_from
from ussd_server.rpc.logs import logger, now_about, trace_of
from ussd_server.rpc.observe import end_call
from ussd_server.rpc.status import Code, ServiceError

log = logger(__name__)


class _Json(JSONProvider):
    """JSON by orjson, in the order in which it was put together."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        return orjson.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        (obj,) = args
        return Response(orjson.dumps(obj), mimetype="application/json")


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
    for_programs = (transactions, collection, balances, ussd, menus, webhooks)
    for room in (logins, clients, *for_programs, gateways, callbacks, ops, openapi):
        app.register_blueprint(room)


def _register_hooks(app: Flask) -> None:
    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()
        g.request_id = request_id_from(request.headers.get("X-Request-Id"))
        now_about(request_id=g.request_id)

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
            log.error("the database is away", error=type(error).__name__)
            close_connections()
            return refuse(
                ServiceError(Code.SERVICE_UNAVAILABLE, "Service temporarily unavailable", retry_after_seconds=1)
            )
        log.error("a call failed by a mistake of ours", error=trace_of(error))
        return refuse(ServiceError(Code.INTERNAL_ERROR, "Internal error"))
