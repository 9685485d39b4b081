"""Web processes share the connections that come."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import psutil
from benchmarks.requests import request
from benchmarks.web import BARE, Web, serve

from tests.eventually import eventually
from ussd_server.server.connection_shares import ConnectionShares

_CONNECTIONS = 40


def test_the_fewest_are_those_of_the_process_that_holds_the_least() -> None:
    shares = ConnectionShares()
    assert shares.fewest() == 0
    shares.tell(1, 5)
    shares.tell(2, 3)
    assert shares.fewest() == 3


def test_a_process_that_takes_no_more_has_no_share() -> None:
    shares = ConnectionShares()
    shares.tell(1, 5)
    shares.tell(2, 0)
    shares.leave(2)
    assert shares.fewest() == 5


def test_each_of_two_processes_takes_about_half_of_many_connections(tmp_path: Path) -> None:
    with serve(BARE, tmp_path, {"USSD_WORKERS": "2", "USSD_DATABASE_URL": "postgresql://unused"}) as web:
        with ExitStack() as early_callers:

            def both_serve() -> bool:
                _call(web, early_callers)
                return min(_held(web)) > 0

            eventually(both_serve)
        with ExitStack() as callers:
            for _ in range(_CONNECTIONS):
                _call(web, callers)
            assert min(_held(web)) >= _CONNECTIONS // 8


def _call(web: Web, callers: ExitStack) -> None:
    """Make a call on a connection that stays open."""
    caller = callers.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=5))
    caller.sendall(request("GET", "/", {}))
    assert caller.recv(15).startswith(b"HTTP/1.1 200")


def _held(web: Web) -> list[int]:
    """How many connections each process holds."""
    return [
        sum(each.laddr.port == web.port and each.status == "ESTABLISHED" for each in process.net_connections())
        for process in psutil.Process(web.pid).children()
    ]
