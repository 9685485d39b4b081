"""Connections that are shared out among web processes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import psutil

from tests.server.callers import LIVE, Caller, serving
from tests.support.eventually import eventually
from ussd_server.server.connection_shares import ConnectionShare, ConnectionShares

_CONNECTIONS = 40


def test_the_fewest_are_those_of_the_process_that_holds_the_least() -> None:
    shares = ConnectionShares()
    assert shares.fewest() == 0
    shares.set(1, 5)
    shares.set(2, 3)
    assert shares.fewest() == 3


def test_a_process_that_takes_no_more_has_no_share() -> None:
    shares = ConnectionShares()
    shares.set(1, 5)
    shares.set(2, 0)
    shares.leave(2)
    assert shares.fewest() == 5


def test_a_process_that_is_replaced_is_needed_until_a_later_one_accepts_connections() -> None:
    shares = ConnectionShares()
    for number in (62, 63):
        shares.set(number, 5)
    assert not shares.is_needed(62), "nobody asked for a reload"
    shares.replace(63)
    assert [shares.is_needed(number) for number in (62, 63, 64)] == [True, True, False]
    shares.set(65, 0)
    assert not shares.is_needed(63)


def test_a_process_may_be_ahead_by_a_fourth_of_what_it_holds() -> None:
    shares = ConnectionShares()
    share = ConnectionShare(shares, 1)
    shares.set(2, 30)
    share.add(40)
    assert share.may_accept()
    share.add(1)
    assert not share.may_accept(), "it leaves the connection to the other process for a moment"


def test_each_of_two_processes_takes_about_half_of_many_connections(redis_url: str, tmp_path: Path) -> None:
    # No request asks the database, which is away.
    away = "postgresql://127.0.0.1:1/away"
    with serving(tmp_path, away, redis_url, is_quiet=False, USSD_WORKERS="2") as (port, process):
        with ExitStack() as early_callers:

            def both_serve() -> bool:
                _call(port, early_callers)
                return min(_held(port, process.pid)) > 0

            eventually(both_serve)
        with ExitStack() as callers:
            for _ in range(_CONNECTIONS):
                _call(port, callers)
            assert min(_held(port, process.pid)) >= _CONNECTIONS // 8


def _call(port: int, callers: ExitStack) -> None:
    """Make a request on a connection that stays open."""
    caller = callers.enter_context(Caller(port))
    caller.send(LIVE)
    assert caller.answer()[0] == 200


def _held(port: int, pid: int) -> list[int]:
    """How many connections each process holds."""
    return [
        sum(each.laddr.port == port and each.status == "ESTABLISHED" for each in process.net_connections())
        for process in psutil.Process(pid).children()
    ]
