"""Accepts the connections of a web process.

Beyond gevent's interface for servers it uses `do_read`, `do_handle`, `full`, `start_accepting`, `stop_accepting` and
`max_accept` of its server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from socket import MSG_PEEK, SO_ERROR, SOL_SOCKET
from typing import Any

from gevent.server import StreamServer

from ussd_server.limits.networks import network_of
from ussd_server.server.caller_turns import CallerTurns
from ussd_server.server.connection_shares import ConnectionShare

# A new connection costs as much as a small request, and its first request comes with it. Callers with many requests
# keep their connections.
_PIECES_OF_CONNECTION = 4


class Listener(StreamServer):  # type: ignore[misc]
    """Accepts connections while its process holds no more than its share, and begins each in a turn of its network.

    Until then a connection has no greenlet: all clients wait in one queue of the system, which a flood fills with
    thousands in a second, so many are accepted in a turn of the loop. Closed at once are connections that their clients
    have left, and those of a network with too many.
    """

    max_accept = 64

    def __init__(
        self,
        listener: Any,
        serve: Callable[[Any, Any], None],
        turns: CallerTurns,
        share: ConnectionShare,
        most: int,
        most_of_caller: int,
    ) -> None:
        """`serve(client, address)` serves a connection. There may be `most`, and `most_of_caller` of a network."""
        super().__init__(listener, self._begin)
        self._serve, self._turns, self._share = serve, turns, share
        self._most, self._most_of_caller = most, most_of_caller
        self._held: Counter[str] = Counter()
        self.connections = 0

    def do_read(self) -> Any:
        """Return the next connection with its address, None while there is none for this process."""
        return super().do_read() if self._share.may_accept() else None

    def do_handle(self, client: Any, address: Any) -> None:
        caller = caller_of(address)
        if self._held[caller] >= self._most_of_caller or _has_left(client):
            client.close()
            return
        self._count(caller, 1)
        self._turns.begin(caller, _PIECES_OF_CONNECTION, partial(super().do_handle, client, address))

    def full(self) -> bool:
        """Return whether this process holds as many connections as it may."""
        return self.connections >= self._most

    def end(self) -> None:
        """Serve the clients that have connected, and close. Later clients must reach another process or machine."""
        self.stop_accepting()
        while accepted := super().do_read():
            self.do_handle(*accepted)
        self.close()

    def _begin(self, client: Any, address: Any) -> None:
        try:
            if not _has_left(client):
                self._serve(client, address)
        finally:
            client.close()
            self._count(caller_of(address), -1)
            if self.started:
                self.start_accepting()

    def _count(self, caller: str, connections: int) -> None:
        self.connections += connections
        self._share.add(connections)
        self._held[caller] += connections
        if not self._held[caller]:
            del self._held[caller]


def caller_of(address: Any) -> str:
    """Return the network of a client; empty for one on a socket of this machine."""
    return network_of(address[0]) if isinstance(address, tuple) else ""


def _has_left(client: Any) -> bool:
    """Return whether a client reset its connection, or closed it without a request."""
    client.setblocking(False)
    try:
        return not client.recv(1, MSG_PEEK) or bool(client.getsockopt(SOL_SOCKET, SO_ERROR))
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        client.setblocking(True)
