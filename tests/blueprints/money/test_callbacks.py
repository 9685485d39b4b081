"""Callbacks of providers: the same reply to every callback, one query where it may be true."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import operator, work
from tests.support.program import Program
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.database.unit_of_work import close_connections, database
from ussd_server.models.transactions import Transaction
from ussd_server.providers.airtel.access import AirtelAccess
from ussd_server.providers.mtn.adapter import MtnAccess, MtnProduct
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens
from ussd_server.settings import Settings

# Succeeds only after three seconds, so that a callback can bring it forward; see the sandbox's numbers.
SLOW = "+256770000004"


@pytest.fixture
def path(settings: Settings, services: Services) -> str:
    return Tokens(Keyring(settings.secrets_file)).callback_path("sandbox")


def pending(program: Program, services: Services, clock: MovableClock) -> tuple[str, str]:
    """A payment that its provider is working on: its id and the name by which the provider knows it."""
    data = program.collect(number=SLOW).json["data"]
    work(services, clock)
    return data["transaction_id"], data["provider_reference"]


def put_off(transaction_id: str, clock: MovableClock) -> None:
    """Let a payment that was asked wait for long, as those of real providers do."""
    waiting = {"asked_at": Transaction.created_at, "due_at": clock.now() + timedelta(hours=1)}
    Transaction.update(waiting).where(Transaction.id == transaction_id).execute()


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_callback_brings_our_own_enquiry_forward_and_is_not_believed(
    program: Program, services: Services, web: FlaskClient, clock: MovableClock, path: str, method: str
) -> None:
    transaction_id, reference = pending(program, services, clock)
    reply = web.open(path, method=method, json={"reference": reference, "status": "SUCCESSFUL", "amount": 1})
    assert (reply.status_code, reply.json) == (200, {})
    work(services, clock)
    assert program.see(transaction_id)["status"] == "pending", "the provider, asked by us, says so"
    clock.advance(4)
    put_off(transaction_id, clock)
    web.open(path, method=method, json={"reference": reference, "status": "FAILED"})
    work(services, clock)
    data = program.see(transaction_id)
    assert (data["status"], data["events"][-1]["source"]) == ("succeeded", "callback")


def test_callbacks_twenty_times_over_in_any_order_post_once(
    program: Program, services: Services, web: FlaskClient, clock: MovableClock, path: str
) -> None:
    transaction_id, reference = pending(program, services, clock)
    clock.advance(4)
    for number in range(20):
        assert web.put(path, json={"reference": reference}).status_code == 200
        if number % 3 == 0:
            work(services, clock)
    assert [event["status"] for event in program.see(transaction_id)["events"]].count("succeeded") == 1
    assert program.get("/api/balance").json["data"]["current"] == 5000


def test_whatever_a_callback_is_about_it_is_answered_in_the_same_way(
    program: Program, services: Services, web: FlaskClient, clock: MovableClock, path: str
) -> None:
    _, reference = pending(program, services, clock)
    bodies = [
        *(json.dumps({"reference": name}) for name in (reference, reference.upper(), str(uuid.uuid4()), 1, None, [])),
        "",
        "{",
        "[]",
        "null",
        "[" * 30_000,
        "\xff",
        "NaN",
    ]
    answers = set()
    for body in bodies:
        reply = web.post(path, data=body.encode("latin-1"))
        answers.add((reply.status_code, reply.data, reply.content_type))
    assert len(answers) == 1
    assert web.post(path, data=b"x" * 65_537).status_code == 413


def test_a_callback_that_hurries_nothing_writes_nothing(
    program: Program,
    services: Services,
    web: FlaskClient,
    clock: MovableClock,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transaction_id = program.collect().json["data"]["transaction_id"]
    work(services, clock)
    succeeded = Transaction.get_by_id(transaction_id).provider_reference
    statements: list[str] = []
    execute = database.obj.execute_sql
    here = threading.current_thread()

    def watch(sql: str, *rest: Any) -> Any:
        # The time of a key's last use is written by a thread of its own.
        if threading.current_thread() is here:
            statements.append(sql)
        return execute(sql, *rest)

    monkeypatch.setattr(database.obj, "execute_sql", watch)
    for reference in (succeeded, str(uuid.uuid4())):
        assert web.post(path, json={"reference": reference}).status_code == 200
    assert {statement.split()[0] for statement in statements} == {"SELECT"}


def test_an_unknown_path_is_not_found(web: FlaskClient, path: str) -> None:
    secret = path.removeprefix("/callbacks/sandbox/")
    wrong = [f"{path}0", path[:-1], f"{path[:-1]}é", f"{path[:-1]}%00", f"{path[:-1]}%ff"]
    for each in (*wrong, f"/callbacks/mtn/{secret}", f"/callbacks/x/{secret}", f"/callbacks/sandbox/{'0' * 48}"):
        reply = web.post(each, json={})
        assert (reply.status_code, reply.json["error"]) == (404, "NOT_FOUND")


def test_other_methods_are_not_allowed(web: FlaskClient, path: str) -> None:
    reply = web.get(path)
    assert (reply.status_code, reply.headers["Allow"]) == (405, "POST, PUT")


def test_a_path_outlives_the_renewal_of_the_keys_and_ends_with_the_old_key(
    settings: Settings, web: FlaskClient, path: str
) -> None:
    ring = Keyring(settings.secrets_file)
    ring.add_keys()
    fresh = Tokens(ring).callback_path("sandbox")
    assert fresh != path
    assert [web.post(each).status_code for each in (path, fresh)] == [200, 200]
    ring.drop_keys_before(ring.newest_ids())
    assert [web.post(each).status_code for each in (path, fresh)] == [404, 200]


def test_every_provider_has_a_path_and_reads_its_own_fields(settings: Settings, clock: MovableClock) -> None:
    product = MtnProduct("k", "u", "s")
    providers = {
        "mtn": MtnAccess("http://127.0.0.1:1", "mtnuganda", product, kind="mtn"),
        "airtel": AirtelAccess("http://127.0.0.1:1", "c", "s", kind="airtel"),
    }
    services = build_services(replace(settings, providers=providers), clock)
    try:
        paths = {each.provider: each.path for each in services.callbacks.paths(operator())}
        assert list(paths) == ["mtn", "airtel"]
        web = create_app(services).test_client()
        program = Program(services, web)
        for provider, body in (
            ("mtn", lambda reference: {"externalId": reference, "status": "SUCCESSFUL"}),
            ("airtel", lambda reference: {"transaction": {"id": reference, "status_code": "TS"}}),
        ):
            data = program.collect(provider, "+256772123456", provider=provider).json["data"]
            put_off(data["transaction_id"], clock)
            assert web.put(paths[provider], json=body(data["provider_reference"])).status_code == 200
            assert Transaction.get_by_id(data["transaction_id"]).due_source == "callback"
    finally:
        services.close()
        close_connections()
