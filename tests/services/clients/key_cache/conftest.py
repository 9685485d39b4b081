"""Processes that cache keys and change them, with a Redis of each test's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.ports import free_port
from testbed.valkey import Server
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services, build_services
from ussd_server.database.unit_of_work import database
from ussd_server.settings import Settings


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    """A Redis of this test's own, to be emptied, restored and killed."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Server(folder, port=free_port())
    yield server
    server.stop()


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[[str], Services]]:
    """Start further processes' services on the same database; they end with the test."""
    houses: list[Services] = []

    def build(redis_url: str) -> Services:
        houses.append(build_services(replace(settings, redis_url=redis_url)))
        return houses[-1]

    yield build
    for services in houses:
        services.close()


@pytest.fixture
def web(start: Callable[[str], Services], redis: Server) -> Services:
    """The process that caches keys."""
    return start(redis.url)


@pytest.fixture
def office(start: Callable[[str], Services], redis: Server, web: Services) -> Services:
    """The process in which keys are changed."""
    return start(redis.url)


@pytest.fixture
def example_client(office: Services) -> ExampleClient:
    return ExampleClient(office)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this thread asks the database from now on; the times of last uses are written by another."""
    statements: list[str] = []
    real, here = database.obj.execute_sql, threading.current_thread()

    def note(sql: str, *rest: Any, **more: Any) -> Any:
        if threading.current_thread() is here:
            statements.append(sql)
        return real(sql, *rest, **more)

    monkeypatch.setattr(database.obj, "execute_sql", note)
    return statements
