"""The worker of web processes with SQLite: gunicorn's threads, because SQLite waits in C."""

from __future__ import annotations

from gunicorn.workers.gthread import ThreadWorker

from ussd_server.server.refusals import JsonRefusals


class ThreadWebWorker(JsonRefusals, ThreadWorker):  # type: ignore[misc]
    """Serves requests in threads. A stop accepts clients that have connected, then closes the listener."""

    def set_accept_enabled(self, enabled: bool) -> None:
        """Start or stop accepting connections; permanently when the worker stops."""
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        for listener in self.sockets:
            taken = None
            while taken != self.nr_conns:
                taken = self.nr_conns
                self.accept(listener)
            listener.close()
