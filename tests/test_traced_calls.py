"""Calls pass the files of the walks of docs/ARCHITECTURE.md, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import Receiver, deliver, subscribe
from tests.support.example_client import ExampleClient
from tests.support.money import a_client, deposit, request
from tests.support.shop import CODE, PHONE, Shop
from tests.support.tracing import passages
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey
from ussd_server.worker import Worker

pytestmark = pytest.mark.both_databases

ARCHITECTURE = Path(__file__).parents[1] / "docs" / "ARCHITECTURE.md"
WALK = re.compile(r"^\| ([^|`]+) \| (`.+) \|$", re.MULTILINE)


def walks() -> dict[str, list[str]]:
    """The files of each walk of the page."""
    section = ARCHITECTURE.read_text(encoding="utf-8").partition("\n## Walks\n")[2].partition("\n## ")[0]
    return {name: re.findall(r"`([\w/]+(?:\.py|/))`", files) for name, files in WALK.findall(section)}


def assert_goes(walk: str, call: Callable[[], object]) -> None:
    """Make a call: it passes the files of the walk in their order, and writes in none that the walk leaves out."""
    named = walks()[walk]
    passed = passages(call)
    following = iter(passed.files)
    for file in named:
        assert any(f"ussd_server/{file}" in path for path in following), f"{walk}: {file} is not passed, or earlier"
    assert {path.removeprefix("ussd_server/") for path in passed.writers} <= set(named), f"{walk}: writes elsewhere"


def work_of(services: Services, kind_name: str) -> None:
    """Do what is due of a kind of work, as the threads of a worker do it."""
    worker = Worker(services)
    (kind,) = (kind for kind in worker._kinds(Event()) if kind.name == kind_name)
    for claim in kind.claim(kind.threads):
        worker._advance(kind, claim)


def test_every_walk_of_the_page_is_gone_by_a_test() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    assert walks()
    assert [walk for walk in walks() if f'assert_goes("{walk}"' not in tests] == []


def test_a_payment_goes_its_walk_and_so_does_the_worker_later(
    services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    client = ExampleClient(services)
    key = client.create_key()

    def pay() -> None:
        order = {"type": "collection", "phone_number": PHONE, "amount": 500, "reference": "order-1"}
        headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        assert web.post("/api/transactions", json=order, headers=headers).status_code == 201

    def settle() -> None:
        for _ in range(10):
            work_of(services, "processing")
            clock.advance(0.5)

    assert_goes("a payment: the request", pay)
    assert_goes("later, in the worker", settle)


def test_a_payout_goes_its_walks(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    deposit(services, operator_context(client.id), 100_000)
    maker, approver = (
        client.create_key(),
        services.api_keys.create(CreateApiKey(("payouts:approve", "payouts:read")), operator_context(client.id)),
    )

    def call(key: ApiKeyView, path: str, body: object) -> TestResponse:
        headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        return web.post(f"/api/payouts{path}", json=body, headers=headers)

    rows = [{"phone_number": PHONE, "amount": 500, "reference": "r1"}]
    made = call(maker, "", {"reference": "P1", "items": rows}).json["data"]["payout_id"]

    def approve() -> None:
        assert call(approver, f"/{made}/approve", {}).status_code == 200

    assert_goes("an approval of a payout", approve)
    assert_goes("a row of a payout, in the worker", lambda: work_of(services, "payouts"))


def test_a_dial_and_a_step_that_pays_go_their_walks(services: Services, web: FlaskClient) -> None:
    path = Shop(services).channel.gateway_path

    def send(text: str) -> str:
        form = {"sessionId": "s1", "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text}
        return web.post(path, data=form).text

    assert_goes("a dial", lambda: send(""))
    for text in ("1", "1*500"):
        assert send(text).startswith("CON ")
    assert_goes("a step that pays", lambda: send("1*500*1"))


def test_a_key_deletion_goes_its_walk(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    browser, key_id = client.browser(web), client.create_key().id
    assert_goes("a key deletion", lambda: browser.ask("DELETE", f"api-keys/{key_id}"))


def test_a_webhook_goes_its_walk(services: Services) -> None:
    client = a_client()
    with Receiver() as receiver:
        subscribe(services, client, receiver.url)
        deliver(services)

        def change_and_deliver() -> None:
            services.transactions.create(request(), client)
            work_of(services, "deliveries")

        assert_goes("a webhook", change_and_deliver)
        assert receiver.types == ["transaction.created"]
