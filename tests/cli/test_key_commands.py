"""The operator's commands for clients, people, API keys and master keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyotp
import pytest
from click.testing import CliRunner, Result

from ussd_server.cli import main, open_services
from ussd_server.context import operator_context
from ussd_server.models.clients import AuditEvent, UserFactor
from ussd_server.models.keys import ApiKey
from ussd_server.services.webhooks.messages import CreateWebhook

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, migrated_sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `ussd-server` on a database of this test's own."""
    shutil.copy(migrated_sqlite, tmp_path / "ussd.db")
    for name in ("USSD_DATABASE_URL", "USSD_REDIS_URL", "USSD_SECRETS_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    return lambda *words, typed=None: CliRunner().invoke(main, words, input=typed, catch_exceptions=False)


def output_of(result: Result) -> Any:
    """The JSON that a successful command printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_a_key_called_is_shown_by_its_id_and_by_its_apikey(command: Command) -> None:
    output_of(command("clients", "create", "Acme", "--json"))
    key = output_of(command("keys", "create", "--client", "Acme", "--json"))
    for name in (key["id"], key["apikey"]):
        assert output_of(command("keys", "requests", name, "--json")) == {"items": []}
    assert command("keys", "requests", "unknown0").exit_code == 1


def test_clients_people_and_keys_are_made_listed_disabled_and_enabled(command: Command) -> None:
    client = output_of(command("clients", "create", "Acme", "--json"))
    user = output_of(
        command("users", "create", "--client", "Acme", "--email", "A@acme.example", "--role", "owner", "--json")
    )
    assert len(user.pop("password")) >= 20
    key = output_of(command("keys", "create", "--client", "Acme", "--scopes", "ussd:* balance:read", "--json"))
    assert (key["client_id"], key["scopes"]) == (client["client_id"], "ussd:* balance:read")
    for group, name, thing in [
        ("clients", "Acme", client),
        ("users", "a@acme.example", user),
        ("keys", key["apikey"], key),
    ]:
        assert not output_of(command(group, "disable", name, "--json"))["is_active"]
        changed = output_of(command(group, "enable", name, "--json"))
        assert changed["is_active"]
        expected = {field: value for field, value in thing.items() if field not in ("updated_at", "apisecret")}
        assert {field: changed[field] for field in expected} == expected
    assert "1 to 200 characters" in command("clients", "disable", "Acme", "--reason", " ").output
    output_of(command("clients", "disable", "Acme", "--reason", "unpaid bill", "--json"))
    (disabled,) = AuditEvent.select().where(AuditEvent.reason.is_null(False))
    assert (disabled.action, disabled.reason) == ("client.disabled", "unpaid bill")
    (listed,) = output_of(command("clients", "list", "--json"))["items"]
    assert listed["client_id"] == client["client_id"]
    (listed,) = output_of(command("users", "list", "--json"))["items"]
    assert listed["email"] == "a@acme.example"


def test_a_lost_second_factor_is_removed(command: Command) -> None:
    command("clients", "create", "Acme")
    user = output_of(command("users", "create", "--client", "Acme", "--email", "a@b.c", "--role", "owner", "--json"))
    assert "has no second factor" in command("users", "remove-factor", "a@b.c").output
    now = datetime.now(UTC)
    UserFactor.create(id=user["user_id"], factor_sealed=b"x", last_step=0, created_at=now)
    assert output_of(command("users", "remove-factor", "A@b.c", "--json"))["user_id"] == user["user_id"]
    assert UserFactor.select().count() == 0
    removed = AuditEvent.get(AuditEvent.action == "user.factor_removed")
    assert (removed.actor, removed.object_id) == ("operator", user["user_id"])
    assert "There is no user b@b.c" in command("users", "remove-factor", "b@b.c").output


def test_a_key_is_named_bound_changed_and_listed_with_its_state(command: Command) -> None:
    command("clients", "create", "Acme")
    bounds = ["--name", "Till 4", "--allow", "192.0.2.10", "--allow", "2001:db8::/32", "--daily-limit", "2,000,000"]
    key = output_of(command("keys", "create", "--client", "Acme", *bounds, "--json"))
    (listed,) = output_of(command("keys", "list", "--client", "Acme", "--json"))["items"]
    assert (listed["name"], listed["state"], listed["is_active"], listed["created_by"]) == ("Till 4", "active", 1, None)
    assert (listed["allowed_addresses"], listed["daily_limit"]) == (["192.0.2.10", "2001:db8::/32"], 2_000_000)
    words = ["--scopes", "balance:read", "--clear", "allow", "--clear", "daily-limit", "--name", "Till 5"]
    changed = output_of(command("keys", "change", key["apikey"], *words, "--json"))
    assert (changed["name"], changed["scopes"], changed["daily_limit"]) == ("Till 5", "balance:read", None)
    assert changed["allowed_addresses"] is None
    for words, sentence in (
        (["--allow", "192.0.2.1/8"], "Not an address or a network '192.0.2.1/8'"),
        (["--daily-limit", "-1"], "must be more than 0 shillings"),
        (["--expires-at", "2020-01-01"], "must be in the future"),
        (["--name", "x" * 101], "name: Must be 1 to 100 characters"),
    ):
        refused = command("keys", "change", key["id"], *words)
        assert refused.exit_code
        assert sentence in refused.output
    ApiKey.update(expires_at=datetime(2026, 1, 1, tzinfo=UTC)).execute()
    assert "expired" in command("keys", "list", "--client", "Acme").output
    assert "API Key not found" in command("keys", "change", "nokey").output


def test_webhooks_are_listed_and_events_are_sent_again(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USSD_ALLOW_PRIVATE_ADDRESSES", "1")
    client_id = output_of(command("clients", "create", "Acme", "--json"))["client_id"]
    assert command("webhooks", "list", "--client", "Acme").output == "The client has no webhooks.\n"
    with open_services() as services:
        context = operator_context(client_id)
        made = services.webhooks.create(CreateWebhook("http://127.0.0.1:9999/", ("webhook.test",)), context)
        event_id = services.webhooks.test(made.id, context).id
    (listed,) = output_of(command("webhooks", "list", "--client", "Acme", "--json"))["items"]
    assert (listed["id"], listed["is_active"], "secret" in listed) == (made.id, True, False)
    redeliver = ("webhooks", "redeliver", "--client", "Acme")
    assert output_of(command(*redeliver, event_id, "--json")) == {"events": 1}
    period = ("--from", "2020-01-01", "--to", "2099-01-01T00:00:00Z")
    assert command(*redeliver, *period, "--type", "webhook.test").output == "Events that are sent again: 1.\n"
    for words, said in (
        ((), "Give the id of an event, or a period"),
        ((event_id, *period), "Give the id of an event, or a period"),
        (period[:2], "Give the id of an event, or a period"),
        ((*period, "--type", "webhook.tst"), "Did you mean webhook.test?"),
        ((client_id,), "Event not found"),
    ):
        assert said in command(*redeliver, *words).output


def test_secrets_are_listed_only_when_they_are_asked_for(command: Command) -> None:
    command("clients", "create", "Acme")
    secret = output_of(command("keys", "create", "--client", "Acme", "--json"))["apisecret"]
    for words in (["--json"], []):
        assert secret not in command("keys", "list", "--client", "Acme", *words).output
        assert secret in command("keys", "list", "--client", "Acme", "--show-secrets", *words).output


def test_a_password_is_read_from_standard_input_and_not_repeated(command: Command) -> None:
    command("clients", "create", "Acme")
    words = ["users", "create", "--client", "Acme", "--email", "a@b.c", "--role", "viewer", "--password-stdin"]
    made = command(*words, typed="a typed password\n")
    assert made.exit_code == 0
    assert "a typed password" not in made.output
    changed = command("users", "password", "a@b.c", "--password-stdin", "--json", typed="short\n")
    assert (changed.exit_code, "password: Must be 12 to 256" in changed.output) == (1, True)
    assert len(output_of(command("users", "password", "a@b.c", "--json"))["password"]) >= 20


def test_the_master_keys_are_renewed_and_the_old_ones_retired(command: Command) -> None:
    command("clients", "create", "Acme")
    secret = output_of(command("keys", "create", "--client", "Acme", "--json"))["apisecret"]
    assert output_of(command("secrets", "add", "--json")) == {"added": True}
    refused = command("secrets", "retire")
    assert (refused.exit_code, "secrets rekey" in refused.output) == (1, True)
    # The secret of the key, and the signature of its row.
    assert output_of(command("secrets", "rekey", "--json")) == {"rekeyed": 2}
    assert output_of(command("secrets", "retire", "--json")) == {"retired": True}
    assert output_of(command("secrets", "rotate", "--json")) == {"rekeyed": 2}
    assert secret in command("keys", "list", "--client", "Acme", "--show-secrets").output


def test_secrets_are_written_once_and_never_over_others(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "house.json"
    assert command("secrets", "create", str(file)).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    assert command("secrets", "create", str(file)).exit_code == 1
    assert file.read_bytes() == before
    lost = command("secrets", "create", str(tmp_path / "nowhere" / "house.json"))
    assert (lost.exit_code, "cannot be written" in lost.output) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ["clients", "disable", "Nobody"],
        ["users", "disable", "nobody@b.c"],
        ["keys", "disable", "nokey"],
        ["keys", "list", "--client", "Nobody"],
        ["keys", "create", "--client", "Nobody"],
        ["users", "create", "--client", "Nobody", "--email", "a@b.c", "--role", "owner"],
        ["clients", "create", ""],
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_1(words: list[str], command: Command) -> None:
    result = command(*words)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1


def test_a_scope_that_does_not_exist_is_explained(command: Command) -> None:
    result = command("keys", "create", "--client", "Acme", "--scopes", "everything")
    assert result.exit_code == 2
    assert "Each must be one of ussd, menus, transactions, balance, collection, webhooks" in result.output


def test_a_key_is_explained(command: Command) -> None:
    command("clients", "create", "Acme")
    key = output_of(command("keys", "create", "--client", "Acme", "--json"))
    explained = output_of(command("keys", "explain", key["apikey"], "--json"))
    assert list(explained) == ["verdict", "sentence", "since", "by", "until", "client"]
    assert (explained["verdict"], explained["client"]) == ("accepted", "Acme")
    assert output_of(command("keys", "explain", "unknownkey1", "--json"))["verdict"] == "unknown"
    assert "accepted: A call with this key" in command("keys", "explain", key["id"]).output


def test_operators_are_made_listed_disabled_and_given_a_new_factor(command: Command) -> None:
    shown = command("operators", "create", "--email", "Ann@ops.example").output
    assert "Password: " in shown
    assert "otpauth://totp/" in shown
    assert "█" in shown or "▀" in shown
    made = output_of(
        command("operators", "create", "--email", "bob@ops.example", "--password-stdin", "--json", typed="x" * 12)
    )
    assert "password" not in made
    assert len(set(made["recovery_codes"])) == 10
    assert not output_of(command("operators", "disable", "BOB@ops.example", "--json"))["is_active"]
    assert output_of(command("operators", "enable", "bob@ops.example", "--json"))["recovery_codes_left"] == 10
    renewed = output_of(command("operators", "reset-factor", "bob@ops.example", "--json"))
    assert renewed["secret"] != made["secret"]
    assert set(renewed["recovery_codes"]).isdisjoint(made["recovery_codes"])
    assert "Password: " in command("operators", "password", "bob@ops.example").output
    code = output_of(command("operators", "code", "bob@ops.example", "--json"))["code"]
    assert pyotp.TOTP(renewed["secret"]).verify(code, valid_window=1)
    listed = command("operators", "list", "--json")
    assert [found["email"] for found in output_of(listed)["items"]] == ["ann@ops.example", "bob@ops.example"]
    assert made["secret"] not in listed.output
    assert command("operators", "create", "--email", "ann@ops.example").exit_code == 1
    assert command("operators", "disable", "zoe@ops.example").exit_code == 1
