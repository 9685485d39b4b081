"""Calls through a proxy: https by CONNECT, with its login, and nothing left where the proxy made no connection."""

from __future__ import annotations

import base64
import socket
import threading
from pathlib import Path

from tests.outbound.certificates import certified
from tests.outbound.strange_server import StrangeServer, Visit, answer, polite
from ussd_server.outbound.transport import SendState, Transport, TransportFailure


class Proxy:
    """A proxy for one CONNECT after the other; it keeps what it was asked."""

    def __init__(self, target: tuple[str, int] | None) -> None:
        self.asked: list[bytes] = []
        self._target = target

    def __call__(self, visit: Visit) -> None:
        request = visit.read_request()
        self.asked.append(request)
        if self._target is None:
            visit.say(answer("407 Proxy Authentication Required", b""))
            return
        visit.say(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(self._target) as onward:
            there = threading.Thread(target=_pump, args=(visit.connection, onward))
            there.start()
            _pump(onward, visit.connection)
            there.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while received := source.recv(65536):
            sink.sendall(received)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_https_goes_through_the_proxy_with_its_login(tmp_path: Path) -> None:
    certificate, trust = certified("localhost", tmp_path)
    with StrangeServer(polite(answer(body=b"paid")), certificate=certificate) as target:
        proxy = Proxy((target.host, target.port))
        with StrangeServer(proxy) as listener:
            transport = Transport(trust=trust, proxy=f"http://ann:p%40ss@127.0.0.1:{listener.port}")
            for _ in range(2):
                got = transport.exchange("GET", f"https://localhost:{target.port}/x", timeout_seconds=20)
                assert (got.status, got.body, got.complete) == (200, b"paid", True)
            transport.close()
    assert len(proxy.asked) == 1, "the connection is used again"
    assert proxy.asked[0].startswith(f"CONNECT localhost:{target.port} HTTP/1.1\r\n".encode())
    assert b"Basic " + base64.b64encode(b"ann:p@ss") in proxy.asked[0]


def test_a_proxy_that_is_away_is_not_taken_for_the_provider() -> None:
    transport = Transport(proxy="http://127.0.0.1:1")
    got = transport.exchange("POST", "https://provider.example/pay", timeout_seconds=20, body=b"{}")
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.PROXY_REFUSED)


def test_nothing_has_left_where_the_proxy_makes_no_connection() -> None:
    with StrangeServer(Proxy(None)) as listener:
        transport = Transport(proxy=listener.url)
        got = transport.exchange("POST", "https://provider.example/pay", timeout_seconds=20, body=b"{}")
        transport.close()
    assert (got.reach, got.status, got.trouble) == (SendState.NOT_SENT, None, TransportFailure.PROXY_REFUSED)
