"""Machines behind nginx that stop and start refuse no request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from testbed.ports import free_port
from tests.support.eventually import eventually
from tests.support.real_service.edge import Edge

pytestmark = pytest.mark.needs_nginx

RESPONSE = b"HTTP/1.1 200 OK\r\nX-Request-Id: machine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Machine:
    """Stands in for the web processes of a machine: answers every request with 200 while it runs."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    def _serve(self) -> None:
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                with connection:
                    connection.recv(65536)
                    connection.sendall(RESPONSE)

    def stop(self) -> None:
        """Refuse connections from now on."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def start(self) -> None:
        """Accept connections, always on the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._serve()


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    both = [Machine(), Machine()]
    yield both
    for machine in both:
        machine.stop()


@pytest.fixture
def edge(tmp_path_factory: pytest.TempPathFactory, machines: list[Machine]) -> Iterator[Edge]:
    """nginx before both machines."""
    edge = Edge(tmp_path_factory.mktemp("edge"), [machine.port for machine in machines])
    process = edge.start()
    eventually(lambda: _is_open(edge))
    yield edge
    process.terminate()
    process.wait(60)


def _is_open(edge: Edge) -> bool:
    try:
        edge.connect().close()
    except OSError:
        return False
    return True


def test_one_machine_may_stop_as_soon_as_the_other_is_back(edge: Edge, machines: list[Machine]) -> None:
    for stopped in (0, 1, 0, 1):
        machines[stopped].stop()
        assert [edge.call("POST", "/api/transactions", {})[0] for _ in range(4)] == [200] * 4
        machines[stopped].start()
