"""The worker of web processes with PostgreSQL: gunicorn's gevent worker."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
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

from ussd_server.logs import logger, trace_of
from ussd_server.server.connection import ClientConnection
from ussd_server.server.connection_shares import SHARES
from ussd_server.server.refusals import JsonRefusals

# A caller may be sending its next request already when the process stops.
_LINGER_SECONDS = 2.0
# How long a process leaves a connection to others that hold fewer. One that is stuck does not take it.
_LEAVE_SECONDS = 0.002

log = logger(__name__)


class GeventWebWorker(JsonRefusals, GeventWorker):  # type: ignore[misc]
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
        self._connections: set[ClientConnection] = set()
        self._left_since = 0.0
        SHARES.tell(self.age, 0)
        pool = Pool(self.worker_connections)
        servers = [_Server(each, self._handler(each), spawn=pool) for each in self.sockets]
        for server in servers:
            # What one process does not take at once another may.
            server.max_accept = 1
            server.may_accept = self._may_accept
            server.start()
        while self.alive:
            self.notify()
            # gunicorn writes into this pipe when a signal arrives.
            if select([self.PIPE[0]], [], [], 1.0)[0]:
                os.read(self.PIPE[0], 4096)
        SHARES.leave(self.age)
        for server in servers:
            # Whoever has connected already is answered; everybody else must reach another process, or another machine.
            server.stop_accepting()
            while accepted := server.do_read():
                server.do_handle(*accepted)
            server.close()
        self._end(pool)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Answer the requests of a connection."""
        connection = ClientConnection(client)
        self._connections.add(connection)
        if self.alive:
            SHARES.tell(self.age, len(self._connections))
        try:
            super().handle(listener, connection, addr)
        finally:
            self._connections.discard(connection)
            if self.alive:
                SHARES.tell(self.age, len(self._connections))

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        """Answer one request."""
        sock.begin_request()
        try:
            super().handle_request(listener_name, req, sock, addr)
        finally:
            sock.send_answer()

    def _may_accept(self) -> bool:
        """Whether to accept a connection now, or to leave it to a process that holds fewer."""
        if self.alive and len(self._connections) > SHARES.fewest():
            now = time.monotonic()
            self._left_since = self._left_since or now
            if now - self._left_since < _LEAVE_SECONDS:
                os.sched_yield()
                return False
        self._left_since = 0.0
        return True

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


class _Server(StreamServer):  # type: ignore[misc]
    """Accepts connections while its worker may."""

    may_accept: Callable[[], bool]

    def do_read(self) -> Any:
        """The next connection with its address, None while there is none for this process."""
        return super().do_read() if self.may_accept() else None


def _log_exception(_context: Any, _kind: Any, error: Any, _trace: Any) -> None:
    log.error("a greenlet ended with an exception", error=trace_of(error))
