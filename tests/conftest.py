"""Fixtures of all tests: both databases, a real Redis, a clock that can be moved, and all services."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import ClassVar
from zlib import crc32

import hypothesis
import pytest
from flask import Flask
from flask.testing import FlaskClient

from testbed.emptied import EmptiedDatabase
from testbed.postgres import create_database, drop_database, temporary_server
from testbed.valkey import Server
from tests.support.made_once import (
    compile_each_route_once,
    compile_each_template_once,
    hash_passwords_quickly,
    quote_each_name_once,
)
from tests.support.sandbox import sandbox_settings
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.clock import Clock
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections
from ussd_server.redis import client as redis_client
from ussd_server.redis.client import connect
from ussd_server.security import key_ring
from ussd_server.settings import Settings

# What the modules of tests make stays to the end: nothing looks through it for garbage while they are imported.
gc.disable()

pytest_plugins = ["tests.support.redis_fixtures", "tests.support.mail_server"]

# Of the examples of a search, this many share: one is tried by day.
_BY_DAY = 4
_EXAMPLES = 100
# No deadline: the time of an example depends on how busy the machine is. Every run tries the same examples.
hypothesis.settings.register_profile(
    "ours",
    max_examples=_EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ours")
# On a busy machine Redis replies late. If it counted as away, a limit would start again in the middle of a test.
redis_client.TIMEOUT_SECONDS = 5.0
# A test that renews keys need not wait until the file is checked.
key_ring.CHECK_SECONDS = 0.0

compile_each_route_once()
compile_each_template_once()
hash_passwords_quickly()
quote_each_name_once()

PROGRAM_FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])

_NEEDS = {
    "needs_chromium": ("chromium",),
    "needs_debootstrap": ("debootstrap", "slirp4netns", "systemd-nspawn"),
    "needs_nginx": ("nginx",),
    "needs_node": ("node", "npm"),
    "needs_patroni": ("etcd", "haproxy", "patroni", "redis-sentinel"),
    "needs_pgbouncer": ("pgbouncer",),
    "needs_php": ("php",),
    "needs_promtool": ("promtool",),
    "needs_spin": ("spin", "gcc"),
    "needs_systemd": ("systemd-analyze",),
}


# Each takes half a minute and more. The first two mostly wait: their processes take the fifth and the sixth as well.
_LONGEST_FILES = (
    "faults/test_cluster.py",
    "test_api_document.py",
    "faults/test_under_load.py",
    "gates/test_receipts.py",
    "console/browser/test_pages.py",
    "simulation/test_simulation.py",
    "journeys/test_api_tools.py",
    "gates/test_sending.py",
    "journeys/test_production.py",
    "journeys/test_run.py",
)
# Their tests start servers and browsers, or processes that compute for long.
_LONG_FOLDERS = frozenset({"browser", "faults", "journeys", "model", "simulation"})
# What these folders test is SQL: each test runs on both databases, as one that is marked `both_databases`.
_OF_SQL = frozenset({"database"})
# What these folders test holds no SQL: it reaches a database by services alone.
_WITHOUT_SQL = frozenset({"blueprints", "console", "server", "simulators", "smpp"})
_DATABASES = ("sqlite", "postgres")
# Of other tests, and of the cases of one test, this many share: one runs on PostgreSQL, where it takes twice as long.
_ON_POSTGRES = 4
_TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run ask for everything, as that of each night does."""
    parser.addoption("--everything", action="store_true", help="run all tests, on both databases, and all worlds")


