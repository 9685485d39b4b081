"""Background workers as processes that may be killed, and the services that continue after them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from unittest import mock

from tests.conftest import MovableClock
from tests.support.commands import FORK_SERVER, Command
from tests.support.real_service.service import environment
from ussd_server.bootstrap import Services, build_services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings, read_settings
from ussd_server.worker import Worker

_PATIENCE_SECONDS = 120.0
_CALLS_PER_SECOND = 1000.0


def work_until_killed(settings: Settings) -> None:
    """Run a worker in a process of its own that comes to its kill point and dies there."""
    process = FORK_SERVER.Process(target=_work, args=(settings,), daemon=True)
    process.start()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL


def _work(settings: Settings) -> None:
    Worker(build_services(settings)).run(Event())


class WorkerProcess:
    """One `ussd-server worker`, or another command that runs until it is stopped, on a test's database."""

    def __init__(self, settings: Settings, command: str = "worker", **more: str) -> None:
        self._command = Command(command, env=environment(settings.data_dir, **(_named(settings) | more)))
        self.pid = self._command.pid

    def end(self, number: signal.Signals) -> int:
        """Send it a signal and wait for its end; give its status."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; give its status."""
        return self._command.result().returncode


@contextmanager
def services_of(settings: Settings, clock: MovableClock, **more: str) -> Iterator[Services]:
    """The services of the same settings, in this process and with a clock that can be moved."""
    with mock.patch.dict(os.environ, environment(settings.data_dir, **(_named(settings) | more)), clear=True):
        read = read_settings()
    # The calls of a provider are counted in seconds of the real clock, which nothing here has to wait for.
    swift = {
        name: replace(access, schedule=replace(access.schedule, per_second=_CALLS_PER_SECOND))
        for name, access in read.providers.items()
    }
    settings = replace(settings, providers=swift, provider_timeout_seconds=1, hold_money=read.hold_money)
    services = build_services(settings, clock)
    try:
        yield services
    finally:
        services.close()
        close_connections()


def catch_up(services: Services, clock: MovableClock) -> None:
    """Do what workers would do until every payment has its outcome, moving the clock to whatever comes next."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while unfinished := list(Transaction.select().where(Transaction.completed_at.is_null())):
        assert time.monotonic() < deadline, [(row.type, row.status, row.review_reason) for row in unfinished]
        claimed = services.processing.claim(10)
        for transaction_id in claimed:
            services.processing.advance(transaction_id)
        if not claimed:
            next_at = min(max(row.due_at, row.leased_until or row.due_at) for row in unfinished)
            # A provider that refuses calls for their rate recovers by the real clock, so this clock must not run ahead.
            clock.advance(max(0.3, (next_at - clock.now()).total_seconds()))
            time.sleep(0.02)


def _named(settings: Settings) -> dict[str, str]:
    return {
        "USSD_DATABASE_URL": settings.database_url,
        "USSD_REDIS_URL": settings.redis_url,
        "USSD_SECRETS_FILE": str(settings.secrets_file),
        "USSD_PROVIDER_TIMEOUT_SECONDS": "1",
    }
