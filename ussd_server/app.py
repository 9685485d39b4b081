"""The Flask application: the blueprints, and the hooks before and after every view."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from errno import ECONNRESET
from functools import lru_cache
from http import HTTPStatus
from io import BytesIO
from typing import Any

from flask import Flask, Request, Response, current_app, g
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface
from itsdangerous import URLSafeTimedSerializer
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import MapAdapter

from ussd_server.api.bounded_request import BoundedRequest
from ussd_server.api.endpoints import CompleteResponse, EndpointSpec, refusal, template_of
from ussd_server.api.logged_bodies import logged_body
from ussd_server.api.requests import (
    EXTENSION,
    MAX_BODY_BYTES,
    CurrentRequest,
    begin_request,
    current_request,
    has_body,
    read_body,
)
from ussd_server.api.trusted_proxies import UNREADABLE, TrustedProxies
from ussd_server.blueprints.clients import clients, logins, own_key
from ussd_server.blueprints.incoming import callbacks, payment_codes
from ussd_server.blueprints.lookups import providers, search
from ussd_server.blueprints.menus import menus
from ussd_server.blueprints.messages import client_settings, messages
from ussd_server.blueprints.openapi import openapi
from ussd_server.blueprints.ops import ops
from ussd_server.blueprints.payouts import client_payouts, payouts
from ussd_server.blueprints.transactions import statements, transactions
from ussd_server.blueprints.ussd import TAKE_STEP, gateways, ussd
from ussd_server.blueprints.webhooks import webhooks
from ussd_server.bootstrap import Services
from ussd_server.console.blueprint import error_page
from ussd_server.console.pages import console
from ussd_server.console.session import COOKIE_PATH, cookie_serializer
from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, reason_of
from ussd_server.languages import gettext, ngettext
from ussd_server.logs import Logger, log_call, trace_of
from ussd_server.metrics import counting, ended_requests
from ussd_server.parsing.secrets_in_text import without_paths, without_secrets
from ussd_server.services.request_log.messages import LoggedRequest
from ussd_server.spans import end_call
from ussd_server.status import Code, CursorError, ServiceError
from ussd_server.values import is_id

log = Logger(__name__)

# werkzeug matches a path with any number of leading slashes, or none. A proxy that guards a path does not.
_PATH = re.compile("/(?!/)")
# Most refusals have one of few sentences: looking at each again would take 5 us.
_without_secrets = lru_cache(maxsize=256)(without_secrets)
_CODES = {
    code.http_status: code
    for code in (
        Code.INVALID_CREDENTIALS,
        Code.INSUFFICIENT_SCOPE,
        Code.NOT_FOUND,
        Code.METHOD_NOT_ALLOWED,
        Code.RATE_LIMIT_EXCEEDED,
        Code.INTERNAL_ERROR,
        Code.SERVICE_UNAVAILABLE,
    )
}


def create_app(services: Services) -> Flask:
    app = _Application("ussd_server", static_folder=None)
    # Let errors of hooks and error handlers reach the web server: Flask would log the path, which may be a secret.
    app.config.update(PROPAGATE_EXCEPTIONS=True, PROVIDE_AUTOMATIC_OPTIONS=False)
    app.config.update(SESSION_COOKIE_NAME="console", SESSION_COOKIE_PATH=COOKIE_PATH, SESSION_COOKIE_SAMESITE="Lax")
    app.url_map.merge_slashes = False
    app.request_class = BoundedRequest
    app.session_interface = _ConsoleSessions()
    app.jinja_env.add_extension("jinja2.ext.i18n")
    app.jinja_env.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    app.extensions[EXTENSION] = services
    app.before_request(_begin)
    app.after_request(_end)
    app.register_error_handler(ServiceError, _refuse)
    app.register_error_handler(HTTPException, _refuse_by_status)
    for error in DATABASE_ERRORS:
        app.register_error_handler(error, _refuse_without_database)
    app.register_error_handler(Exception, _refuse_after_bug)
    # The API document shows the groups in this order.
    payments = (transactions, payment_codes, payouts, statements)
    data_api = (*payments, search, own_key, providers, webhooks, messages, ussd, menus)
    management = (logins, client_payouts, clients, client_settings)
    for blueprint in (*data_api, *management, gateways, callbacks, ops, openapi, console):
        app.register_blueprint(blueprint)
    if services.settings.trusted_proxies:
        app.wsgi_app = TrustedProxies(app.wsgi_app, services.settings.trusted_proxies)  # type: ignore[method-assign]
    return app


class _Application(Flask):
    """Flask without what it does for each request in vain: 11 us a call."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return the view or hook: none is a coroutine."""
        return func

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Match a path outside the console without parsing the host, which nothing there depends on."""
        if request is None or request.path.startswith(COOKIE_PATH):
            return super().create_url_adapter(request)
        environ = request.environ
        return MapAdapter(
            self.url_map,
            server_name=environ.get("HTTP_HOST", ""),
            script_name=request.root_path or "/",
            subdomain="",
            url_scheme=request.scheme,
            path_info=request.path,
            default_method=request.method,
            query_args=environ.get("QUERY_STRING", ""),
        )


class _ConsoleSessions(SecureCookieSessionInterface):
    """Flask's signed cookie, for the console's paths only; secure where the request came by TLS."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        return super().open_session(app, request) if request.path.startswith(COOKIE_PATH) else None

    def get_signing_serializer(self, app: Flask) -> URLSafeTimedSerializer:
        return cookie_serializer()

    def get_cookie_secure(self, app: Flask) -> bool:
        return current_request().request.is_secure


