"""Production as it is installed, with providers over TLS whose certificates no public authority signed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.ports import free_port
from testbed.postgres import create_database, drop_database
from tests.outbound.certificates import Authority
from tests.support.eventually import eventually
from tests.support.real_service.deployment import Installed, install
from tests.support.real_service.edge import HOST
from tests.support.real_service.installation import copy_into
from tests.support.stand_ins import (
    StandInProcess,
    airtel_settings,
    mtn_settings,
    start_airtel,
    start_mtn,
)
from ussd_server.values import with_hyphens

pytestmark = [pytest.mark.needs_nginx, pytest.mark.timeout(300)]

NUMBERS = {"mtn": "+256772123456", "airtel": "+256752123456"}
# So long that only a callback can bring the outcome within the test.
AN_HOUR = "3600"


@dataclass
class Production:
    """The installation and its providers."""

    installed: Installed
    providers: dict[str, StandInProcess]

    def order(self, provider: str, kind: str, reference: str) -> dict[str, Any]:
        """The record of a payment that succeeded."""
        request = {"type": kind, "phone_number": NUMBERS[provider], "amount": 5000, "reference": reference}
        status, _, body = self.installed.call("POST", "/api/transactions", request, self.installed.key)
        assert status == 201, body
        return self.succeeded(body["data"]["transaction_id"])

    def succeeded(self, transaction_id: str) -> dict[str, Any]:
        """The record of a payment, once it has succeeded."""
        path, key = f"/api/transactions/{transaction_id}", self.installed.key
        # Held until something changes, because a key has a hundred calls a minute.
        held = f"{path}?wait=20"
        eventually(lambda: self.installed.call("GET", held, headers=key)[2]["data"]["status"] == "succeeded")
        return dict(self.installed.call("GET", path, headers=key, host=f"www.{HOST}")[2]["data"])


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory, installation: Path, postgres_url: str) -> Iterator[Production]:
    folder, authority, airtel_port = tmp_path_factory.mktemp("production"), Authority(), free_port()
    authority.certify(folder / "provider.pem", "127.0.0.1")
    (folder / "providers.pem").write_text(authority.pem)
    options = ["--approve-delay", "0.5", "--certificate", str(folder / "provider.pem")]
    mtn = start_mtn(*options, tls=authority.trust())
    database_url = create_database(postgres_url)
    settings = {
        "USSD_ENV": "production",
        "USSD_CA_FILE": str(folder / "providers.pem"),
        "USSD_MTN_ENQUIRY_SECONDS": AN_HOUR,
        "USSD_AIRTEL_ENQUIRY_SECONDS": AN_HOUR,
        **mtn_settings(mtn.base_url),
        **airtel_settings(f"https://127.0.0.1:{airtel_port}"),
    }
    with install(folder, database_url, python=copy_into(folder, installation), **settings) as installed:
        addresses = {each["provider"]: each["url"] for each in installed.deployment.command("callbacks")["items"]}
        options += ["--callback-url", addresses["airtel"]]
        airtel = start_airtel(*options, port=airtel_port, tls=authority.trust())
        yield Production(installed, {"mtn": mtn, "airtel": airtel})
    for provider in (mtn, airtel):
        provider.stop()
    drop_database(postgres_url, database_url)


def test_the_doctor_finds_nothing_wrong_and_reaches_every_provider(production: Production) -> None:
    found = production.installed.deployment.ask("doctor")
    assert found["healthy"], found
    assert {"mtn", "airtel"} <= {finding["part"] for finding in found["findings"]}


@pytest.mark.parametrize("provider", NUMBERS)
def test_money_comes_in_by_a_callback_through_nginx_and_goes_out_again(production: Production, provider: str) -> None:
    collected = production.order(provider, "collection", f"{provider} in")
    assert collected["events"][-1]["source"] == "callback"
    disbursed = production.order(provider, "disbursement", f"{provider} out")
    # Airtel gets our names without hyphens.
    paid = {with_hyphens(name): cents for name, cents in production.providers[provider].paid().items()}
    assert [paid[record["provider_reference"]] for record in (collected, disbursed)] == [500_000, 500_000]
    received = re.compile(r'"method":"(PUT|POST)","area":"/callbacks","status":200')
    eventually(lambda: bool(received.search(production.installed.deployment.written())))


def test_a_phone_that_dials_pays_its_provider(production: Production) -> None:
    installed, number = production.installed, NUMBERS["mtn"]
    screens = [installed.dial("s1", text, number)[2] for text in ("", "1", "1*700", "1*700*1")]
    assert screens[-1] == b"END Approve the prompt on your phone."

    _, _, body = installed.call("GET", "/data/collection?limit=100", headers=installed.key)
    (payment,) = (item for item in body["data"]["items"] if item["session_id"] and item["amount"] == 700)
    production.succeeded(payment["transaction_id"])


def test_a_provider_whose_authority_is_not_named_is_not_trusted(production: Production) -> None:
    environment = production.installed.deployment.environment
    trusted = environment.pop("USSD_CA_FILE")
    found = production.installed.deployment.ask("doctor")
    environment["USSD_CA_FILE"] = trusted
    mends = {finding["part"]: finding["mend"] for finding in found["findings"]}
    assert "USSD_CA_FILE" in mends["mtn"]
    assert "USSD_CA_FILE" in mends["airtel"]


def test_the_books_are_sound_and_no_secret_was_logged(production: Production) -> None:
    deployment = production.installed.deployment
    assert deployment.command("check", "--full")["ok"]
    written = deployment.written()
    for secret in (
        *production.installed.key.values(),
        production.installed.gateway_path,
        "collection-key",
        "an-api-key",
    ):
        assert secret not in written
