"""Payments without a pause while a cluster loses its primary, and what must hold of them afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from tests.faults.callers import Crowd, many_keys
from tests.support.eventually import eventually
from tests.support.real_service.cluster import Cluster, running_cluster
from tests.support.real_service.deployment import Deployment, Installed
from tests.support.stand_ins import StandInProcess, mtn_settings, start_mtn

_CALLERS = 2


@dataclass
class Operated:
    """A cluster, the service on two machines that uses it, and a provider with its book."""

    cluster: Cluster
    installed: Installed
    provider: StandInProcess

    def finished(self) -> list[Any]:
        """The reference, id and provider's reference of each payment, when all are final."""
        with psycopg.connect(self.cluster.database_url, autocommit=True) as database:

            def unfinished() -> list[Any]:
                return database.execute("SELECT id FROM transactions WHERE completed_at IS NULL").fetchall()

            eventually(lambda: not unfinished())
            question = "SELECT reference, id::text, provider_reference::text FROM transactions"
            return database.execute(question).fetchall()


@contextmanager
def operating(folder: Path) -> Iterator[Operated]:
    """An operated cluster, until the block ends. The service has `folder`."""
    with ExitStack() as stack:
        # Not one of pytest's folders, which other users may not enter.
        home = Path(stack.enter_context(TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True)))
        home.chmod(0o755)
        cluster = stack.enter_context(running_cluster(home))
        provider = start_mtn("--approve-delay", "0.2")
        stack.callback(provider.stop)
        settings = mtn_settings(provider.base_url) | {"USSD_MTN_ENQUIRY_SECONDS": "1", "USSD_WORKERS": "1"}
        deployment = Deployment(folder, cluster.database_url, cluster.redis_url, machines=2, **settings)
        stack.callback(deployment.stop)
        yield Operated(cluster, Installed(deployment), provider)


@dataclass
class Failover:
    """A row of the table in docs/CLUSTER.md: how long no payment was accepted, and how many calls were refused."""

    kind: str
    closed_seconds: float
    refused: int

    def __str__(self) -> str:
        """The row, of a table that is printed when nothing was lost or doubled."""
        return f"| {self.kind} | {self.closed_seconds:.1f} | {self.refused} | 0 | 0 |"


def fail_over(operated: Operated, folder: Path, *, whole: bool) -> list[Failover]:
    """Kill the primary and Redis while payments are made. Fails when a payment is lost or doubled.

    The whole table has a planned switchover, a freeze, a cut and two kills more, and its seconds are more exact.
    """
    # The provider takes ten calls a second, and each payment needs two or three.
    pace_seconds = 0.5 if whole else 1
    cluster = operated.cluster
    crowd = Crowd(operated.installed, many_keys(operated.installed, folder), "failover", _CALLERS, pace_seconds)
    with crowd.at_work():
        table = list[Failover]()
        if whole:
            table.append(_survive(crowd, "planned switchover", cluster.switch_over))
        for _ in range(2 if whole else 1):
            primary = _primary_to_lose(cluster)
            table.append(_survive(crowd, "primary killed", partial(cluster.kill, primary)))
            cluster.start_node(primary)
        if whole:
            primary = _primary_to_lose(cluster)
            table.append(_survive(crowd, "primary frozen", partial(cluster.freeze, primary)))
            cluster.thaw(primary)
            if cluster.machines:
                primary = _primary_to_lose(cluster)
                table.append(_survive(crowd, "primary cut off", partial(cluster.machines.cut_off, primary)))
                # Clients still reach it.
                eventually(partial(cluster.serves_reads_only, primary))
                cluster.machines.join(primary)
            table.append(_survive(crowd, "primary killed", partial(cluster.kill, _primary_to_lose(cluster))))
        master = cluster.redis_master()
        table.append(_survive(crowd, "Redis and its Sentinel killed", partial(cluster.kill_redis, master)))
        assert cluster.redis_master() != master
    assert crowd.statuses() <= {200, 201, 503}
    rows = operated.finished()
    # Lost 0: each accepted payment is there. Doubled 0: one row for each reference, one payment in the provider's book.
    assert {len(transactions) for transactions in crowd.paid.values()} == {1}
    assert {(reference, *transactions) for reference, transactions in crowd.paid.items()} == {row[:2] for row in rows}
    assert sorted(operated.provider.paid()) == sorted(row[2] for row in rows)
    assert operated.installed.deployment.ask("check", "--full")["ok"]
    return table


def _primary_to_lose(cluster: Cluster) -> str:
    """The primary, when another node may take its place."""
    cluster.await_standbys()
    return cluster.primary()


def _survive(crowd: Crowd, kind: str, happens: Callable[[], None]) -> Failover:
    """Let something happen while the crowd calls, and wait until payments are accepted again."""
    _served(crowd)
    known, paid = len(crowd.answers), len(crowd.paid)
    happens()
    began = time.monotonic()
    eventually(lambda: len(crowd.paid) >= paid + _CALLERS)
    closed = time.monotonic() - began
    _served(crowd)
    refused = sum(answer.status not in (200, 201) for answer in crowd.answers[known:])
    return Failover(kind, closed, refused)


def _served(crowd: Crowd) -> None:
    """Wait until each caller was answered well once more."""
    before = len(crowd.paid)
    eventually(lambda: len(crowd.paid) >= before + _CALLERS)
