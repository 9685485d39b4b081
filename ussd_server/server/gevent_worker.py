"""gunicorn's gevent worker, which serves all web processes.

Beyond gunicorn's interface for workers it uses `PIPE` and `age` of gunicorn's worker.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import suppress
from functools import partial
from socket import SHUT_RD
from types import SimpleNamespace
from typing import Any

import gevent
from gevent.pool import Pool
from gevent.select import select
from gunicorn.workers.ggevent import GeventWorker

from ussd_server.logs import Logger, trace_of
from ussd_server.server.connection import ClientConnection
from ussd_server.server.connection_shares import SHARES, ConnectionShare
from ussd_server.server.listener import Listener
from ussd_server.server.refusals import JsonRefusals

# A client may be sending its next request already when the process stops. nginx closes idle connections sooner
# (`deploy/nginx.conf`).
LINGER_SECONDS = 2.0

# How long a worker that a reload replaces waits for its successors. They load the application, which takes seconds on
# a busy machine.
_SUCCESSOR_SECONDS = 20.0

_BODY_BYTES = 64 * 1024

log = Logger(__name__)


class GeventWebWorker(JsonRefusals, GeventWorker):  # type: ignore[misc]
    """Serves each connection in a greenlet. A stop closes the listener first and waits for no idle connection."""

    def run(self) -> None:
        """Serve until gunicorn's main process stops this one."""
        _prepare_process()
        self._connections: set[ClientConnection] = set()
        self._share = ConnectionShare(SHARES, self.age)
        pool = Pool(self.worker_connections)
        listeners = [Listener(self._share, each, self._handler(each), spawn=pool) for each in self.sockets]
        for listener in listeners:
            listener.start()
        while self.alive:
            self._wait(1.0)
        ends_at = time.monotonic() + _SUCCESSOR_SECONDS
        while SHARES.is_needed(self.age) and time.monotonic() < ends_at:
            self._wait(0.1)
        self._share.leave()
        for listener in listeners:
            listener.end()
        self._end(pool)

    def _wait(self, seconds: float) -> None:
        self.notify()
        # gunicorn writes into this pipe when a signal arrives.
        if select([self.PIPE[0]], [], [], seconds)[0]:
            os.read(self.PIPE[0], 4096)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve the requests of a connection."""
        connection = ClientConnection(client)
        self._connections.add(connection)
        self._share.add(1)
        try:
            super().handle(listener, connection, addr)
        finally:
            self._connections.discard(connection)
            self._share.add(-1)

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        """Serve one request."""
        # gunicorn refuses a length that is no number, is there twice, or comes with chunks.
        sock.begin_request(next((int(value) for name, value in req.headers if name == "CONTENT-LENGTH"), 0))
        try:
            super().handle_request(listener_name, req, sock, addr)
        finally:
            sock.send_response()
        # gunicorn would read the rest of a body that was refused as part of the next request, which has its own limits.
        while req.body.read(_BODY_BYTES):
            continue
        sock.end_request()

    def _handler(self, listener: Any) -> Any:
        # gunicorn asks the listener for its name even after a stop closed it.
        name = listener.getsockname()
        return partial(self.handle, SimpleNamespace(getsockname=lambda: name))

    def _end(self, pool: Pool) -> None:
        stopped_at = time.monotonic()
        while pool and (waited := time.monotonic() - stopped_at) < self.cfg.graceful_timeout:
            self.notify()
            for connection in [each for each in self._connections if each.is_idle and waited >= LINGER_SECONDS]:
                with suppress(OSError):
                    connection.shutdown(SHUT_RD)
            pool.join(timeout=0.25)


def _prepare_process() -> None:
    hub = gevent.get_hub()
    hub.print_exception = _log_exception
    if gevent.config.monitor_thread:
        hub.start_periodic_monitoring_thread()
    # A request makes hundreds of objects, and what exists now stays: the garbage collector runs less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _log_exception(_context: Any, _kind: Any, error: Any, _trace: Any) -> None:
    log.error("a greenlet ended with an exception", error=trace_of(error))
