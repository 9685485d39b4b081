"""A worker that is started while the database is away waits for it, and is no process that ends again and again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from tests.support.commands import Command
from tests.support.eventually import eventually
from tests.support.real_service.service import environment
from ussd_server.bootstrap import Services

AWAY = "the process waits for the database"


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_worker_that_starts_without_its_database_begins_when_it_is_there(services: Services, tmp_path: Path) -> None:
    server, _, name = services.settings.database_url.rpartition("/")
    log = tmp_path / "worker.log"
    settings = {"USSD_DATABASE_URL": services.settings.database_url, "USSD_LOG_FILE": str(log)}
    with psycopg.connect(f"{server}/postgres", autocommit=True) as hand:
        hand.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            worker = Command("worker", env=environment(tmp_path, **settings))
            eventually(lambda: log.exists() and log.read_text().count(AWAY) > 1)
        finally:
            hand.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    eventually(lambda: bool(services.runtime.heartbeat.workers()))
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.result().returncode == 0
