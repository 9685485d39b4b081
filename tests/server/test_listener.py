"""Which connections a web process serves."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from socket import SHUT_WR, SO_LINGER, SOL_SOCKET
from typing import Any

import gevent
import pytest
from gevent import socket

from ussd_server.server.caller_turns import CallerTurns
from ussd_server.server.connection_shares import ConnectionShare, ConnectionShares
from ussd_server.server.listener import Listener

_MOST, _MOST_OF_CALLER = 8, 3


class Served:
    """A listener whose connections stay open until `end` is set. There may be eight, three of a network."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.end = gevent.event.Event()
        self.shares = ConnectionShares()
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen()
        self.port = server.getsockname()[1]
        turns = CallerTurns(gevent.get_hub().loop)
        share = ConnectionShare(self.shares, 1)
        self.listener = Listener(server, self._serve, turns, share, _MOST, _MOST_OF_CALLER)

    def _serve(self, _client: Any, address: Any) -> None:
        self.addresses.append(address[0])
        self.end.wait()

    def connect(self, address: str = "127.0.0.2") -> Any:
        return socket.create_connection(("127.0.0.1", self.port), 5, (address, 0))

    def begin(self) -> None:
        self.listener.start()
        # More than any connection needs to be accepted, to begin and to end.
        for _ in range(50):
            gevent.sleep(0.001)


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.end.set()
    served.listener.stop()


def _reset(client: Any) -> None:
    client.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def _reset_after_request(client: Any) -> None:
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    _reset(client)


@pytest.mark.parametrize("leave", [socket.socket.close, _reset, _reset_after_request])
def test_a_connection_that_its_client_has_left_is_not_served(served: Served, leave: Callable[[Any], None]) -> None:
    leave(served.connect())
    served.begin()
    assert served.addresses == []
    assert served.shares.fewest() == 0


def test_a_client_that_sends_no_more_after_its_request_is_served(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.shutdown(SHUT_WR)
        served.begin()
    assert served.addresses == ["127.0.0.2"]


def test_more_connections_of_a_network_than_it_may_have_are_closed_at_once(served: Served) -> None:
    with ExitStack() as clients:
        many = [clients.enter_context(served.connect()) for _ in range(_MOST_OF_CALLER + 2)]
        one = clients.enter_context(served.connect("127.0.0.3"))
        served.begin()
        assert sorted(served.addresses) == ["127.0.0.2"] * _MOST_OF_CALLER + ["127.0.0.3"]
        assert [client.recv(1) for client in many[_MOST_OF_CALLER:]] == [b"", b""]
        assert served.shares.fewest() == _MOST_OF_CALLER + 1
        one.settimeout(0)
        with pytest.raises(BlockingIOError):
            one.recv(1)


def test_a_network_may_have_as_many_again_once_those_before_ended(served: Served) -> None:
    for _ in range(2):
        with ExitStack() as clients:
            for _ in range(_MOST_OF_CALLER):
                clients.enter_context(served.connect())
            served.begin()
            served.end.set()
            served.begin()
            served.end.clear()
    assert len(served.addresses) == 2 * _MOST_OF_CALLER


def test_a_full_process_accepts_no_more_until_a_connection_ends(served: Served) -> None:
    with ExitStack() as clients:
        for number in range(_MOST + 2):
            clients.enter_context(served.connect(f"127.0.0.{2 + number}"))
        served.begin()
        assert len(served.addresses) == _MOST
        served.end.set()
        served.begin()
    assert len(served.addresses) == _MOST + 2
