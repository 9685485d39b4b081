"""The doctor finds what is wrong and says how to mend it; `mail test` says what the mail server replied."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from tests.database.divided import divide, drop_months
from tests.support.commands import run_command
from tests.support.example_client import ExampleClient
from tests.support.mail_server import PUBLIC_URL, SENDER, MailServer
from tests.support.real_service.service import environment
from tests.support.shop import Shop, client_call
from tests.support.stand_ins import mtn_settings
from ussd_server.bootstrap import Services
from ussd_server.cli.service.doctor_database import callers
from ussd_server.context import operator_context
from ussd_server.database.opening import open_database
from ussd_server.database.unit_of_work import close_connections, database_now
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey
from ussd_server.models.operations import ServiceClock
from ussd_server.security.key_ring import Keyring
from ussd_server.server.running import Announcement
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.settings import Settings, read_settings

OPS = "ops@example.org"


def diagnose(folder: Path, **settings: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Call the doctor; give its exit code and its findings by part."""
    completed = run_command("doctor", "--json", env=environment(folder, **settings))
    return completed.returncode, {finding["part"]: finding for finding in json.loads(completed.stdout)["findings"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    Keyring.create(tmp_path / "secrets.json")
    return tmp_path


def test_a_healthy_installation_has_nothing_to_mend(folder: Path, database_url: str, redis_url: str) -> None:
    status, findings = diagnose(folder, USSD_DATABASE_URL=database_url, USSD_REDIS_URL=redis_url)
    assert status == 0
    assert set(findings) == {
        "settings",
        "running",
        "data folder",
        "secrets",
        "keys",
        "reference key",
        "database",
        "clock",
        "Redis",
        "mail",
        "sandbox",
    } | ({"failover"} if database_url.startswith("postgres") else set())
    assert all(finding["mend"] is None for finding in findings.values())


def test_another_reference_key_than_that_of_earlier_payments_is_named(folder: Path, services: Services) -> None:
    services.runtime.references.verify()
    mine = (services.settings.data_dir / "secrets.json").read_text()
    document = json.loads(mine)
    Keyring.create(folder / "other.json")
    document["reference"] = json.loads((folder / "other.json").read_text())["reference"]
    (folder / "secrets.json").write_text(json.dumps(document))
    (folder / "secrets.json").chmod(0o600)
    settings = {
        "USSD_DATABASE_URL": services.settings.database_url,
        "USSD_REDIS_URL": services.settings.redis_url,
    }
    status, findings = diagnose(folder, **settings)
    assert (status, findings["keys"]["mend"]) == (1, None)
    assert findings["reference key"]["found"].startswith("The reference key is not the one")


def test_an_installation_with_nothing_running_has_each_part_named(folder: Path) -> None:
    (folder / "secrets.json").chmod(0o644)
    status, findings = diagnose(folder, USSD_DATABASE_URL="postgresql://nobody:a-hushed-word@127.0.0.1:1/none")
    assert status == 1
    assert findings["secrets"]["mend"] == f"Take them away: chmod go= {folder / 'secrets.json'}"
    assert findings["database"]["found"] == "the postgresql database does not answer"
    assert "USSD_DATABASE_URL" in findings["database"]["mend"]
    assert "ussd-server run" in findings["Redis"]["mend"]
    assert "a-hushed-word" not in json.dumps(findings)


def test_a_database_that_was_never_migrated_is_named(folder: Path) -> None:
    assert "migrate" in diagnose(folder)[1]["database"]["mend"]
    (folder / "ussd.db").touch()
    assert diagnose(folder)[1]["database"]["mend"] == "Run `ussd-server migrate`."


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_divided_table_whose_months_run_out_is_named(settings: Settings, folder: Path) -> None:
    places = {"USSD_DATABASE_URL": settings.database_url, "USSD_REDIS_URL": settings.redis_url}
    divide(settings.database_url)
    assert diagnose(folder, **places)[1]["partitions"]["mend"] is None
    drop_months(settings.database_url)
    status, findings = diagnose(folder, **places)
    assert status == 1
    assert "worker" in findings["partitions"]["mend"]


def test_a_service_whose_time_is_not_the_databases_is_named(settings: Settings, folder: Path) -> None:
    open_database(settings.database_url, 2)
    ServiceClock.update(ahead_ms=600_000, decided_at=database_now()).execute()
    close_connections()
    places = {"USSD_DATABASE_URL": settings.database_url, "USSD_REDIS_URL": settings.redis_url}
    found = diagnose(folder, **places)[1]["clock"]
    assert found["found"] == "the service's time is +600 s from the database's"
    assert "docs/OPERATIONS.md" in found["mend"]


def test_a_provider_that_does_not_reply_is_named(folder: Path) -> None:
    product = {f"USSD_MTN_COLLECTION_{name}": "x" for name in ("SUBSCRIPTION_KEY", "API_USER", "API_KEY")}
    findings = diagnose(folder, USSD_MTN_BASE_URL="http://127.0.0.1:1", **product)[1]
    assert findings["sandbox"]["mend"] is None
    assert findings["mtn"]["found"] == "does not return our balance: it accepts no connection"
    assert "USSD_MTN_" in findings["mtn"]["mend"]
    assert "docs/guides/mtn.md" in findings["mtn"]["mend"]


def test_a_product_that_is_refused_is_named_although_another_one_answers(folder: Path) -> None:
    mtn = mtn_settings("")
    keys = {"api_user": mtn["USSD_MTN_COLLECTION_API_USER"], "api_key": mtn["USSD_MTN_COLLECTION_API_KEY"]}
    with run(MtnMomo(MtnSettings("mtnuganda", "UGX", **keys))) as address:
        right = mtn | {"USSD_MTN_BASE_URL": address}
        assert diagnose(folder, **right)[1]["mtn"]["found"] == "returns our balance"
        found = diagnose(folder, **(right | {"USSD_MTN_COLLECTION_API_KEY": "wrong"}))[1]["mtn"]
    assert found["found"] == "does not return our balance for collections: HTTP 401: login_failed"
    assert "USSD_MTN_" in found["mend"]


def test_settings_that_cannot_be_used_are_all_named(folder: Path) -> None:
    status, findings = diagnose(folder, USSD_WORKERS="many", USSD_ENV="moon")
    assert status == 1
    assert set(findings) == {"USSD_WORKERS", "USSD_ENV"}


def test_a_process_with_another_setting_is_named_without_secrets_and_one_that_ended_is_forgotten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    airtel = {"USSD_AIRTEL_BASE_URL": "http://127.0.0.1:1", "USSD_AIRTEL_CLIENT_ID": "us"}
    given = {**airtel, "USSD_AIRTEL_CLIENT_SECRET": "first-word"}
    for name, value in {"USSD_DATA_DIR": str(folder), **given}.items():
        monkeypatch.setenv(name, value)
    with closing(Announcement(read_settings(), "worker")):
        assert diagnose(folder, **given)[1]["running worker"]["mend"] is None
        elsewhere = diagnose(folder, USSD_BIND="127.0.0.1:1", **given)[1]["running worker"]
        assert ("USSD_BIND is" in elsewhere["found"], elsewhere["mend"]) == (True, None)
        found = diagnose(folder, USSD_HOLD_MONEY="1", **given)[1]["running worker"]
        assert found["found"].endswith("with other settings: USSD_HOLD_MONEY is no there and yes here")
        (file,) = (folder / "running").iterdir()
        assert "-word" not in file.read_text() + json.dumps(found)
        left_over = file.read_text()
    # A process that was killed leaves its file, but not its lock.
    file.write_text(left_over)
    assert "no process" in diagnose(folder)[1]["running"]["found"]


def test_a_file_without_keys_and_one_of_another_database_have_different_findings(
    services: Services, settings: Settings, folder: Path
) -> None:
    Shop(services)
    services.api_keys.create(CreateApiKey(None), client_call(Client.get().id))
    places = {"USSD_DATABASE_URL": settings.database_url, "USSD_REDIS_URL": settings.redis_url}
    assert diagnose(folder, **places)[1]["keys"]["mend"] is None
    Keyring.create(folder / "other.json")
    found = diagnose(folder, USSD_SECRETS_FILE=str(folder / "other.json"), **places)[1]
    assert "belongs to this database" in found["keys"]["mend"]
    ApiKey.delete().execute()
    services.operators.create(CreateOperator("ann@ops.example", "correct horse battery"), operator_context())
    assert diagnose(folder, **places)[1]["keys"]["mend"] is None
    found = diagnose(folder, USSD_SECRETS_FILE=str(folder / "other.json"), **places)[1]
    assert "second factors cannot be read" in found["keys"]["mend"]
    (folder / "other.json").write_text("{}")
    found = diagnose(folder, USSD_SECRETS_FILE=str(folder / "other.json"), **places)[1]
    assert "Restore it" in found["keys"]["mend"]


@pytest.mark.parametrize(
    ("settings", "part", "words"),
    [
        ({}, "proxies", "USSD_TRUSTED_PROXIES"),
        ({"USSD_TRUSTED_PROXIES": "1", "USSD_BIND": "0.0.0.0:8000"}, "proxies", "USSD_BIND"),
        ({"USSD_TRUSTED_PROXIES": "1"}, "proxies", None),
    ],
)
def test_production_that_sees_all_callers_under_one_address_is_reported(
    folder: Path, settings: dict[str, str], part: str, words: str | None
) -> None:
    found = diagnose(folder, USSD_ENV="production", USSD_SECRETS_FILE=str(folder / "secrets.json"), **settings)[1]
    assert (words in found[part]["mend"]) if words else (found[part]["mend"] is None)


def test_keys_that_are_all_used_from_one_private_address_seem_to_be_behind_a_proxy(services: Services) -> None:
    clients = [ExampleClient(services, name) for name in ("acme", "other")]
    for client in clients:
        client.create_key()

    def is_reported(*addresses: str) -> bool:
        for client, address in zip(clients, addresses, strict=True):
            ApiKey.update(last_used_address=address).where(ApiKey.client_id == client.id).execute()
        return callers().mend is not None

    assert callers().mend is None
    assert is_reported("10.0.0.7", "10.0.0.7")
    assert is_reported("127.0.0.1", "127.0.0.1")
    assert not is_reported("10.0.0.7", "10.0.0.8")
    assert not is_reported("1.1.1.1", "1.1.1.1")
    assert not is_reported("", "")
    ApiKey.update(last_used_address="10.0.0.7").where(ApiKey.client_id == clients[0].id).execute()
    ApiKey.delete().where(ApiKey.client_id == clients[1].id).execute()
    assert callers().mend is None, "one client may be in a private network"


@pytest.mark.parametrize(
    ("database_url", "redis_url", "named"),
    [
        ("postgresql://u@db.invalid/x", "redis://cache.invalid", {"USSD_DATABASE_URL", "USSD_REDIS_URL"}),
        ("postgresql://u@/x?host=/run,db.invalid&sslmode=prefer", "redis://127.0.0.1:1", {"USSD_DATABASE_URL"}),
        ("postgresql://u@db.invalid/x?sslmode=verify-full", "rediss://cache.invalid", set()),
        ("postgresql:///x?host=/nowhere", "redis+sentinel://a.invalid,b.invalid/main", {"USSD_REDIS_URL"}),
        ("postgresql://u@127.0.0.1:1/x", "redis+sentinel://a.invalid,b.invalid/main?ssl=true", set()),
        ("postgresql://u@127.0.0.1:1/x", "redis+sentinel://a.invalid,b.invalid/main?ssl=false", set()),
    ],
)
def test_production_that_speaks_to_other_machines_without_tls_is_named(
    folder: Path, database_url: str, redis_url: str, named: set[str]
) -> None:
    settings = {"USSD_SECRETS_FILE": str(folder / "secrets.json"), "USSD_ENV": "production"}
    settings["USSD_PUBLIC_URL"] = "https://ussd.example.com"
    found = diagnose(folder, USSD_DATABASE_URL=database_url, USSD_REDIS_URL=redis_url, **settings)[1]
    assert {part for part in found if part.startswith("USSD_") and found[part]["mend"]} == named


def test_migrate_and_the_doctor_say_alike_what_is_wrong_with_a_database(folder: Path, postgres_url: str) -> None:
    url = f"{postgres_url.rpartition('/')[0]}/nothing"
    refused = run_command("migrate", env=environment(folder, USSD_DATABASE_URL=url))
    found = diagnose(folder, USSD_DATABASE_URL=url)[1]["database"]
    assert (refused.returncode, refused.stdout) == (1, "")
    said = refused.stderr.splitlines()[-1]
    assert said == f"Error: The database or its user does not exist. {found['mend']}"
    assert found["found"] == "the postgresql database or its user does not exist"


def test_production_without_a_public_address_is_named(folder: Path) -> None:
    settings = {"USSD_SECRETS_FILE": str(folder / "secrets.json"), "USSD_ENV": "production"}
    assert "take their host from the request" in diagnose(folder, **settings)[1]["USSD_PUBLIC_URL"]["mend"]


def test_the_mail_server_is_tried(folder: Path, mail_server: MailServer) -> None:
    settings = {"USSD_MAIL_FROM": "noreply@example.com", "USSD_PUBLIC_URL": "http://127.0.0.1:8000"}
    assert diagnose(folder, USSD_SMTP_URL=mail_server.url, **settings)[1]["mail"] == {
        "part": "mail",
        "found": "the mail server lets us in",
        "mend": None,
    }
    mail_server.stop()
    found = diagnose(folder, USSD_SMTP_URL=mail_server.url, **settings)[1]["mail"]
    assert found["found"] == "the mail server accepts no connection"
    assert found["mend"].startswith("Check USSD_SMTP_URL")


def mail_test(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    given = environment(settings.data_dir, USSD_DATABASE_URL=settings.database_url, **more)
    return run_command("mail", "test", OPS, *arguments, env=given)


@pytest.mark.usefixtures("services")
def test_a_test_mail_is_sent_or_the_reason_is_said(settings: Settings, mail_server: MailServer) -> None:
    more = {"USSD_SMTP_URL": mail_server.url, "USSD_MAIL_FROM": SENDER, "USSD_PUBLIC_URL": PUBLIC_URL}
    sent = mail_test(settings, "--json", **more)
    assert (sent.returncode, json.loads(sent.stdout)) == (0, {"sent": True, "recipient": OPS})
    assert len(mail_server.of(OPS)) == 1
    mail_server.refusals[OPS] = "550 No such user"
    refused = mail_test(settings, **more)
    assert refused.returncode == 1
    assert "Not sent: the mail server refused the recipient (550)." in refused.stderr
    assert "USSD_SMTP_URL is not set" in mail_test(settings).stderr
