"""Serves a stand-in, with the controls of its book, switches and clock: on a thread of a test, or as a process."""

import math
import signal
import ssl
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import wraps
from typing import Any, TypeVar

import click
from flask import Blueprint, Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from simulators import faults
from simulators.standin import RefusalError, StandIn
from simulators.statements import StatementForm
from simulators.switches import Switches, iso_time

HOST = "127.0.0.1"
_Settings = TypeVar("_Settings")


class QuietHandler(WSGIRequestHandler):
    """Serves one request on one thread and logs nothing."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing; the book counts requests."""

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        """Close the connection; the handler would otherwise wait for the next request on it."""
        self.close_connection = True

    def version_string(self) -> str:
        """Returns the value of the `Server` header."""
        return "stand-in"


def application(stand_in: StandIn) -> Flask:
    """Returns the Flask application with the provider's routes, the faults and the controls."""
    app = Flask(f"simulators.{type(stand_in).__name__}", static_folder=None)
    app.url_map.strict_slashes = False
    for route in stand_in.routes():
        app.add_url_rule(route.path, route.endpoint, route.view, methods=[route.method], defaults=route.fixed or None)

    def refuse(refusal: RefusalError) -> tuple[Response, int]:
        return jsonify(refusal.body), refusal.status

    def refuse_unknown(error: HTTPException) -> tuple[Response, int]:
        status = error.code or 500
        return jsonify(stand_in.error(status)), status

    app.register_error_handler(RefusalError, refuse)
    app.register_error_handler(HTTPException, refuse_unknown)
    faults.install(app, stand_in)
    app.register_blueprint(controls_of(stand_in), url_prefix="/_control")
    return app


def controls_of(stand_in: StandIn) -> Blueprint:
    """Returns the controls of one stand-in, to be mounted under `/_control`."""
    controls = Blueprint("control", __name__)

    @controls.get("/book")
    def show_book() -> Response:
        """The payments, requests and callbacks; `?reference=` selects one payment."""
        return jsonify(stand_in.book.as_json(stand_in.clock.now(), request.args.get("reference")))

    @controls.get("/statement")
    def show_statement() -> Response | tuple[Response, int]:
        """The statement of the book, or of `?day=`.

        `file=`, `encoding=`, `separator=`, `dates=` and `layout=` choose its form.
        """
        try:
            form = StatementForm.read(request.args, stand_in.layouts)
        except ValueError as wrong:
            return jsonify(error=str(wrong)), 400
        return Response(stand_in.statement(form, request.args.get("day", "")), content_type="application/octet-stream")

    @controls.get("/switches")
    def show_switches() -> Response:
        return jsonify(asdict(stand_in.switches.now))

    @controls.put("/switches")
    def set_switches() -> Response | tuple[Response, int]:
        """Set the named switches; the others stay as they are."""
        try:
            switches = stand_in.switches.change(request.get_json(silent=True))
        except ValueError as wrong:
            return jsonify(error=str(wrong)), 400
        stand_in.callbacks.wake()
        return jsonify(asdict(switches))

    @controls.delete("/switches")
    def restore_switches() -> Response:
        """Restore the switches of the start."""
        switches = stand_in.switches.restore()
        stand_in.callbacks.wake()
        return jsonify(asdict(switches))

    @controls.get("/clock")
    def show_clock() -> Response:
        return jsonify(now=iso_time(stand_in.clock.now()), offset_seconds=stand_in.clock.offset_seconds)

    @controls.post("/clock")
    def move_clock() -> Response | tuple[Response, int]:
        """Move the clock forward by `advance_seconds`."""
        body = request.get_json(silent=True)
        seconds = body.get("advance_seconds") if isinstance(body, dict) else None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            return jsonify(error="advance_seconds is a number of seconds, 0 or more."), 400
        stand_in.advance(float(seconds))
        return show_clock()

    @controls.post("/reset")
    def reset() -> Response:
        """Delete everything that happened since the start."""
        stand_in.reset()
        return jsonify({})

    return controls


@contextmanager
def run(stand_in: StandIn, port: int = 0, certificate: str | None = None) -> Iterator[str]:
    """Serve a stand-in on the loopback interface while the block lasts; yields its base URL.

    Port 0 takes any free port. `certificate` is a PEM file of a certificate and its key; with it the server speaks
    TLS. The stand-in's book is closed at the end: to continue, create a new stand-in with the same book file.
    """
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    stand_in.start()
    try:
        with serving(application(stand_in), port, tls) as base_url:
            yield base_url
    finally:
        stand_in.stop()


@contextmanager
def serving(app: Flask, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve an application on the loopback interface while the block lasts; yields its base URL."""
    server: BaseWSGIServer = make_server(HOST, port, app, threaded=True, request_handler=QuietHandler, ssl_context=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="stand-in", daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://{HOST}:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def show_until_stopped(name: str, running: AbstractContextManager[str]) -> None:
    """Print the name and the base URL of what is running on one line, and serve until SIGINT or SIGTERM."""
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with running as base_url:
        click.echo(f"{name} stand-in at {base_url}")
        signal.sigwait(ends)


def command(
    create: Callable[[_Settings, str, Switches], StandIn], default_port: int, layouts: Collection[str]
) -> Callable[[Callable[..., _Settings]], Callable[..., None]]:
    """Returns a decorator that makes of a function the command of a stand-in, with the options that all of them have.

    The function returns the settings from the options of its own.
    """
    any_port, seconds = click.IntRange(0, 65535), click.FloatRange(0)
    shared = (
        click.option("--port", type=any_port, default=default_port, show_default=True, help="0 takes any free port."),
        click.option("--certificate", default=None, help="PEM file of a certificate and its key: speak TLS."),
        click.option("--book", default=":memory:", help="File for the book, kept over restarts."),
        click.option("--approve-delay", type=seconds, default=0.0, help="Seconds until a payer approves."),
        click.option("--layout", type=click.Choice(list(layouts)), help="The layout of its statements."),
        click.option("--callback-delay", type=seconds, default=0.0, help="Seconds from outcome to callback."),
    )

    def make(read: Callable[..., _Settings]) -> Callable[..., None]:
        @wraps(read)
        def serve(
            port: int,
            certificate: str | None,
            book: str,
            approve_delay: float,
            layout: str | None,
            callback_delay: float,
            **own: Any,
        ) -> None:
            switches = Switches(approve_delay_seconds=approve_delay, callback_delay_seconds=callback_delay)
            stand_in = create(read(**own), book, switches)
            stand_in.layout = layout or stand_in.layout
            show_until_stopped(stand_in.name, run(stand_in, port, certificate))

        added: Callable[..., None] = serve
        for option in reversed(shared):
            added = option(added)
        return click.command()(added)

    return make
