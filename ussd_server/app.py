"""The web application: the blueprints, and what happens to each request before and after its endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from errno import ECONNRESET
from functools import lru_cache
from io import BytesIO
from typing import Any

from flask import Flask
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.middleware.proxy_fix import ProxyFix

from ussd_server.api.bodies import MAX_BODY_BYTES, check_length, read_body
from ussd_server.api.endpoints import refusal
from ussd_server.api.requests import ApiRequest, ApiResponse
from ussd_server.blueprints.balances import balances
from ussd_server.blueprints.callbacks import callbacks
from ussd_server.blueprints.clients import clients, logins
from ussd_server.blueprints.collection import collection
from ussd_server.blueprints.gateways import gateways
from ussd_server.blueprints.menus import menus
from ussd_server.blueprints.openapi import openapi
from ussd_server.blueprints.ops import ops
from ussd_server.blueprints.payouts import client_payouts, payouts
from ussd_server.blueprints.providers import providers
from ussd_server.blueprints.search import search
from ussd_server.blueprints.statements import statements
from ussd_server.blueprints.transactions import transactions
from ussd_server.blueprints.ussd import ussd
from ussd_server.blueprints.webhooks import webhooks
from ussd_server.bootstrap import Services
from ussd_server.console.blueprint import error_page_without_layout, refuse_later
from ussd_server.console.pages import console
from ussd_server.console.session import ConsoleSessions
from ussd_server.database.unit_of_work import DATABASE_TROUBLE, close_connections
from ussd_server.logs import logger, trace_of
from ussd_server.status import Code, ServiceError

log = logger(__name__)

# werkzeug matches a path with any number of leading slashes, or none. A proxy that guards a path does not.
_PATH = re.compile("/(?!/)")
_LONGEST_SEND_SECONDS = 30.0
# Paths whose routes a process keeps: the fixed ones, those of gateways, and the latest ones with an id.
_MOST_ROUTES = 1024


class _Application(Flask):
    """Flask with one way for all requests: routed, refused, logged and released in `wsgi_app`.

    Endpoints that take an `ApiRequest` are called directly, because Flask's contexts and response objects take four
    times as long as the checks of an API request (docs/DECISIONS.md, 47). Pages are ordinary Flask views.
    Flask's hooks and error handlers see pages only: register none.
    """

    def __init__(self, services: Services) -> None:
        super().__init__("ussd_server", static_folder=None)
        self.url_map.merge_slashes = False
        # `wsgi_app` answers the exceptions of pages too.
        self.config.update(PROPAGATE_EXCEPTIONS=True, TRAP_HTTP_EXCEPTIONS=True)
        self._services = services
        self._routes = self.url_map.bind("")
        # werkzeug takes long to match a path, and leaves work for the garbage collector.
        self._route_of = lru_cache(_MOST_ROUTES)(self._find_route)

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one request."""
        api_request = ApiRequest(self._services, environ)
        endpoint = "unknown"
        try:
            endpoint, variables = self._match(api_request)
            view: Any = self.view_functions[endpoint]
            if not hasattr(view, "takes_api_request"):
                return self._show_page(api_request, endpoint, start_response)
            reply: ApiResponse = view(api_request, **variables)
        except Exception as error:
            if endpoint.startswith("console."):
                return self._show_console_error(api_request, endpoint, start_response, error)
            reply = _refused(error, api_request)
        body, headers = reply.body, [("Content-Type", reply.content_type)]
        if isinstance(body, bytes):
            headers.append(("Content-Length", str(len(body))))
        start_response(reply.status_line, [*headers, *reply.headers, *api_request.end(endpoint, reply.status)])
        # gunicorn sends a body in reply to HEAD too: a proxy would read it as the reply to its next request.
        is_head = environ["REQUEST_METHOD"] == "HEAD"
        if isinstance(body, bytes):
            return [] if is_head else [body]
        stream = _Stream(body)
        if is_head:
            stream.close()
            return []
        if connection := environ.get("gunicorn.socket"):
            # A client that stops reading would hold its thread for ever.
            connection.settimeout(_LONGEST_SEND_SECONDS)
        return stream

    def _match(self, api_request: ApiRequest) -> tuple[str, Mapping[str, Any]]:
        environ = api_request.environ
        try:
            return self._route_of(environ["PATH_INFO"], environ["REQUEST_METHOD"])
        except HTTPException:
            # Each request is refused by its size first.
            read_body(environ)
            raise

    def _find_route(self, path: str, method: str) -> tuple[str, Mapping[str, Any]]:
        if not _PATH.match(path):
            raise NotFound
        if not path.isascii():
            path = path.encode("latin1").decode(errors="replace")
        return self._routes.match(path, method)

    def _show_page(self, api_request: ApiRequest, endpoint: str, start_response: Any) -> Any:
        view = self.view_functions[endpoint]
        largest = getattr(view, "max_body_bytes", MAX_BODY_BYTES)
        body: bytes | None = None
        try:
            if getattr(view, "streams_body", False):
                check_length(api_request.request, largest)
            else:
                body = read_body(api_request.environ, largest)
        except ServiceError as error:
            if not endpoint.startswith("console."):
                raise
            body = b""
            refuse_later(api_request.environ, error)
        if body is not None:
            api_request.environ["wsgi.input"] = BytesIO(body)
        return super().wsgi_app(api_request.environ, _starter(api_request, endpoint, start_response))

    def _show_console_error(self, api_request: ApiRequest, endpoint: str, start_response: Any, error: Exception) -> Any:
        refused = _refusal_of(error)
        api_request.code = refused.code.name
        response = error_page_without_layout(self, api_request.environ, refused)
        return response(api_request.environ, _starter(api_request, endpoint, start_response))


