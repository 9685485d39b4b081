"""Settings are read once, and refused loudly when they are incomplete or unsafe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from redis.connection import parse_url

from tests.outbound.certificates import Authority
from ussd_server.security.key_ring import Keyring
from ussd_server.settings import SettingsError, read_settings
from ussd_server.settings.shown import shown_settings


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("USSD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))


def refusals(monkeypatch: pytest.MonkeyPatch, **settings: str) -> list[str]:
    """The names of the settings that are refused."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        read_settings()
    return [line.partition(":")[0] for line in str(refused.value).splitlines()]


def test_a_replica_is_for_postgresql_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusals(monkeypatch, USSD_REPLICA_URL="postgresql://replica/ussd") == ["USSD_REPLICA_URL"]
    monkeypatch.setenv("USSD_DATABASE_URL", "postgresql://primary/ussd")
    assert read_settings().replica_url == "postgresql://replica/ussd"
    assert refusals(monkeypatch, USSD_REPLICA_URL="sqlite:///x") == ["USSD_REPLICA_URL"]


def test_without_settings_everything_is_local_and_in_one_folder(tmp_path: Path) -> None:
    settings = read_settings()
    assert settings.bind == "127.0.0.1:8000"
    assert settings.database_url == f"sqlite:///{tmp_path}/ussd.db"
    assert settings.redis_url == f"unix://{tmp_path}/valkey.sock"
    assert settings.embeds_redis
    assert settings.is_sandbox


def test_an_empty_setting_is_an_absent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USSD_BIND", " ")
    monkeypatch.setenv("USSD_WORKERS", "")
    assert (read_settings().bind, read_settings().workers) == ("127.0.0.1:8000", 2)


@pytest.mark.parametrize("name", ["a b%41#?c", "x" * 120])
def test_the_valkey_of_any_folder_has_an_address_that_a_client_understands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path / name))
    settings = read_settings()
    assert settings.embeds_redis
    assert parse_url(settings.redis_url)["path"] == str(settings.valkey_socket)
    assert len(os.fsencode(settings.valkey_socket)) <= 107


def test_everything_that_is_wrong_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(refusals(monkeypatch, USSD_WORKERS="0", USSD_THREADS="two", USSD_ENV="moon")) == {
        "USSD_WORKERS",
        "USSD_THREADS",
        "USSD_ENV",
    }
    monkeypatch.delenv("USSD_WORKERS")
    monkeypatch.delenv("USSD_THREADS")
    monkeypatch.delenv("USSD_ENV")
    assert refusals(monkeypatch, USSD_BIND="8000", USSD_DATABASE_URL="mysql://x") == ["USSD_BIND", "USSD_DATABASE_URL"]


@pytest.mark.parametrize("bind", ["127.0.0.1", ":8000", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "x:８０"])
def test_an_address_to_listen_on_has_a_host_and_a_port(monkeypatch: pytest.MonkeyPatch, bind: str) -> None:
    assert refusals(monkeypatch, USSD_BIND=bind) == ["USSD_BIND"]


@pytest.mark.parametrize(
    "url",
    [
        "http://cache:6379",
        "cache:6379",
        "redis://cache:port",
        "redis://cache:0",
        "redis+sentinel://watch:26379",
        "redis+cluster://a,,b",
        "redis+cluster://a:0",
    ],
)
def test_an_address_of_redis_that_no_client_takes_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    assert refusals(monkeypatch, USSD_REDIS_URL=url) == ["USSD_REDIS_URL"]


@pytest.mark.parametrize(
    "url",
    [
        "redis://:key@cache:6379/1",
        "rediss://cache",
        "unix:///run/valkey.sock",
        "redis+cluster://a:7000,b:7001",
        "redis+sentinel://a:26379,b:26379/main/1",
    ],
)
def test_every_form_of_an_address_of_redis_is_taken_without_asking_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("USSD_REDIS_URL", url)
    assert read_settings().redis_url == url


def test_the_certificate_authorities_of_providers_are_in_a_readable_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "providers.pem"
    assert refusals(monkeypatch, USSD_CA_FILE=str(path)) == ["USSD_CA_FILE"]
    path.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    assert refusals(monkeypatch) == ["USSD_CA_FILE"]
    path.write_bytes(b"\x30\x82\x01\x0a")
    assert refusals(monkeypatch) == ["USSD_CA_FILE"]
    path.write_text(Authority().pem)
    assert read_settings().ca_file == path


