"""/openapi.json in the hands of others' tools: a linter, a generator of clients, and one that looks for lies in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.keys import fresh_keys
from tests.journeys.service import Service

_TOOLS = Path(sys.executable).parent
_LINTER = "@redocly/cli@2.77.0"
# The document names no license.
_LINTER_RULES = "extends: [recommended]\nrules:\n  info-license: off\n"
_GENERATOR_RULES = "post_hooks: []\n"
_CALLER = """
import sys
from the_client import AuthenticatedClient, Client
from the_client.api.clients import list_api_keys
from the_client.api.logins import log_in
from the_client.api.transactions import create_transaction, get_transaction
from the_client import models

base_url, email, password, apikey, apisecret = sys.argv[1:]
person = Client(base_url=base_url)
login = log_in.sync(client=person, body=models.LogInBody(email=email, password=password))
bearer = AuthenticatedClient(base_url=base_url, token=login.data.access_token)
keys = list_api_keys.sync(client=bearer).data
print(apikey in {key.apikey for key in keys})
program = Client(base_url=base_url, headers={"x-api-key": apikey, "x-api-secret": apisecret})
wish = models.CreateTransactionBody(
    type_=models.CreateTransactionBodyType.COLLECTION, phone_number="+256770000000", amount=5000, reference="generated"
)
made = create_transaction.sync(client=program, body=wish, wait=20).data
print(get_transaction.sync(made.transaction_id, client=program).data.status)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    running = Service(folder / "data", USSD_ALLOW_PRIVATE_ADDRESSES="1", USSD_WORKERS="1")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def document(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the running service says of itself."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(json.dumps(service.call("GET", "/openapi.json")[1]))
    return path


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Run a tool to its good end; give what it printed."""
    ran = subprocess.run(
        command, cwd=folder, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, timeout=100,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


@pytest.mark.needs_node
def test_a_linter_finds_nothing_to_say(document: Path, tmp_path: Path) -> None:
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", tmp_path, _LINTER, folder=tmp_path)
    (tmp_path / "redocly.yaml").write_text(_LINTER_RULES)
    shown = run(
        tmp_path / "node_modules" / ".bin" / "redocly", "lint", document, "--format=json", "--config", "redocly.yaml",
        folder=tmp_path, REDOCLY_TELEMETRY="off",
    )  # fmt: skip
    found = json.JSONDecoder().raw_decode(shown[shown.index("{") :])[0]
    assert [(one["ruleId"], one["location"][0]["pointer"]) for one in found["problems"]] == []


def test_a_generated_client_lists_keys_and_takes_a_payment(service: Service, document: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(_GENERATOR_RULES)
    shown = run(
        _TOOLS / "openapi-python-client", "generate", "--path", document, "--output-path", "the_client",
        "--meta", "none", "--config", "rules.yaml", folder=tmp_path,
    )  # fmt: skip
    assert len(list((tmp_path / "the_client/models").glob("[a-z]*.py"))) <= 80
    # The generator leaves out bodies that are files or YAML.
    warnings = re.findall(r"^WARNING .*\n\n(.*)$", shown, re.MULTILINE)
    assert {warning for warning in warnings if not warning.startswith("Unsupported content type ")} == set()
    known = service.demonstration
    said = run(
        sys.executable, "-c", _CALLER, known["base_url"], known["email"], known["password"], known["apikey"],
        known["apisecret"], folder=tmp_path,
    )  # fmt: skip
    assert said.split() == ["True", "succeeded"]


def test_schemathesis_finds_no_lie(service: Service, tmp_path: Path) -> None:
    """Left out: what a shape cannot say (an account of its own for each side, a code that somebody has), and `Allow`,
    in which the place of an id takes any word."""
    known = service.demonstration
    login = {name: known[name] for name in ("email", "password")}
    token = service.call("POST", "/api/clients/login", login)[1]["data"]["access_token"]
    signatures = {"keys": fresh_keys(service, 40), "token": {"Authorization": f"Bearer {token}"}}
    run(
        _TOOLS / "schemathesis", "run", f"{known['base_url']}/openapi.json", "--no-color", "--warnings=off",
        "--phases=examples,coverage,fuzzing", "--max-examples=2", "--workers=2", "--seed=1",
        "--generation-database=none", "--exclude-checks=positive_data_acceptance,allow_header_conformance",
        # Whoever signs out is refused from then on.
        "--exclude-path=/api/clients/logout",
        folder=tmp_path, PYTHONPATH=str(Path(__file__).parent), SCHEMATHESIS_HOOKS="tireless_caller",
        TIRELESS_SIGNATURES=json.dumps(signatures),
    )  # fmt: skip