def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis try a quarter of its examples by day, as `tries` does."""
    if not config.getoption("--everything"):
        hypothesis.settings.register_profile("by day", hypothesis.settings.default, max_examples=_EXAMPLES // _BY_DAY)
        hypothesis.settings.load_profile("by day")


def _is_installed(program: str) -> bool:
    return shutil.which(program, path=PROGRAM_FOLDERS) is not None


def _may_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def _needless_database(item: pytest.Item, place: int) -> str | None:
    """The database on which a test need not run where it also runs on the other one; None if it needs both.

    `place` is that of its case among the cases of its test.
    """
    folder = item.path.relative_to(_TESTS).parts[0]
    if folder in _OF_SQL or item.get_closest_marker("both_databases"):
        return None
    if folder in _WITHOUT_SQL:
        return "postgres"
    name = item.nodeid.partition("[")[0]
    return "sqlite" if (crc32(name.encode()) + place) % _ON_POSTGRES == 0 else "postgres"


def _on_second_database(items: list[pytest.Item]) -> list[pytest.Item]:
    """The runs of tests on a database that they need not have."""
    tests: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        for database in _DATABASES:
            if database in parameters:
                tests[test][parameters.replace(database, "")][database] = item
    unwanted = []
    for cases in tests.values():
        # In an order that follows none of their parameters, so that each value of one is tried on both databases.
        for place, case in enumerate(sorted(cases, key=lambda case: crc32(case.encode()))):
            runs = cases[case]
            if len(runs) == len(_DATABASES):
                needless = _needless_database(next(iter(runs.values())), place)
                unwanted += [item for database, item in runs.items() if database == needless]
    return unwanted


def _sort_longest_first(items: list[pytest.Item]) -> None:
    """Put the longest files first, then those of long folders or with a slow test, then those with most tests."""
    longest = {_TESTS / name: place for place, name in enumerate(_LONGEST_FILES)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    tests = Counter(item.path for item in items)

    @cache
    def place(path: Path) -> tuple[int, bool, int, Path]:
        is_long = path in slow or not _LONG_FOLDERS.isdisjoint(path.parts)
        return longest.get(path, len(longest)), not is_long, -tests[path], path

    items.sort(key=lambda item: place(item.path))


def _deselect(config: pytest.Config, items: list[pytest.Item], unwanted: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=unwanted)
    left_out = set(unwanted)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no process has one of them left at the end of the run.

    Deselect the runs on a second database and the tests of the night, unless everything is asked for, and tests that
    need a program which this machine lacks. The pipeline has all of these programs.
    """
    if not config.getoption("--everything"):
        _deselect(config, items, [item for item in items if item.get_closest_marker("nightly")])
        _deselect(config, items, _on_second_database(items))
    _sort_longest_first(items)
    if os.environ.get("CI") == "true":
        return
    missing = [marker for marker, programs in _NEEDS.items() if not all(map(_is_installed, programs))]
    if find_spec("gunicorn_h1c") is None:
        missing.append("needs_fast_parser")
    if not _may_mount():
        missing.append("needs_mount")
    _deselect(config, items, [item for item in items if any(map(item.get_closest_marker, missing))])


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later garbage collection: it stays to the end."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def tries(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """Gives how many examples of a search are tried: a quarter of them, and with `--everything` all."""
    share = 1 if request.config.getoption("--everything") else _BY_DAY
    return lambda examples: examples // share


class MovableClock(Clock):
    """A clock that tests set forward."""

    last_made: ClassVar[MovableClock | None] = None
    """The clock of the present test, where it has one."""

    def __init__(self) -> None:
        super().__init__()
        self._advancing = Lock()
        now = datetime.now(UTC)
        # No hour, and so no day or month, ends while a test runs, unless the test lets it.
        self.anchor(now - timedelta(minutes=2) if now.minute >= 58 else now)
        MovableClock.last_made = self

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, also beside another thread that does."""
        with self._advancing:
            self.anchor(self.now() + timedelta(seconds=seconds))


@pytest.fixture(autouse=True)
def log_level() -> None:
    """The program's log as a process finds it: a command that another test ran in this one has set its level."""
    logging.getLogger("ussd_server").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a real PostgreSQL: the pipeline's, or one started here."""
    if given := os.environ.get("USSD_TEST_DATABASE_URL"):
        yield given
        return
    with temporary_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Redis: the pipeline's, or a Valkey started here."""
    if given := os.environ.get("USSD_TEST_REDIS_URL"):
        # Tests that run side by side empty their own database only.
        yield f"{given.rstrip('/')}/{1 + int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0')[2:])}"
        return
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    open_database(f"sqlite:///{path}", 2)
    migrate()
    close_connections()
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url: str) -> Iterator[str]:
    """A migrated PostgreSQL database, to be copied."""
    url = create_database(postgres_url)
    open_database(url, 2)
    migrate()
    close_connections()
    yield url
    drop_database(postgres_url, url)


@pytest.fixture(scope="session")
def emptied_postgres(migrated_postgres: str) -> Iterator[EmptiedDatabase]:
    """A database that each test finds as it was migrated."""
    database = EmptiedDatabase(migrated_postgres)
    yield database
    database.drop()


@pytest.fixture(params=_DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database as it was migrated, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        path = tmp_path / "test.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        yield f"sqlite:///{path}"
        return
    database: EmptiedDatabase = request.getfixturevalue("emptied_postgres")
    yield database.take()
    database.give_back()


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    """Sandbox settings on this test's database and the shared Redis."""
    return sandbox_settings(tmp_path, database_url, redis_url)


@pytest.fixture
def clock() -> MovableClock:
    """The clock of the services, which the test moves."""
    return MovableClock()


@pytest.fixture
def services(settings: Settings, clock: MovableClock) -> Iterator[Services]:
    """Every service, on this test's own database."""
    with connect(settings.redis_url, timeout_seconds=5) as redis:
        redis.flushdb()
    services = build_services(settings, clock)
    yield services
    services.close()
    close_connections()


@pytest.fixture
def app(services: Services) -> Flask:
    """The real application; requests of its test client keep the order of their fields."""
    application = create_app(services)
    application.json.sort_keys = False  # type: ignore[attr-defined]
    return application


@pytest.fixture
def web(app: Flask) -> FlaskClient:
    """A caller of the real application."""
    return app.test_client()
