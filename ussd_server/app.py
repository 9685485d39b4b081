"""The web application: every door of the house, and what each call passes on its way in and out."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson
from flask import Flask, Response, request
from flask.json.provider import JSONProvider
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.middleware.proxy_fix import ProxyFix

from ussd_server.blueprints.balances import balances
from ussd_server.blueprints.callbacks import callbacks
from ussd_server.blueprints.clients import clients, logins
from ussd_server.blueprints.collection import collection
from ussd_server.blueprints.doors import Route, answer, refusal
from ussd_server.blueprints.gateways import gateways
from ussd_server.blueprints.menus import menus
from ussd_server.blueprints.openapi import openapi
from ussd_server.blueprints.ops import ops
from ussd_server.blueprints.transactions import transactions
from ussd_server.blueprints.turns import Turn, present_turn
from ussd_server.blueprints.ussd import ussd
from ussd_server.blueprints.webhooks import webhooks
from ussd_server.house import Services
from ussd_server.models.base import DATABASE_TROUBLE, close_connections, release_connection
from ussd_server.rpc.logs import logger, trace_of
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


class _Application(Flask):
    """Flask, and a short way in front of it for the routes whose path is always the same.

    On the short way a call meets the same door, view and refusals, and none of Flask's routing, contexts and response
    objects, which take longer than the door (docs/PERFORMANCE.md).
    """

    def __init__(self, house: Services) -> None:
        super().__init__("ussd_server", static_folder=None)
        self.json = _Json(self)
        self.url_map.merge_slashes = False
        self._house = house

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one call."""
        turn = Turn(self._house, environ)
        path = environ["PATH_INFO"] if not environ.get("SCRIPT_NAME") else ""
        endpoint, route = self._short_ways.get((environ["REQUEST_METHOD"], path), ("", None))
        if route is None:
            return super().wsgi_app(environ, start_response)
        try:
            given = answer(route, turn, {})
        except Exception as error:
            given = refusal(_refusal_of(error), turn)
        finally:
            release_connection()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(given.body)))]
        start_response(given.status_line, [*headers, *given.headers, *turn.end(endpoint, given.status)])
        return [given.body]

    @cached_property
    def _short_ways(self) -> dict[tuple[str, str], tuple[str, Route]]:
        rules = [rule for rule in self.url_map.iter_rules() if not rule.arguments]
        return {
            (method, rule.rule): (rule.endpoint, route)
            for rule in rules
            if (route := getattr(self.view_functions[rule.endpoint], "route", None))
            for method in (rule.methods or set()) - {"HEAD"}
        }


def create_app(services: Services) -> Flask:
    """The Flask application around `services`."""
    app = _Application(services)
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
    @app.after_request
    def finish(response: Response) -> Response:
        response.headers.extend(present_turn().end(request.endpoint or "unknown", response.status_code))
        return response

    @app.teardown_appcontext
    def give_back(_: BaseException | None) -> None:
        release_connection()


def _register_refusals(app: Flask) -> None:
    @app.errorhandler(Exception)
    def refuse(error: Exception) -> Response:
        response = refusal(_refusal_of(error), present_turn()).as_response()
        if isinstance(error, MethodNotAllowed):
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
        return response


def _refusal_of(error: Exception) -> ServiceError:
    """The refusal that a caller sees, whatever went wrong; what was no fault of theirs is logged."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, MethodNotAllowed):
        return ServiceError(Code.METHOD_NOT_ALLOWED, "Method not allowed")
    if isinstance(error, HTTPException):
        if error.code == Code.NOT_FOUND.http_status:
            return ServiceError(Code.NOT_FOUND, "Not found")
        return ServiceError(Code.INVALID_REQUEST, "The request could not be understood")
    if isinstance(error, DATABASE_TROUBLE):
        log.error("the database is away", error=type(error).__name__)
        close_connections()
        return ServiceError(Code.SERVICE_UNAVAILABLE, "Service temporarily unavailable", retry_after_seconds=1)
    log.error("a call failed by a mistake of ours", error=trace_of(error))
    return ServiceError(Code.INTERNAL_ERROR, "Internal error")
