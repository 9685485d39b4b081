"""One call passes few of our files, so that a reader can follow it from the request to the commit and back."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from tests.support.shop import CODE, PHONE, Shop
from tests.support.tracing import files_passed
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context

# What each call passes today. A change that needs a higher number scatters what a reader has to follow.
MOST_OF_A_PAYMENT, MOST_OF_A_STEP, MOST_OF_A_DELETION = 28, 29, 27


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
