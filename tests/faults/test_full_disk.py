"""A full disk of the database: readiness, measures, the doctor and the log name it, and no restart is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from testbed.postgres import PostgresServer
from tests.cli.test_doctor import diagnose
from tests.support.example_client import ExampleClient
from tests.support.sandbox import sandbox_settings
from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, database, reason_of
from ussd_server.security.key_ring import Keyring
from ussd_server.settings import Settings

MEGABYTE = 1024 * 1024


@contextmanager
def disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own in `folder`, until the block ends."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Write a file until no byte is left."""
    with (folder / "fill").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(MEGABYTE))
        except OSError:
            return folder / "fill"


def pay(web: FlaskClient, key: dict[str, str], number: int) -> int:
    payment = {"type": "collection", "phone_number": "+256770000000", "amount": 5000, "reference": f"order-{number}"}
    return web.post("/api/transactions", json=payment, headers=key).status_code


@contextmanager
def postgres_on(folder: Path) -> Iterator[str]:
    server = PostgresServer(folder)
    try:
        yield server.url
    finally:
        close_connections()
        server.stop()


@contextmanager
def sqlite_on(folder: Path) -> Iterator[str]:
    folder.chmod(0o700)
    yield f"sqlite:///{folder}/ussd.db"
    close_connections()


@pytest.mark.needs_mount
@pytest.mark.parametrize(("started", "megabytes"), [(postgres_on, 160), (sqlite_on, 12)])
def test_a_service_whose_database_has_no_room_is_not_ready_and_says_so(
    started: object, megabytes: int, redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with disk(tmp_path / "disk", megabytes) as folder, started(folder) as url:  # type: ignore[operator]
        open_database(url, 8)
        migrate()
        services = build_services(sandbox_settings(tmp_path, url, redis_url))
        web = create_app(services).test_client()
        made = ExampleClient(services).create_key()
        key = {"x-api-key": made.apikey, "x-api-secret": made.apisecret}
        assert web.get("/health/ready").status_code == 200
        filling = fill(folder)
        reply = web.get("/health/ready")
        assert (reply.status_code, reply.json["message"]) == (503, "No room left on the database's disk")
        assert "ussd_database_up 0.0" in web.get("/metrics").text
        assert "ussd_database_full 1.0" in web.get("/metrics").text
        assert 503 in (pay(web, key, number) for number in range(80))
        assert "no room left on the database's disk" in caplog.text
        data = tmp_path / "data"
        data.mkdir(mode=0o700)
        Keyring.create(data / "secrets.json")
        _, found = diagnose(data, USSD_DATABASE_URL=url, USSD_REDIS_URL=redis_url)
        assert found["database"]["found"].startswith("no room left on the ")
        filling.unlink()
        assert web.get("/health/ready").status_code == 200
        assert pay(web, key, 80) == 201
        services.close()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("sqlstate", "reason"),
    [
        ("53100", "no room left on the database's disk"),
        ("55P03", "a lock of the database was not free in time"),
        ("57014", "a statement of the database took too long"),
        ("57P01", "the database is away"),
    ],
)
def test_the_log_says_what_kept_the_database_from_working(settings: Settings, sqlstate: str, reason: str) -> None:
    open_database(settings.database_url, 2)
    with pytest.raises(DATABASE_ERRORS) as caught:
        database.execute_sql(f"DO $$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$")
    assert reason_of(caught.value) == reason
