"""A provider is added by adding a folder and naming it in the registry."""

from __future__ import annotations

from dataclasses import replace

import pytest
from environs import Env

from tests.conftest import MovableClock
from tests.outbound.strange_server import StrangeServer
from tests.providers import boda_cash
from tests.providers.provider_server import ProviderServer, said
from tests.support.eventually import eventually
from tests.support.money import balances, work
from tests.support.program import Program
from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.providers import registry
from ussd_server.settings import Settings


def test_a_provider_whose_folder_is_in_the_registry_moves_money(
    settings: Settings, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PACKAGES", (*registry.PACKAGES, boda_cash.PACKAGE))
    states = [said("200 OK", {"state": "PAID"}), said("200 OK", {"state": "PAID"}), said("200 OK", {"state": "EMPTY"})]
    server = ProviderServer({"POST /pay": [said("202 Accepted")], "GET /pay/": states})
    with StrangeServer(server) as listener:
        monkeypatch.setenv("USSD_BODA_BASE_URL", listener.url)
        given, env = {"BODA_BASE_URL"}, Env(prefix="USSD_")
        providers, problems = registry.read_provider_settings(env, given, in_production=False)
        assert problems == []
        services = build_services(replace(settings, providers=providers), clock)
        try:
            program = Program(services, create_app(services).test_client(), shillings=10_000)
            # The first collection finds its provider by the prefix of the number.
            made = [program.collect("c1", "+256730000001", 5000)]
            work(services, clock, 3)
            made.append(program.disburse("d1", "+256772123456", 2000, provider="boda"))
            work(services, clock, 3)
            made.append(program.disburse("d2", "+256772123456", 1000, provider="boda"))
            work(services, clock, 3)
            seen = [program.see(reply.json["data"]["transaction_id"]) for reply in made]
        finally:
            services.close()
            close_connections()
        eventually(lambda: all(visit.connection.fileno() == -1 for visit in listener.visits))
    assert [(each["provider"], each["status"]) for each in seen] == [
        ("boda", "succeeded"), ("boda", "succeeded"), ("boda", "failed")
    ]  # fmt: skip
    assert seen[2]["failure"]["code"] == "CLIENT_FLOAT_LOW"
    assert len(server.to("POST /pay")) == 3
    assert balances(program.client_id)["main"] == ((10_000 + 5000 - 2000) * 100, 0)


def test_a_new_provider_without_its_address_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PACKAGES", (boda_cash.PACKAGE,))
    _, problems = registry.read_provider_settings(Env(prefix="USSD_"), {"BODA_ENQUIRY_SECONDS"}, in_production=True)
    assert [problem.partition(":")[0] for problem in problems] == ["USSD_BODA_BASE_URL"]
