"""Serving a stand-in: on a thread inside a test, or as a process of its own."""

import signal
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from simulators.standin import StandIn

HOST = "127.0.0.1"


class QuietHandler(WSGIRequestHandler):
    """One request on one thread, without a line for each on the terminal."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """The book counts requests; nothing is printed."""

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        """Hang up without a word; the next request would otherwise be awaited on a connection that was cut short."""
        self.close_connection = True

    def version_string(self) -> str:
        """What the `Server` header says."""
        return "stand-in"


@contextmanager
def run(app: Flask, port: int = 0, certificate: str | None = None) -> Iterator[str]:
    """Serve a stand-in's application on the loopback interface while the block lasts; gives its base address.

    Port 0 takes any free port. With a `certificate`, a file of one and its key in PEM, it speaks TLS. The
    stand-in's book is closed at the end: make a new one, with the same file, to go on.
    """
    stand_in: StandIn = app.extensions["stand_in"]
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    server: BaseWSGIServer = make_server(HOST, port, app, threaded=True, request_handler=QuietHandler, ssl_context=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="stand-in", daemon=True)
    stand_in.start()
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://{HOST}:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        stand_in.stop()


def serve(app: Flask, port: int, name: str, certificate: str | None) -> None:
    """Serve until SIGINT or SIGTERM, and say on one line where."""
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with run(app, port, certificate) as base_url:
        click.echo(f"{name} stand-in at {base_url}")
        signal.sigwait(ends)
