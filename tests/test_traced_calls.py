"""One call passes few files, so that a reader can follow it, and enters few functions, so that it is cheap."""

from __future__ import annotations

from itertools import count

import pytest
from flask.testing import FlaskClient

from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from tests.support.shop import CODE, PHONE, Shop
from tests.support.tracing import count_functions, files_passed
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import is_postgres

pytestmark = pytest.mark.both_databases

# What each call passes today. A change that needs a higher number scatters what a reader has to follow.
MOST_OF_A_PAYMENT, MOST_OF_A_STEP, MOST_OF_A_DELETION = 29, 29, 27
# How many times each warm call enters a function of ours on PostgreSQL; the ledger of SQLite is in Python.
FUNCTIONS = {"balance": 121, "refused 401": 94, "refused 429": 105, "disbursement": 265, "USSD step": 203}
FUNCTIONS_ON_SQLITE = FUNCTIONS | {"balance": 123, "disbursement": 414, "USSD step": 207}
SLACK = 1.05
MINUTE_LIMIT = 100


def test_a_payment_passes_few_files(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    deposit(services, operator_context(client.id), 100_000)
    key = client.create_key()
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}

    def pay(reference: str) -> None:
        order = {"type": "disbursement", "phone_number": PHONE, "amount": 500, "reference": reference}
        assert web.post("/api/transactions", json=order, headers=headers).status_code == 201

    for number in range(3):
        pay(f"cold-{number}")
    files = files_passed(lambda: pay("warm"))
    assert "ussd_server/services/transactions/create.py" in files
    assert len(files) <= MOST_OF_A_PAYMENT, files


def test_a_step_passes_few_files(services: Services, web: FlaskClient) -> None:
    path = Shop(services).channel.gateway_path

    def post(session: str, text: str) -> None:
        form = {"sessionId": session, "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text}
        assert web.post(path, data=form).text.startswith("CON ")

    for session, text in (("cold", ""), ("cold", "1"), ("warm", "")):
        post(session, text)
    files = files_passed(lambda: post("warm", "1"))
    assert "ussd_server/menus/engine/engine.py" in files
    assert len(files) <= MOST_OF_A_STEP, files


def test_a_hot_call_enters_few_functions(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    deposit(services, operator_context(client.id), 100_000)
    key, spent = client.create_key(), client.create_key()
    path = Shop(services).channel.gateway_path
    numbers = count()

    def ask(status: int, apikey: str, secret: str) -> None:
        headers = {"x-api-key": apikey, "x-api-secret": secret}
        assert web.get("/api/balance", headers=headers).status_code == status

    def pay() -> None:
        order = {"type": "disbursement", "phone_number": PHONE, "amount": 500, "reference": f"order-{next(numbers)}"}
        headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        assert web.post("/api/transactions", json=order, headers=headers).status_code == 201

    def step(session: str, text: str) -> None:
        form = {"sessionId": session, "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text}
        assert web.post(path, data=form).text.startswith("CON ")

    for _ in range(MINUTE_LIMIT):
        ask(200, spent.apikey, spent.apisecret)
    calls = {
        "balance": lambda: ask(200, key.apikey, key.apisecret),
        "refused 401": lambda: ask(401, key.apikey, "wrong"),
        "refused 429": lambda: ask(429, spent.apikey, spent.apisecret),
        "disbursement": pay,
    }
    entered = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        # Twice a second a call also asks whether keys were changed without Redis.
        entered[name] = min(count_functions(call) for _ in range(3))
    for session, text in (("cold", ""), ("cold", "1"), ("warm", "")):
        step(session, text)
    entered["USSD step"] = count_functions(lambda: step("warm", "1"))
    recorded = FUNCTIONS if is_postgres() else FUNCTIONS_ON_SQLITE
    assert entered.keys() == recorded.keys()
    above = {name: number for name, number in entered.items() if number > SLACK * recorded[name]}
    assert not above, f"more than the recorded {recorded}"


def test_the_deletion_of_a_key_passes_few_files(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    browser = client.browser(web)

    def delete() -> None:
        assert browser.ask("DELETE", f"api-keys/{client.create_key().id}").status_code == 200

    delete()
    key_id = client.create_key().id
    files = files_passed(lambda: browser.ask("DELETE", f"api-keys/{key_id}"))
    assert "ussd_server/services/clients/api_keys.py" in files
    assert len(files) <= MOST_OF_A_DELETION, files