def test_production_needs_private_secrets_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert refusals(monkeypatch, USSD_ENV="production") == ["USSD_SECRETS_FILE"]
    path = tmp_path / "house.json"
    assert refusals(monkeypatch, USSD_SECRETS_FILE=str(path)) == ["USSD_SECRETS_FILE"]
    Keyring.create(path)
    path.chmod(0o640)
    assert refusals(monkeypatch) == ["USSD_SECRETS_FILE"]
    path.chmod(0o600)
    assert not read_settings().is_sandbox


def test_production_refuses_what_is_for_development(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Keyring.create(tmp_path / "house.json")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "house.json"))
    assert refusals(monkeypatch, USSD_ENV="production", USSD_ALLOW_PRIVATE_ADDRESSES="1", USSD_KILL_POINT="asked") == [
        "USSD_ALLOW_PRIVATE_ADDRESSES",
        "USSD_KILL_POINT",
    ]


def test_production_refuses_sqlite_for_more_than_one_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Keyring.create(tmp_path / "house.json")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "house.json"))
    assert refusals(monkeypatch, USSD_ENV="production", USSD_MACHINES="2") == ["USSD_DATABASE_URL"]
    assert refusals(monkeypatch, USSD_MACHINES="1", USSD_REDIS_URL="redis://cache:6379") == ["USSD_DATABASE_URL"]
    monkeypatch.setenv("USSD_MACHINES", "2")
    monkeypatch.setenv("USSD_DATABASE_URL", "postgresql://database/ussd")
    assert read_settings().web_processes == 4


def test_production_refuses_the_sandbox_of_a_provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Keyring.create(tmp_path / "house.json")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "house.json"))
    product = {f"USSD_MTN_COLLECTION_{name}": "x" for name in ("SUBSCRIPTION_KEY", "API_USER", "API_KEY")}
    settings = {"USSD_ENV": "production", "USSD_MTN_BASE_URL": "https://mtn.example", **product}
    assert refusals(monkeypatch, **settings) == ["USSD_MTN_ENVIRONMENT"]
    monkeypatch.setenv("USSD_MTN_ENVIRONMENT", "mtnuganda")
    assert not read_settings().is_sandbox


def test_production_names_everything_that_is_unsafe_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unsafe = {
        "USSD_ENV": "production",
        "USSD_ALLOW_PRIVATE_ADDRESSES": "1",
        "USSD_KILL_POINT": "asked",
        "USSD_PUBLIC_URL": "http://ussd.example.com",
        "USSD_REDIS_URL": "redis://cache:6379",
    }
    assert set(refusals(monkeypatch, **unsafe)) == {
        "USSD_SECRETS_FILE",
        "USSD_ALLOW_PRIVATE_ADDRESSES",
        "USSD_KILL_POINT",
        "USSD_PUBLIC_URL",
        "USSD_DATABASE_URL",
    }


def test_reading_settings_imports_nothing_that_counts() -> None:
    """The metrics library reads its folder at its import only, so gunicorn sets it from the settings before."""
    program = "import sys, ussd_server.settings; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_mail_server_needs_a_sender_and_the_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusals(monkeypatch, USSD_SMTP_URL="mail.example.com:25") == [
        "USSD_SMTP_URL",
        "USSD_MAIL_FROM",
        "USSD_PUBLIC_URL",
    ]
    monkeypatch.setenv("USSD_SMTP_URL", "smtps://ussd:se%20cret@mail.example.com")
    monkeypatch.setenv("USSD_PUBLIC_URL", "https://ussd.example.com")
    assert refusals(monkeypatch, USSD_MAIL_FROM="Payments <a@b>, c@d") == ["USSD_MAIL_FROM"]
    monkeypatch.setenv("USSD_MAIL_FROM", "Payments <noreply@example.com>")
    settings = read_settings()
    assert "se%20cret" not in repr(settings)
    assert shown_settings(settings)["USSD_SMTP_URL"] == "smtps://mail.example.com"
