"""Three database nodes behind HAProxy, from the files in deploy/cluster: no failover loses or doubles a payment.

With `-s` it prints the table of docs/CLUSTER.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from tests.faults.callers import Crowd, many_keys
from tests.support.eventually import eventually
from tests.support.real_service.cluster import Cluster, running_cluster
from tests.support.real_service.deployment import Deployment, Installed
from tests.support.stand_ins import StandInProcess, mtn_settings, start_mtn

pytestmark = [pytest.mark.needs_nginx, pytest.mark.needs_patroni, pytest.mark.timeout(600)]

# The provider takes ten calls a second, and each payment needs two or three.
CALLERS, PACE_SECONDS = 2, 0.5


@dataclass
class Operated:
    """A cluster, the service on two machines that uses it, and a provider with its book."""

    cluster: Cluster
    installed: Installed
    provider: StandInProcess


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with ExitStack() as stack:
        # Not one of pytest's folders, which other users may not enter.
        home = Path(stack.enter_context(TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True)))
        home.chmod(0o755)
        cluster = stack.enter_context(running_cluster(home))
        provider = start_mtn("--approve-delay", "0.2")
        stack.callback(provider.stop)
        settings = mtn_settings(provider.base_url) | {"USSD_MTN_ENQUIRY_SECONDS": "1"}
        folder = tmp_path_factory.mktemp("service")
        deployment = Deployment(folder, cluster.database_url, cluster.redis_url, machines=2, **settings)
        stack.callback(deployment.stop)
        yield Operated(cluster, Installed(deployment), provider)


def served(crowd: Crowd, calls: int = 4) -> None:
    """Wait until the crowd was answered well so many times more."""
    before = len(crowd.paid)
    eventually(lambda: len(crowd.paid) >= before + calls)


@dataclass
class Failover:
    """A row of the table in docs/CLUSTER.md: how long no payment was accepted, and how many calls were refused."""

    kind: str
    closed_seconds: float
    refused: int


def survive(crowd: Crowd, kind: str, happens: Callable[[], None]) -> Failover:
    """Let something happen while the crowd calls, and wait until payments are accepted again."""
    served(crowd)
    known, paid = len(crowd.answers), len(crowd.paid)
    happens()
    began = time.monotonic()
    eventually(lambda: len(crowd.paid) >= paid + CALLERS)
    closed = time.monotonic() - began
    served(crowd)
    refused = sum(answer.status not in (200, 201) for answer in crowd.answers[known:])
    return Failover(kind, closed, refused)


def test_no_failover_loses_or_doubles_a_payment(operated: Operated, tmp_path: Path) -> None:
    cluster, installed = operated.cluster, operated.installed
    crowd = Crowd(installed, many_keys(installed, tmp_path), "failover", CALLERS, PACE_SECONDS)
    table = list[Failover]()
    with crowd.at_work():
        table.append(survive(crowd, "planned switchover", cluster.switch_over))
        cluster.await_standbys()
        for _ in range(3):
            primary = cluster.primary()
            table.append(survive(crowd, "primary killed", partial(cluster.kill, primary)))
            cluster.start_node(primary)
            cluster.await_standbys()
        primary = cluster.primary()
        table.append(survive(crowd, "primary frozen", partial(cluster.freeze, primary)))
        cluster.thaw(primary)
        cluster.await_standbys()
        master = cluster.redis_master()
        table.append(survive(crowd, "Redis killed", partial(cluster.kill_redis, master)))
        assert cluster.redis_master() != master
    assert crowd.statuses() <= {200, 201, 503}
    with psycopg.connect(cluster.database_url) as database:

        def unfinished() -> list[Any]:
            rows = database.execute("SELECT * FROM transactions WHERE completed_at IS NULL").fetchall()
            database.rollback()
            return rows

        eventually(lambda: not unfinished())
        rows = database.execute("SELECT reference, id::text, provider_reference::text FROM transactions").fetchall()
    # Lost 0: each accepted payment is there. Doubled 0: one row for each reference, one payment in the provider's book.
    assert {len(transactions) for transactions in crowd.paid.values()} == {1}
    assert {(reference, *transactions) for reference, transactions in crowd.paid.items()} == {row[:2] for row in rows}
    assert sorted(operated.provider.paid()) == sorted(row[2] for row in rows)
    assert installed.deployment.ask("check", "--full")["ok"]
    for row in table:
        print(f"| {row.kind} | {row.closed_seconds:.1f} | {row.refused} | 0 | 0 |")
