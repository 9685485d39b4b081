"""The pages of requests, and the usage on the page of a key."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from tests.support.money import request
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.clients.keys.messages import CreateApiKey


def test_a_refused_call_is_found_and_read_and_the_key_shows_its_calls(
    visit: Visit, services: Services, example_client: ExampleClient, web: FlaskClient
) -> None:
    key = example_client.create_key("balance:read")
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret, "X-Request-Id": "refused-1"}
    web.get("/api/balance", headers=headers)
    web.post("/api/transactions", json={"reference": "<b>R1</b>", "pin": 1234}, headers=headers)
    services.runtime.request_recorder.write()
    developer = visit("developer")
    page = developer.get(f"/requests?key_id={key.id}").text
    assert "1 × <code>INSUFFICIENT_SCOPE</code>" in page
    assert 'href="/console/requests/refused-1"' in page
    assert "matches these filters" in developer.get("/requests?status=201&path=/nowhere").text
    shown = developer.get("/requests/refused-1").text
    assert "&lt;b&gt;R1&lt;/b&gt;" in shown
    assert "1234" not in shown
    assert "Calls of the last 30 days" in developer.get(f"/api-keys/{key.id}").text
    assert visit("viewer").get("/requests").status_code == 403
    assert developer.get("/requests/unknown").status_code == 404


def test_a_payment_and_its_request_lead_to_each_other(
    visit: Visit, services: Services, example_client: ExampleClient, web: FlaskClient
) -> None:
    key = example_client.create_key()
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret, "X-Request-Id": "paid-1"}
    body = {"type": "collection", "phone_number": "+256770000000", "amount": 500, "reference": "INV-7"}
    made = web.post("/api/transactions", json=body, headers=headers).json["data"]["transaction_id"]
    web.post("/api/transactions", json=body, headers=headers | {"X-Request-Id": "paid-again"})
    example_client.browser(web).ask("POST", "api-keys", {"name": "Till 9"})
    services.runtime.request_recorder.write()
    owner = visit("owner")
    payment = owner.get(f"/transactions/{made}").text
    assert 'href="/console/requests/paid-1"' in payment
    assert f'href="/console/api-keys/{key.id}"' in payment
    assert f'<a href="/console/transactions/{made}"><code>INV-7</code></a>' in owner.get("/requests/paid-1").text
    assert "Transaction already recorded" in owner.get("/requests/paid-again").text
    assert example_client.email() in owner.get("/requests").text
    assert f",{key.id},key,paid-1,{made}" in owner.get("/transactions?format=csv").text


def test_what_a_deleted_key_did_is_found_by_its_value_and_by_its_payments(
    visit: Visit, services: Services, example_client: ExampleClient, web: FlaskClient
) -> None:
    key = services.api_keys.create(CreateApiKey(name="Till 9"), example_client.call())
    body = {"type": "collection", "phone_number": "+256770000000", "amount": 500, "reference": "INV-8"}
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
    made = web.post("/api/transactions", json=body, headers=headers).json["data"]["transaction_id"]
    services.runtime.request_recorder.write()
    owner = visit("owner")
    page = f"/console/api-keys/{key.id}"
    assert "Its drafts of payouts are cancelled" in owner.get(f"/api-keys/{key.id}").text
    owner.post(f"/api-keys/{key.id}/delete")
    assert f'href="{page}"' in owner.get(f"/transactions/{made}").text
    assert owner.get(f"/search?q={key.apikey}").location == page
    deleted = owner.get(f"/api-keys/{key.id}").text
    assert "Till 9" in deleted
    assert example_client.email() in deleted
    (call,) = owner.get(f"/requests?key_id={key.id}&format=json").json["items"]
    assert (call["key"], call["object_id"]) == ("Till 9", made)
    assert f'href="/console/transactions/{made}"' in owner.get(f"/requests?key_id={key.id}").text
    assert "Till 9" in owner.get("/audit?action=api_key.deleted").text
    payments = f"/transactions?key_id={key.id}"
    assert f'href="/console{payments}"' in deleted
    assert [each["transaction_id"] for each in owner.get(f"{payments}&format=json").json["items"]] == [made]
    assert owner.get("/transactions?key_id=nothing").status_code == 200
    other = services.transactions.create(request(reference="by the operator"), operator_context(example_client.id))
    assert other.transaction.transaction_id not in owner.get(payments).text