def _begin() -> None:
    """Begin the call, and read its body. Each request is refused by its size first, also one for an unknown path."""
    current = begin_request()
    environ = current.request.environ
    path = environ["PATH_INFO"]
    is_path = _PATH.match(path)
    if not is_path:
        current.request.url_rule = None
    if "\0" in path:
        # PostgreSQL takes no NUL. Like a byte that is no UTF-8, it becomes a character that no name has.
        variables = current.request.view_args or {}
        current.request.view_args = {name: str(value).replace("\0", "\ufffd") for name, value in variables.items()}
    if has_body(current.request):
        _read_body(current.request)
    # A gateway gets a screen.
    if UNREADABLE in environ and current.request.endpoint != TAKE_STEP:
        raise ServiceError(Code.INVALID_REQUEST, "X-Forwarded-For could not be read")
    if not is_path:
        raise NotFound


def _read_body(request: Request) -> None:
    """Read the body within the bound of its view, so that views and extensions find all of it in `request`."""
    view = current_app.view_functions.get(request.endpoint or "")
    if getattr(view, "streams_body", False):
        return
    try:
        body = read_body(request.environ, getattr(view, "max_body_bytes", MAX_BODY_BYTES))
    except ServiceError:
        # A gateway gets a screen even when its body is refused.
        if request.blueprint != gateways.name:
            raise
        body = b""
    request.environ["wsgi.input"], request.environ["CONTENT_LENGTH"] = BytesIO(body), str(len(body))


def _end(response: Response) -> Response:
    """Add the headers of every response; log and count the call."""
    current = current_request()
    endpoint = current.request.endpoint
    # Break the cycle of the error, its frames and the request, which otherwise waits for the garbage collector.
    current.request.routing_exception = None
    # Responses may hold secrets: no cache stores them and no browser guesses their type. The address of a static file
    # changes with its content.
    ours = [("X-Content-Type-Options", "nosniff"), ("X-Request-Id", current.request_id), *current.headers.items()]
    if endpoint != "console.static_file":
        ours.append(("Cache-Control", "no-store"))
    if isinstance(response, CompleteResponse):
        response.last_headers = ours
    else:
        response.headers.update(ours)
    if response.is_streamed and not response.direct_passthrough:
        response.response = _Stream(response.iter_encoded())
    took_ms = (time.perf_counter() - current.began) * 1000
    if current.route is not None and current.client_id is not None:
        _log_request(current, current.route, response, round(took_ms))
    # The route's name, never the path, which may hold a credential.
    name, status = endpoint or "unknown", response.status_code
    ended_requests.append(((name, status, current.code), took_ms / 1000))
    counting.start()
    log_call(
        endpoint=name,
        status=status,
        code=current.code,
        client_id=current.client_id,
        key_id=current.key_id,
        request_id=current.request_id,
        took_ms=round(took_ms, 1),
    )
    if current.span is not None:
        end_call(current.span, status=response.status_code, code=current.code, request_id=current.request_id)
    return response


