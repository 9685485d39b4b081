"""Accepts connections in greenlets.

Uses `do_read`, `do_handle`, `stop_accepting` and `max_accept` of gevent's server.
"""

from __future__ import annotations

from typing import Any

from gevent.server import StreamServer

from ussd_server.server.connection_shares import ConnectionShare


class Listener(StreamServer):  # type: ignore[misc]
    """Accepts one connection at a time, while its process holds no more than its share."""

    max_accept = 1

    def __init__(self, share: ConnectionShare, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._share = share

    def do_read(self) -> Any:
        """Return the next connection with its address, None while there is none for this process."""
        return super().do_read() if self._share.may_accept() else None

    def end(self) -> None:
        """Serve the clients that have connected, and close. Later clients must reach another process or machine."""
        self.stop_accepting()
        while accepted := self.do_read():
            self.do_handle(*accepted)
        self.close()
