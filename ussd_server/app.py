"""The web application: every door of the house, and what each call passes on its way in and out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from typing import Any, NamedTuple

import orjson
from flask import Flask, Response, request
from flask.json.provider import JSONProvider
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.wrappers import Request

from ussd_server.api.bodies import read_body
from ussd_server.api.endpoints import refusal
from ussd_server.api.requests import ApiRequest, ApiResponse, current_api_request
from ussd_server.blueprints.balances import balances
from ussd_server.blueprints.callbacks import callbacks
from ussd_server.blueprints.clients import clients, logins
from ussd_server.blueprints.collection import collection
from ussd_server.blueprints.gateways import gateways
from ussd_server.blueprints.menus import menus
from ussd_server.blueprints.openapi import openapi
from ussd_server.blueprints.ops import ops
from ussd_server.blueprints.transactions import transactions
from ussd_server.blueprints.ussd import ussd
from ussd_server.blueprints.webhooks import webhooks
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import DATABASE_TROUBLE, close_connections, release_connection
from ussd_server.logs import logger, trace_of
from ussd_server.status import Code, ServiceError

log = logger(__name__)

_MOST_VARIABLES = 2
# werkzeug takes any number of slashes at the beginning, or none, for one. A proxy that guards a path does not.
_PATH = re.compile("/(?!/)")


class _Json(JSONProvider):
    """JSON by orjson, in the order in which it was put together."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        return orjson.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        (obj,) = args
        return Response(orjson.dumps(obj), mimetype="application/json")


class _ShortWay(NamedTuple):
    """A route that is found without Flask: by its path, or by what stands before the variables at the path's end."""

    endpoint: str
    answer: Callable[..., ApiResponse]
    variables: tuple[str, ...]


class _Application(Flask):
    """Flask, and a short way in front of it.

    On the short way a call meets the same door, view and refusals, and none of Flask's routing, contexts and response
    objects, which take longer than the door (docs/PERFORMANCE.md). What it does not lead to is Flask's to answer.
    """

    def __init__(self, services: Services) -> None:
        super().__init__("ussd_server", static_folder=None)
        self.json = _Json(self)
        self.url_map.merge_slashes = False
        self._house = services

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one call."""
        api_request = ApiRequest(self._house, environ)
        way, values = self._find_way(environ)
        endpoint = "unknown" if way is None else way.endpoint
        try:
            if way is None:
                if not _PATH.match(environ["PATH_INFO"]):
                    raise ServiceError(Code.NOT_FOUND, "Not found")
                environ["wsgi.input"] = BytesIO(read_body(Request(environ)))
                return super().wsgi_app(environ, start_response)
            given = way.answer(api_request, **dict(zip(way.variables, values, strict=True)))
        except Exception as error:
            given = refusal(_refusal_of(error), api_request)
        finally:
            release_connection()
        headers = [("Content-Type", given.content_type), ("Content-Length", str(len(given.body)))]
        start_response(given.status_line, [*headers, *given.headers, *api_request.end(endpoint, given.status)])
        # gunicorn sends what it is given: a proxy would read this body as the answer to its next request.
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [given.body]

    def _find_way(self, environ: dict[str, Any]) -> tuple[_ShortWay | None, list[str]]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if environ.get("SCRIPT_NAME") or not path.isascii():
            return None, []
        for variables in range(_MOST_VARIABLES + 1):
            head, *values = path.rsplit("/", variables)
            way = self._short_ways.get((method, head, len(values)))
            if way is not None and all(values):
                return way, values
        return None, []

    @cached_property
    def _short_ways(self) -> dict[tuple[str, str, int], _ShortWay]:
        ways = {}
        for rule in self.url_map.iter_rules():
            answer = getattr(self.view_functions[rule.endpoint], "on_exchange", None)
            head, *variables = re.split("/<([a-z_]+)>", rule.rule)
            names = tuple(variables[::2])
            if answer is None or any(variables[1::2]) or len(names) > _MOST_VARIABLES:
                continue
            for method in (rule.methods or set()) - {"HEAD"}:
                ways[method, head, len(names)] = _ShortWay(rule.endpoint, answer, names)
        return ways


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
        response.headers.update(list(current_api_request().end(request.endpoint or "unknown", response.status_code)))
        return response

    @app.teardown_appcontext
    def give_back(_: BaseException | None) -> None:
        release_connection()


def _register_refusals(app: Flask) -> None:
    @app.errorhandler(Exception)
    def refuse(error: Exception) -> Response:
        response = refusal(_refusal_of(error), current_api_request()).as_response()
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