def _log_request(current: CurrentRequest, route: EndpointSpec, response: Response, took_ms: int) -> None:
    """Count a call of a key, and keep a call of a client for its log if it was refused or changes something."""
    request, status, runtime = current.request, response.status_code, current.services.runtime
    now, recorder = runtime.clock.now(), runtime.request_recorder
    assert request.url_rule is not None
    assert current.client_id is not None
    method, path = "GET" if request.method == "HEAD" else request.method, template_of(request.url_rule.rule)
    if current.key_id is not None:
        recorder.count(
            current.key_id, now, f"{method} {path}", status, current.code, current.scope or "", current.address
        )
    is_refused = status >= HTTPStatus.BAD_REQUEST
    if method == "GET" and not is_refused:
        return
    created_id = response.headers.get("Location", "").rpartition("/")[2] or next(
        iter((request.view_args or {}).values()), ""
    )
    recorder.note(
        LoggedRequest(
            request_id=current.request_id,
            client_id=current.client_id,
            key_id=current.key_id,
            user_id=current.user_id,
            at=now,
            method=method,
            path=path,
            status=status,
            code=current.code,
            message=_printable(without_paths(current.message) if is_refused else current.message),
            took_ms=took_ms,
            address=current.address,
            # A path may hold anything until the request is accepted.
            object_id=created_id if is_id(created_id) or (created_id and not is_refused) else None,
            body=logged_body(request, route.body) if is_refused else None,
        )
    )


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(letter for letter in text if letter.isprintable())


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
            # The status is sent already. Break the connection, so that the client recognises an incomplete body.
            log.error("a long body could not be sent to its end", error=trace_of(error))
            close_connections()
            raise ConnectionResetError(ECONNRESET, "the body is not whole") from None

    def close(self) -> None:
        """Close the parts, which frees their place."""
        self._parts.close()  # type: ignore[attr-defined]


def _refuse(error: ServiceError) -> Response:
    """Return the response to a refused request: a page of the console, or the envelope of its path."""
    current = current_request()
    # A message may repeat what the caller sent. Management paths have one message for a bad query (wire contract 2).
    is_bad_query = current.is_management and isinstance(error, CursorError)
    error.message = "Invalid query parameters" if is_bad_query else _without_secrets(error.message)
    current.code, current.message = error.code.name, error.message
    current.client_id = current.client_id or error.client_id
    current.key_id = current.key_id or error.key_id
    response = error_page(error) if current.request.blueprint == console.name else refusal(current, error)
    response.headers.update(error.headers or {})
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def _refuse_by_status(error: HTTPException) -> Response:
    code = _CODES.get(error.code or 0)
    if code is None:
        return _refuse(ServiceError(Code.INVALID_REQUEST, "The request could not be understood"))
    response = _refuse(ServiceError(code, HTTPStatus(code.http_status).phrase.capitalize()))
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(sorted(_methods_of_path(error.valid_methods or ())))
    return response


def _methods_of_path(methods: Iterable[str]) -> list[str]:
    """Return those methods whose route is the most exact: `/api/events/redeliver` is no event that can be read."""
    adapter = current_app.create_url_adapter(current_request().request)
    assert adapter is not None
    variables = {method: len(adapter.match(method=method)[1]) for method in methods}
    return [method for method, count in variables.items() if count == min(variables.values())]


def _refuse_without_database(error: Exception) -> Response:
    log.error(reason_of(error), error=type(error).__name__)
    close_connections()
    return _refuse_for_fault(
        ServiceError(Code.SERVICE_UNAVAILABLE, "Service temporarily unavailable", retry_after_seconds=1)
    )


def _refuse_after_bug(error: Exception) -> Response:
    log.error("a call failed by a mistake of ours", error=trace_of(error))
    return _refuse_for_fault(ServiceError(Code.INTERNAL_ERROR, "Internal error"))


def _refuse_for_fault(error: ServiceError) -> Response:
    # This page has no navigation, so it needs no service.
    g.pop("person", None)
    return _refuse(error)