def _starter(api_request: ApiRequest, endpoint: str, start_response: Any) -> Any:
    """A WSGI `start_response` that ends the request and adds the headers of every response."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        ours = dict(api_request.end(endpoint, int(status[:3])))
        if endpoint == "console.static_file":
            # Public, and its address changes with its content.
            del ours["Cache-Control"]
        theirs = [header for header in headers if header[0] not in ours]
        return start_response(status, [*theirs, *ours.items()], exc_info)

    return start


class _Stream(Iterator[bytes]):
    """The parts of a long body. The server closes it when all are sent or the client is gone."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def __next__(self) -> bytes:
        try:
            return next(self._parts)
        except StopIteration:
            raise
        except Exception as error:
            # The status is sent. The client recognises an incomplete body by the connection that breaks.
            log.error("a long body could not be sent to its end", error=trace_of(error))
            close_connections()
            raise ConnectionResetError(ECONNRESET, "the body is not whole") from None

    def close(self) -> None:
        """Give up what the parts hold."""
        self._parts.close()  # type: ignore[attr-defined]


def create_app(services: Services) -> Flask:
    """Build the Flask application around `services`."""
    app = _Application(services)
    if services.settings.trusted_proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=services.settings.trusted_proxies, x_proto=1)  # type: ignore[method-assign]
    data_api = (transactions, collection, balances, statements, payouts, ussd, menus, webhooks, search, providers)
    for blueprint in (logins, clients, client_payouts, *data_api, gateways, callbacks, ops, openapi, console):
        app.register_blueprint(blueprint)
    app.session_interface = ConsoleSessions()
    return app


def _refused(error: Exception, api_request: ApiRequest) -> ApiResponse:
    """Return the response to a request that ended with `error`.

    Apart from `wsgi_app`: a frame that raised an error and also holds it lives until the garbage collector runs.
    """
    reply = refusal(_refusal_of(error), api_request)
    if isinstance(error, MethodNotAllowed):
        reply = reply._replace(headers=[("Allow", ", ".join(sorted(error.valid_methods or ())))])
    return reply


def _refusal_of(error: Exception) -> ServiceError:
    """Return the error that the client receives. Logs errors of the service."""
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
