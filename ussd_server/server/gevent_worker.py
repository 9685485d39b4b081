"""The worker of web processes with PostgreSQL: gunicorn's gevent worker."""

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
from gevent.server import StreamServer
from gunicorn.workers.ggevent import GeventWorker

from ussd_server.rpc.logs import logger, trace_of
from ussd_server.server.connection import Connection
from ussd_server.server.refusals import JsonRefusals

# A caller may be sending its next request already when the process stops.
_LINGER_SECONDS = 2.0

log = logger(__name__)


class WebWorker(JsonRefusals, GeventWorker):  # type: ignore[misc]
    """Answers each connection in a greenlet. A stop closes the listener first and waits for no idle connection."""

    def run(self) -> None:
        """Serve until told to stop."""
        hub = gevent.get_hub()
        hub.print_exception = _log_exception
        if gevent.config.monitor_thread:
            hub.start_periodic_monitoring_thread()
        # What is there now stays, and a request makes hundreds of objects: the collector need not look so often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        self._connections: set[Connection] = set()
        pool = Pool(self.worker_connections)
        servers = [StreamServer(each, self._handler(each), spawn=pool) for each in self.sockets]
        for server in servers:
            # What one process does not take at once another may.
            server.max_accept = 1
            server.start()
        while self.alive:
            self.notify()
            # gunicorn writes into this pipe when a signal arrives.
            if select([self.PIPE[0]], [], [], 1.0)[0]:
                os.read(self.PIPE[0], 4096)
        for server in servers:
            # Whoever has connected already is answered; everybody else must reach another process, or another machine.
            server.stop_accepting()
            while accepted := server.do_read():
                server.do_handle(*accepted)
            server.close()
        self._end(pool)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Answer the requests of a connection."""
        connection = Connection(client)
        self._connections.add(connection)
        try:
            super().handle(listener, connection, addr)
        finally:
            self._connections.discard(connection)

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        """Answer one request."""
        sock.begin_request()
        try:
            super().handle_request(listener_name, req, sock, addr)
        finally:
            sock.send_answer()

    def _handler(self, listener: Any) -> Any:
        # gunicorn asks the listener for its name even after a stop closed it.
        name = listener.getsockname()
        return partial(self.handle, SimpleNamespace(getsockname=lambda: name))

    def _end(self, pool: Pool) -> None:
        stopped_at = time.monotonic()
        while pool and (waited := time.monotonic() - stopped_at) < self.cfg.graceful_timeout:
            self.notify()
            for connection in [each for each in self._connections if each.is_idle and waited >= _LINGER_SECONDS]:
                with suppress(OSError):
                    connection.shutdown(SHUT_RD)
            pool.join(timeout=0.25)


def _log_exception(_context: Any, _kind: Any, error: Any, _trace: Any) -> None:
    log.error("a greenlet ended with an exception", error=trace_of(error))
