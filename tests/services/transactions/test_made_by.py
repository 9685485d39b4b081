"""Every transaction says who made it."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.services.payouts.desk import row
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, work
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, Shop
from tests.support.tracing import count_queries
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.clients.keys.messages import UpdateApiKey
from ussd_server.services.transactions.history import views_of
from ussd_server.services.transactions.messages import CreateDeposit, CreateRefund, OperatorRefund

TRANSACTIONS = "/api/transactions"


def maker_of(
    kind: str, maker_id: str | None, name: str | None, via_menu: dict[str, str] | None = None
) -> dict[str, Any]:
    """Who made a transaction, as its record shows it."""
    return {"kind": kind, "id": maker_id, "name": name, "via_menu": via_menu}


def makers(program: Program, **query: Any) -> dict[str, dict[str, Any]]:
    """Who made each transaction of a client, by its reference."""
    listed = program.get(TRANSACTIONS, limit=100, **query).json["data"]["items"]
    return {each["reference"]: each["made_by"] for each in listed}


def test_a_key_has_its_id_and_its_present_name(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    program = Program(services, web, client_id=client.id)
    other = Program(services, web, client_id=client.id)
    services.api_keys.update(UpdateApiKey(program.key_id, name="Till 3"), client.call())
    made = program.collect(reference="a").json["data"]
    maker = maker_of("key", program.key_id, "Till 3")
    assert made["made_by"] == maker == program.collect(reference="a").json["data"]["made_by"]
    other.collect(reference="b")
    assert makers(program) == {"a": maker, "b": maker_of("key", other.key_id, None)}
    assert makers(program, key_id=other.key_id).keys() == {"b"}
    assert makers(program, key_id="no id") == {}
    services.api_keys.delete(program.key_id, client.call())
    assert makers(other)["a"] == maker | {"name": None}


def test_a_person_has_an_address_and_an_operator_the_name_that_was_given(
    services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    client = ExampleClient(services)
    program = Program(services, web, client_id=client.id)
    credit = CreateDeposit(client.id, 10_000_000, "slip", by="Jane")
    services.deposits.create(credit, operator_context())
    paid = program.collect(reference="paid").json["data"]["transaction_id"]
    work(services, clock)
    person = client.at_console()
    services.refunds.create(CreateRefund(paid, "by person", 1000, "twice"), person)
    services.refunds.create_by_operators(
        OperatorRefund(paid, "twice", "Mary", "Jane", 1000, reference="by operators"), operator_context()
    )
    seen = makers(program)
    assert seen["slip"] == maker_of("operator", None, "Jane")
    assert seen["by person"] == maker_of("person", person.caller.user_id, client.email())
    assert seen["by operators"] == maker_of("operator", None, "Mary")


def test_a_session_of_the_api_shows_its_key_with_the_menu(services: Services, web: FlaskClient) -> None:
    shop = Shop(services)
    program = Program(services, web, client_id=shop.client_id)
    dialled = {"phone_number": PHONE, "service_code": CODE, "network": "64110"}
    session = program.post("/api/ussd/sessions", dialled).json["data"]["session_id"]
    for typed in ("1", "500", "1"):
        assert program.post(f"/api/ussd/sessions/{session}/input", {"text": typed}).status_code == 200
    (maker,) = makers(program).values()
    assert maker == maker_of("key", program.key_id, None, {"id": "shop", "title": "ACME"})
    assert list(makers(program, key_id=program.key_id).values()) == [maker]


def test_a_menu_that_a_phone_dials_has_its_id_and_title(services: Services, web: FlaskClient) -> None:
    shop = Shop(services)
    program = Program(services, web, client_id=shop.client_id)
    for text in ("", "1", "1*500", "1*500*1"):
        dialled = {"sessionId": "s", "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text}
        assert web.post(shop.channel.gateway_path, data=dialled).status_code == 200
    (maker,) = makers(program).values()
    assert maker == maker_of("menu", "shop", "ACME")


def test_rows_of_a_payout_have_who_made_the_payout(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    program = Program(services, web, client_id=client.id)
    approver = Program(services, web, "payouts:*", "transactions:*", client_id=client.id)
    deposit(services, operator_context(client.id), 100_000)
    made = program.post("/api/payouts", {"reference": "P", "items": [row("a")]}).json["data"]["payout_id"]
    assert approver.post(f"/api/payouts/{made}/approve", {}).status_code == 200
    for claimed in services.payout_sender.claim(1):
        services.payout_sender.advance(claimed)
    maker = maker_of("key", program.key_id, None)
    assert makers(program)["P/a"] == maker
    assert makers(program, key_id=program.key_id) == {"P/a": maker}
    assert makers(program, key_id=approver.key_id) == {}


def test_a_page_of_a_hundred_costs_as_many_queries_as_one(services: Services, web: FlaskClient) -> None:
    program = Program(services, web)
    for number in range(20):
        program.collect(reference=f"r{number}")
    rows = list(Transaction.select().where(Transaction.client_id == program.client_id))
    assert count_queries(lambda: views_of(rows)) == count_queries(lambda: views_of(rows[:1])) > 0
