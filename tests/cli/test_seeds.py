"""The seeding scripts: run as an operator runs them, twice, with good lists and bad ones."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.conftest import run
from ussd_server.cli import main, open_services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.security.key_ring import Keyring
from ussd_server.services.clients.messages import LogIn

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[2] / "scripts"
# The Python of an operator lacks libraries or has other versions: the scripts use the environment beside them.
ENVIRONMENT = SCRIPTS.parent / ".venv" / "bin" / "python"
PYTHON = Path(sys.base_prefix) / "bin" / "python3" if ENVIRONMENT.exists() else Path(sys.executable)
CLIENT_ID = "0192e4a0-0000-7000-8000-00000000abcd"
SECRET = "a-secret-of-theirs-01"


def seed(what: str, file: Path | None, data_dir: Path, script: str | None = None) -> tuple[int, Any, str]:
    """Run the command, or its script; return its exit code, the rows of its JSON and its error output."""
    env = {"PATH": os.environ["PATH"], "USSD_DATA_DIR": str(data_dir)}
    if script:
        command = [PYTHON, SCRIPTS / script, *([file] if file else []), "--json"]
        seeded = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
        code = seeded.returncode
    else:
        seeded = CliRunner().invoke(main, [what, "seed", str(file), "--json"], env=env)
        code = seeded.exit_code
    rows = json.loads(seeded.stdout)["items"] if seeded.stdout else None
    return code, rows, seeded.stderr


def write(path: Path, rows: Any) -> Path:
    """Write rows as JSON, or as CSV where the name says so."""
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, sorted({name for row in rows for name in row}))
            table.writeheader()
            table.writerows(rows)
    return path


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_lists_can_be_brought_in_twice_without_doubling_anything(suffix: str, tmp_path: Path) -> None:
    clients = write(
        tmp_path / f"clients.{suffix}",
        [
            {"name": "Acme", "email": "Boss@acme.example"},
            {"name": "Acme", "email": "dev@acme.example", "role": "developer", "password": "a developers password"},
            {"name": "Wasiko", "id": CLIENT_ID},
        ],
    )
    keys = write(
        tmp_path / f"keys.{suffix}",
        [
            {"client": "Acme", "apikey": "LegacyKey01", "apisecret": SECRET, "scopes": "ussd:* balance:read"},
            {"client": CLIENT_ID, "apikey": "LegacyKey02", "apisecret": SECRET, "expires_at": "2099-01-31T00:00:00Z"},
        ],
    )
    scripts = ("seed_clients.py", "seed_keys.py") if suffix == "json" else (None, None)
    code, first, _ = seed("clients", clients, tmp_path, scripts[0])
    assert (code, [row["outcome"] for row in first]) == (0, ["created"] * 3)
    assert len(first[0].pop("password")) >= 20
    assert "password" not in first[1]
    assert first[2]["client_id"] == CLIENT_ID
    code, again, _ = seed("clients", clients, tmp_path)
    assert (code, again) == (0, [{**row, "outcome": "unchanged"} for row in first])
    code, made, _ = seed("keys", keys, tmp_path, scripts[1])
    assert (code, [row["outcome"] for row in made]) == (0, ["created"] * 2)
    code, remade, _ = seed("keys", keys, tmp_path)
    assert (code, remade) == (0, [{**row, "outcome": "unchanged"} for row in made])
    assert SECRET not in json.dumps(made)


def test_rows_that_contradict_what_is_there_are_refused_and_the_others_are_not(tmp_path: Path) -> None:
    clients = write(
        tmp_path / "clients.json",
        [
            {"name": "Acme", "email": "boss@acme.example", "password": "the first password"},
            {"name": "Wasiko"},
        ],
    )
    assert seed("clients", clients, tmp_path)[0] == 0
    code, rows, _ = seed("clients", write(tmp_path / "more.json", [
        {"name": "Acme", "email": "boss@acme.example", "password": "another password"},
        {"name": "Acme", "id": CLIENT_ID},
        {"name": "Wasiko", "email": "boss@acme.example"},
        {"name": "Third"},
        {"name": "Third", "email": "x@third.example", "role": "king"},
        {"name": 5},
        {"name": "Third", "email": "x\ud800@third.example"},
    ]), tmp_path)  # fmt: skip
    assert (code, [row["outcome"] for row in rows]) == (1, ["refused"] * 3 + ["created"] + ["refused"] * 3)
    assert rows[-1]["reason"] == "email: Must be printable characters."
    assert rows[0]["reason"].startswith("password: boss@acme.example has another one")
    code, rows, _ = seed("keys", write(tmp_path / "keys.json", [
        {"client": "Acme", "apikey": "LegacyKey01", "apisecret": SECRET},
        {"client": "Acme", "apikey": "LegacyKey01", "apisecret": SECRET + "x"},
        {"client": "Wasiko", "apikey": "LegacyKey01", "apisecret": SECRET},
        {"client": "Nobody", "apikey": "LegacyKey02", "apisecret": SECRET},
        {"client": "Acme", "apikey": "no good", "apisecret": SECRET},
        {"client": "Acme", "apikey": "LegacyKey02", "apisecret": SECRET, "scopes": [5]},
        {"client": "Acme", "apikey": "LegacyKey02", "apisecret": SECRET, "scopes": "all"},
        {"client": "Acme", "apikey": "LegacyKey02", "apisecret": SECRET, "expires_at": "2099-01-31"},
        {"client": "Acme", "apikey": "LegacyKey02", "apisecret": SECRET, "scopes": ["ussd:read"]},
    ]), tmp_path)  # fmt: skip
    assert (code, [row["outcome"] for row in rows]) == (1, ["created"] + ["refused"] * 7 + ["created"])
    assert rows[1]["reason"] == "apisecret: Is not the one this key has; rotate the key instead."


def test_a_list_that_cannot_be_read_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path / "data"))
    for content, complaint in [
        (b"", "neither a JSON array"), (b"{}", "neither a JSON array"), (b"[1]", "neither a JSON array"),
        (b"\xff\xfe\x00", "neither a JSON array"), (b"[" * 100_000, "neither a JSON array"),
        (b"a;b\n", "neither a JSON"), (b"email\na@b.c\n", "neither a JSON"),
        (b"name" + b",email" * 4000 + b"\n" + b"Acme\n" * 100_000, "neither a JSON"),
        (b'[{"name": "Acme", "colour": "red"}]', "unknown column colour"),
        (b"name,email\nAcme,a@b.c,surplus\n", "unknown column"), (b'[{"email": "a@b.c"}]', "Row 1 lacks name"),
    ]:  # fmt: skip
        file = tmp_path / "list"
        file.write_bytes(content)
        refused = run("clients", "seed", file)
        assert refused.exit_code == 1
        assert complaint in refused.output
    assert not (tmp_path / "data").exists()


def test_without_a_file_the_scripts_print_logins_and_keys_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for outcome in ("created", "unchanged"):
        code, people, _ = seed("clients", None, tmp_path, "seed_clients.py")
        assert (code, {row["outcome"] for row in people}) == (0, {outcome})
        code, keys, _ = seed("keys", None, tmp_path, "seed_keys.py")
        assert (code, {row["outcome"] for row in keys}) == (0, {outcome})
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    nobody = RequestContext(Caller(CallerKind.NOBODY))
    with open_services() as services:
        for person in people:
            assert services.logins.begin(LogIn(person["email"], person["password"]), nobody).client_id
        for key in keys:
            assert services.auth.authenticate_key(key["apikey"], key["apisecret"], "192.0.2.1").caller.client_id


def test_production_is_never_seeded_with_secrets_that_everyone_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Keyring.create(tmp_path / "secrets.json")
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("USSD_ENV", "production")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "secrets.json"))
    for what in ("clients", "keys"):
        refused = run(what, "seed")
        assert (refused.exit_code, "Name a FILE" in refused.output) == (1, True)
    assert not (tmp_path / "data").exists()
