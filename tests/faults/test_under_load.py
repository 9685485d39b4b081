"""Two machines behind nginx under load: no kill, stop or restart loses a payment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from testbed.postgres import PostgresServer, temporary_server
from tests.faults.callers import Crowd, many_keys
from tests.support.eventually import eventually
from tests.support.real_service.deployment import Installed, install
from tests.support.real_service.service import descendants

pytestmark = [pytest.mark.needs_nginx, pytest.mark.timeout(600)]

CALLERS = 4


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of this file's own, to be stopped."""
    with temporary_server() as server:
        yield server


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Installed]:
    """Two machines behind one nginx."""
    with install(tmp_path_factory.mktemp("load"), postgres.url, machines=2) as installed:
        yield installed


@pytest.fixture(scope="module")
def keys(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    return many_keys(installed, tmp_path_factory.mktemp("keys"))


@pytest.fixture
def crowd(installed: Installed, keys: list[dict[str, str]], request: pytest.FixtureRequest) -> Crowd:
    return Crowd(installed, keys, request.node.name[:40], CALLERS)


def served(crowd: Crowd, calls: int = 20) -> None:
    """Wait until the crowd was answered well so many times more."""
    before = len(crowd.paid)
    eventually(lambda: len(crowd.paid) >= before + calls)


def assert_paid_once(crowd: Crowd, postgres: PostgresServer) -> None:
    """Every answer of 201 or 200 has its row, every reference one, whatever was repeated."""
    assert {len(transactions) for transactions in crowd.paid.values()} == {1}
    references = list({answer.reference for answer in crowd.answers})
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute(
            "SELECT reference, id::text FROM transactions WHERE reference = ANY(%s)", (references,)
        ).fetchall()
    assert sorted(rows) == sorted((reference, *transactions) for reference, transactions in crowd.paid.items())


def serving(installed: Installed, machine: int) -> set[int]:
    """The processes of a machine that serve."""
    return set(descendants(installed.deployment.web_pids[machine]))


def test_a_web_process_that_is_killed_takes_only_its_own_calls_along(
    installed: Installed, postgres: PostgresServer, crowd: Crowd
) -> None:
    before = serving(installed, 0)
    with crowd.at_work():
        served(crowd)
        os.kill(max(before), signal.SIGKILL)
        served(crowd)
        eventually(lambda: len(after := serving(installed, 0)) == len(before) and after != before)
        served(crowd)
    assert crowd.statuses() <= {0, 200, 201, 503}
    assert sum(answer.status in (0, 503) for answer in crowd.answers) <= CALLERS, (
        "one for each hand that was being served"
    )
    assert_paid_once(crowd, postgres)
    assert installed.deployment.ask("check", "--full")["ok"]


@pytest.mark.nightly
def test_reloads_and_a_rolling_restart_refuse_no_caller(
    installed: Installed, postgres: PostgresServer, crowd: Crowd
) -> None:
    with crowd.at_work():
        served(crowd)
        before = [serving(installed, machine) for machine in range(2)]
        for master in installed.deployment.web_pids:
            os.kill(master, signal.SIGHUP)
        for machine in range(2):
            eventually(lambda machine=machine: not serving(installed, machine) & before[machine])  # type: ignore[misc]
        for machine in range(2):
            installed.deployment.restart_web(machine)
            served(crowd)
    assert crowd.statuses() == {201}
    assert_paid_once(crowd, postgres)
    assert installed.deployment.ask("check", "--full")["ok"]


def test_a_database_that_is_away_loses_nothing_and_needs_no_restart(
    installed: Installed, postgres: PostgresServer, crowd: Crowd
) -> None:
    processes = [serving(installed, machine) for machine in range(2)]
    with crowd.at_work():
        served(crowd)
        postgres.stop()
        # Long enough that each caller was refused many times, however fast the machine is.
        eventually(lambda: sum(answer.status == 503 for answer in crowd.answers) > 10 * CALLERS)
        postgres.start()
        served(crowd)
    assert {201, 503} <= crowd.statuses() <= {200, 201, 503}
    assert {answer.retry_after for answer in crowd.answers if answer.status == 503} <= {"1", "2"}
    assert [serving(installed, machine) for machine in range(2)] == processes
    assert_paid_once(crowd, postgres)
    assert installed.deployment.ask("check", "--full")["ok"]
