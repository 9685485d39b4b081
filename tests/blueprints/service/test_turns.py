"""Requests that take long wait for those of the same client, and hold up no other client."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from flask import Flask

from tests.support.example_client import ExampleClient
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext


def test_two_requests_of_a_client_are_answered_at_a_time(services: Services, app: Flask) -> None:
    entered, leave, most = threading.Semaphore(0), threading.Event(), []
    slow = ApiBlueprint("slow", authenticate_api_key, "Slow", "Takes long.", most_at_once=2)

    @slow.call("GET", "/api/slow")
    def wait(context: RequestContext) -> None:
        most.append(context.client_id)
        entered.release()
        assert leave.wait(30)

    app.register_blueprint(slow)
    acme, other = (ExampleClient(services, name).create_key() for name in ("acme", "other"))

    def call(key: object) -> int:
        headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}  # type: ignore[attr-defined]
        return app.test_client().get("/api/slow", headers=headers).status_code

    with ThreadPoolExecutor(5) as pool:
        calls = [pool.submit(call, acme) for _ in range(4)]
        assert all(entered.acquire(timeout=30) for _ in range(2))
        calls.append(pool.submit(call, other))
        assert entered.acquire(timeout=30)
        assert len(set(most)) == 2
        assert len(most) == 3, "two of one client, one of the other"
        leave.set()
        assert [each.result(30) for each in calls] == [200] * 5
