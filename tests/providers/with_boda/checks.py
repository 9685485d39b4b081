"""What works for a provider that has only added a folder. `test_new_provider.py` runs this in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from environs import Env
from flask import Flask

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor
from tests.outbound.strange_server import StrangeServer
from tests.providers.provider_server import ProviderServer, said
from tests.support.eventually import eventually
from tests.support.example_client import ExampleClient
from tests.support.money import balances, deposit, work
from tests.support.program import Program
from tests.support.shop import Shop, shop_document
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.cli.service.doctor_checks import check_installation
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import close_connections
from ussd_server.providers import registry
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.settings import Settings

# The process that runs this would make a template on PostgreSQL of its own.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

BODA_NUMBER = "+256730000001"


@pytest.fixture
def boda() -> ProviderServer:
    states = [said("200 OK", {"state": "PAID"}), said("200 OK", {"state": "PAID"}), said("200 OK", {"state": "EMPTY"})]
    return ProviderServer({"POST /pay": [said("202 Accepted")], "GET /pay/": states})


@pytest.fixture
def services(
    settings: Settings, clock: MovableClock, boda: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Services]:
    """A service that has Boda Cash beside the sandbox."""
    with StrangeServer(boda) as listener:
        monkeypatch.setenv("USSD_BODA_BASE_URL", listener.url)
        found, problems = registry.read_provider_settings(Env(prefix="USSD_"), {"BODA_BASE_URL"}, in_production=False)
        assert problems == []
        services = build_services(replace(settings, providers=found), clock)
        try:
            yield services
        finally:
            services.close()
            close_connections()
        eventually(lambda: all(visit.connection.fileno() == -1 for visit in listener.visits))


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services)


def test_it_moves_money(services: Services, app: Flask, clock: MovableClock, boda: ProviderServer) -> None:
    program = Program(services, app.test_client(), shillings=10_000)
    # The first collection finds its provider by the prefix of the number.
    made = [program.collect("c1", BODA_NUMBER, 5000)]
    work(services, clock, 3)
    made.append(program.disburse("d1", "+256772123456", 2000, provider="boda"))
    work(services, clock, 3)
    made.append(program.disburse("d2", "+256772123456", 1000, provider="boda"))
    work(services, clock, 3)
    seen = [program.see(reply.json["data"]["transaction_id"]) for reply in made]
    assert [(each["provider"], each["status"]) for each in seen] == [
        ("boda", "succeeded"),
        ("boda", "succeeded"),
        ("boda", "failed"),
    ]
    assert seen[2]["failure"]["code"] == "CLIENT_FLOAT_LOW"
    assert len(boda.to("POST /pay")) == 3
    assert balances(program.client_id)["main"] == ((10_000 + 5000 - 2000) * 100, 0)


def test_what_it_cannot_do_is_refused_or_left_out(services: Services, app: Flask, clock: MovableClock) -> None:
    program = Program(services, app.test_client(), shillings=10_000)
    paid = program.collect("c1", BODA_NUMBER, 5000).json["data"]["transaction_id"]
    work(services, clock, 3)
    refused = program.post(f"/api/transactions/{paid}/refunds", {"reference": "r1"})
    assert (refused.status_code, refused.json["message"]) == (400, "provider: boda moves no refunds on this server.")
    assert services.callbacks.paths(operator_context()) == []
    found = [each for each in check_installation(services.runtime.settings, []) if each.part == "boda"]
    assert found == [DoctorFinding("boda", "was not asked: it shows no balance")]


def test_the_console_shows_its_payments(services: Services, app: Flask, clock: MovableClock) -> None:
    client = ExampleClient(services)
    paid = Program(services, app.test_client(), client_id=client.id).collect("c1", BODA_NUMBER, 5000)
    work(services, clock, 3)
    visitor = ConsoleVisitor(app.test_client())
    visitor.sign_in(client.email())
    page = visitor.get(f"/transactions/{paid.json['data']['transaction_id']}")
    assert "Boda Cash" in page.text


def test_a_menu_asks_for_it(services: Services) -> None:
    options = [
        {"label": {"en": "Boda Cash"}, "goto": "bye", "when": "provider.boda.available"},
        {"label": {"en": "MTN"}, "goto": "bye", "when": "provider.mtn.available"},
        {"label": {"en": "Leave"}, "goto": "bye"},
    ]
    root = {"type": "menu", "text": {"en": "Pay with"}, "options": options}
    shop = Shop(services, shop_document(start="pick", nodes={"pick": root}))
    begun = services.api_sessions.begin(BeginSession(BODA_NUMBER, shop.code), shop.call)
    assert begun.message == "Pay with\n1. Boda Cash\n3. Leave", "MTN is not set up here"


def test_the_api_document_lists_it(app: Flask) -> None:
    document = app.test_client().get("/openapi.json").json
    assert document["components"]["schemas"]["Provider"]["enum"] == ["airtel", "boda", "mtn", "sandbox"]


def test_it_may_be_named_without_a_setting(services: Services, app: Flask) -> None:
    program = Program(services, app.test_client())
    assert program.collect("c1", BODA_NUMBER, 5000, provider="bodas").status_code == 400
    deposit(services, program.call, 10_000, "deposit")
    reply = program.disburse("d1", "+256772123456", 2000, provider="mtn")
    assert reply.status_code == 502, "MTN is known, but not set up here"
