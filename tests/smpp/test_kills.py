"""The SMPP process is killed within a step, on PostgreSQL, whose locks hold the step at a known place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.faults.workers import WorkerProcess
from tests.services.subscribers.test_pins import judge, savings_group
from tests.smpp.conftest import channel_to
from tests.smpp.operator_side import OperatorSide
from tests.support.eventually import eventually
from tests.support.shop import CODE, Shop
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberPin
from ussd_server.settings import Settings

pytestmark = [pytest.mark.needs_node, pytest.mark.parametrize("database_url", ["postgres"], indirect=True)]

BEGIN, CONTINUE = 1, 18
PIN, WRONG = "739184", "915273"
_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def shop(services: Services) -> Shop:
    return Shop(services, savings_group())


@contextmanager
def locked(settings: Settings, lock: str) -> Iterator[psycopg.Connection]:
    """Hold a lock for the block."""
    with psycopg.connect(settings.database_url) as connection:
        connection.execute(lock)
        yield connection


def until_a_step_waits(settings: Settings) -> None:
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        eventually(lambda: connection.execute(_WAITING).fetchone() is not None)


def killed_after(
    effect: Callable[[], bool], lock: str, process: WorkerProcess, settings: Settings, operator: OperatorSide, text: str
) -> None:
    """Deliver an entry, and kill the process when the step has had its effect but has not been written down.

    `lock` holds the step before its effect.
    """
    with locked(settings, lock) as before:
        assert operator.deliver(CONTINUE, text) == 0
        until_a_step_waits(settings)
        with locked(settings, "SELECT id FROM ussd_sessions FOR NO KEY UPDATE"):
            before.rollback()
            eventually(effect)
            until_a_step_waits(settings)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            with psycopg.connect(settings.database_url, autocommit=True) as connection:
                connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({_WAITING}) AS waiting")


def dialled(settings: Settings, operator: OperatorSide, *entries: str) -> WorkerProcess:
    """A process, after a phone has dialled through it and entered these."""
    process = WorkerProcess(settings, "smpp")
    operator.wait("bind")
    operator.screen(BEGIN, CODE)
    for entry in entries:
        operator.screen(CONTINUE, entry)
    return process


def test_a_payment_of_a_killed_process_is_found_by_the_next_step_and_not_made_again(
    settings: Settings, shop: Shop, operator: OperatorSide
) -> None:
    channel_to(operator.port, shop)
    process = dialled(settings, operator, "1", "5000")
    is_paid = lambda: Transaction.select().count() == 1  # noqa: E731
    killed_after(is_paid, "LOCK TABLE transactions IN EXCLUSIVE MODE", process, settings, operator, "1")
    following = WorkerProcess(settings, "smpp")
    operator.wait("bind", 1)
    assert operator.screen(CONTINUE, "1")["text"].startswith("Approve the prompt")
    assert following.end(signal.SIGTERM) == 0
    assert is_paid()


def test_a_wrong_pin_of_a_killed_process_counts_once(
    services: Services, settings: Settings, shop: Shop, operator: OperatorSide
) -> None:
    judge(services, shop, "new", PIN, "+256770000000")
    channel_to(operator.port, shop)
    process = dialled(settings, operator, "3")
    is_counted = lambda: SubscriberPin.get().wrong_tries == 1  # noqa: E731
    killed_after(is_counted, "SELECT id FROM subscriber_pins FOR UPDATE", process, settings, operator, WRONG)
    following = WorkerProcess(settings, "smpp")
    operator.wait("bind", 1)
    assert "Tries left: 2." in operator.screen(CONTINUE, WRONG)["text"]
    assert is_counted()
    assert operator.screen(CONTINUE, PIN)["text"].startswith("Your balance is UGX 0.")
    assert following.end(signal.SIGTERM) == 0
