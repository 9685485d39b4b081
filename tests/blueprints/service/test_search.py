"""Search: whole values, every kind, only what the caller may read; the operator finds the same over all clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.example_client import ExampleClient
from tests.support.money import operator, work
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work
from ussd_server.models.clients import User
from ussd_server.models.ussd import Menu, MenuVersion, UssdSession
from ussd_server.services.clients.messages import InvitePerson
from ussd_server.services.search.messages import Search
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import new_id

pytestmark = pytest.mark.both_databases

NUMBER = "+256770000042"
BODY = {"type": "collection", "phone_number": NUMBER, "amount": 500}


def found(program: Program, q: str) -> list[tuple[str, str]]:
    reply = program.get("/api/search", q=q)
    assert reply.status_code == 200, reply.text
    return [(hit["kind"], hit["id"]) for hit in reply.json["data"]["items"]]


def a_session(program: Program, clock: MovableClock) -> str:
    now, menu_id = clock.now(), new_id(clock.now())
    document = {"id": "m", "start": "a", "nodes": {"a": {"type": "end", "text": {"en": "Bye"}}}}
    Menu.create(id=menu_id, client_id=program.client_id, name="m", draft=document, draft_saved_at=now)
    MenuVersion.create(menu_id=menu_id, version=1, client_id=program.client_id, document=document, published_at=now)
    session_id = new_id(now)
    UssdSession.create(
        id=session_id,
        client_id=program.client_id,
        phone_number=NUMBER,
        service_code="*165#",
        network="",
        status="completed",
        menu_id=menu_id,
        menu_version=1,
        node="a",
        language="en",
        turn=2,
        state={},
        turns=[],
        action="end",
        message="Bye",
        created_at=now,
        last_seen_at=now,
        expires_at=now,
        due_at=now,
        ended_at=now,
    )
    return session_id


def test_every_kind_is_found_by_its_names_and_by_nothing_less(
    program: Program, services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    made = program.collect(reference="order 7", number=NUMBER).json["data"]
    transaction = ("transaction", made["transaction_id"])
    work(services, clock, 3)
    receipt = program.see(made["transaction_id"])["provider_transaction_id"]
    session = ("session", a_session(program, clock))
    with unit_of_work():
        event = ("event", write_event(program.client_id, "webhook.test", new_id(clock.now()), {}, clock.now()))
    key = services.api_keys.list(program.call)[0]
    for q in (
        made["transaction_id"],
        made["transaction_id"].upper(),
        made["provider_reference"],
        "order 7",
        receipt,
        receipt.lower(),
    ):
        assert found(program, q) == [transaction], q
    assert found(program, session[1]) == [session]
    assert found(program, event[1]) == [event]
    assert found(program, key.id) == found(program, key.apikey) == [("key", key.id)]
    for q in (NUMBER, NUMBER[1:], "0770000042"):
        assert found(program, q) == [transaction, session]
    for raw in ("+256770000042", "%2B256770000042"):
        reply = web.get(f"/api/search?q={raw}", headers=program.headers)
        assert [hit["id"] for hit in reply.json["data"]["items"]] == [transaction[1], session[1]]
    for q in ("order", "order 70", NUMBER[:-1], made["transaction_id"][:8], receipt[:-1], "nothing", "%%%", "___"):
        assert found(program, q) == [], q

    hits = program.get("/api/search", q=NUMBER).json["data"]["items"]
    assert all(list(hit) == ["kind", "id", "title", "sentence", "created_at"] for hit in hits)
    assert hits[0]["title"] == "Collection order 7: UGX 5,000 of +256770000042, succeeded"
    assert hits[0]["sentence"].startswith("UGX 5,000 arrived in the main account at ")
    assert hits[1]["sentence"] == "The session was completed after 2 entries."
    assert key.apisecret not in program.get("/api/search", q=key.id).text

    stranger = Program(services, web)
    for q in (made["transaction_id"], "order 7", receipt, NUMBER, session[1], event[1], key.id, key.apikey):
        assert found(stranger, q) == [], q
    by_scope: dict[str, list[Any]] = {
        "transactions:read": [transaction],
        "collection:read": [transaction],
        "ussd:read": [session],
        "balance:read": [],
    }
    for scope, hits_of_scope in by_scope.items():
        assert found(Program(services, web, scope, client_id=program.client_id), NUMBER) == hits_of_scope
    narrow = Program(services, web, "ussd:*", client_id=program.client_id)
    assert found(narrow, event[1]) == found(narrow, key.id) == []

    request_id = "call-of-today"
    web.post(
        "/api/transactions",
        headers=stranger.headers | {"X-Request-Id": request_id},
        json={"type": "collection", "phone_number": NUMBER, "amount": 1, "reference": "order 7"},
    )

    def everywhere(q: str) -> list[tuple[str, str | None]]:
        return [(hit.kind, hit.client) for hit in services.search.find(Search(q), operator()).items]

    mine, theirs = (services.clients.find(each.client_id, operator()).name for each in (program, stranger))
    assert everywhere(request_id) == [("transaction", theirs)]
    assert len(found(stranger, request_id)) == 1
    assert found(program, request_id) == []
    assert everywhere("order 7") == [("transaction", theirs), ("transaction", mine)]
    assert everywhere(NUMBER) == [("transaction", theirs), ("transaction", mine), ("session", mine)]
    assert everywhere(key.apikey) == [("key", mine)]


def test_what_is_too_short_too_long_or_missing_is_refused(program: Program) -> None:
    for query in ({"q": "ab"}, {"q": "x" * 65}, {}, {"q": "abc", "more": "1"}):
        reply = program.get("/api/search", **query)
        assert (reply.status_code, reply.json["error"]) == (400, "INVALID_REQUEST")


def test_at_most_fifty_are_shown_and_each_kind_is_read_by_an_index(
    program: Program, services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(52):
        assert program.collect(reference=f"many {number}", number=NUMBER).status_code == 201
    assert len(found(program, NUMBER)) == 50
    statements: list[tuple[str, Any]] = []
    execute = database.obj.execute_sql

    def watch(sql: str, params: Any = None, *more: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, *more)

    monkeypatch.setattr(database.obj, "execute_sql", watch)
    for q in (NUMBER, new_id(clock.now()), "a reference"):
        found(program, q)
        services.search.find(Search(q), operator())
    named = program.get("/api/transactions", reference="many 7").json["data"]["items"]
    assert [item["reference"] for item in named] == ["many 7"]
    monkeypatch.undo()
    # While Redis is slow, the key cache reads its one row of `unseen_changes`.
    searches = [
        each
        for each in statements
        if ("LIMIT" in each[0] or '"reference" =' in each[0]) and "unseen_changes" not in each[0]
    ]
    assert len(searches) > 10
    with unit_of_work():
        if is_postgres():
            database.execute_sql("SET LOCAL enable_seqscan = off")
        for sql, params in searches:
            explained = "EXPLAIN " if is_postgres() else "EXPLAIN QUERY PLAN "
            plan = [str(line) for line in database.execute_sql(explained + sql, params).fetchall()]
            assert not any("Seq Scan" in line or "SCAN" in line for line in plan), (sql, plan)
            assert not any("transactions_newest (client_id=?)" in line for line in plan), (sql, plan)


def test_what_one_request_made_or_changed_is_found_by_its_id(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    browser, program = client.browser(web), Program(services, web, client_id=client.id)
    stranger = Program(services, web)

    def by_program(method: str, path: str, name: str, body: Any, who: Program = program) -> Any:
        reply = web.open(path, method=method, headers=who.headers | {"X-Request-Id": name}, json=body)
        assert reply.status_code in (200, 201), reply.text
        return reply.json["data"]

    def by_person(method: str, path: str, name: str, body: Any = None) -> Any:
        browser.headers["X-Request-Id"] = name
        reply = browser.ask(method, path, body)
        assert reply.status_code in (200, 201), reply.text
        return reply.json["data"]

    menu = {"id": "m", "start": "a", "default_language": "en", "nodes": {"a": {"type": "end", "text": {"en": "Bye"}}}}
    by_program("PUT", "/api/ussd/menus/m", "save-1", menu)
    by_program("POST", "/api/ussd/menus/m/publish", "publish-1", {})
    webhook = by_program("POST", "/api/webhooks", "hook-1", {"url": "https://example.com/"})["id"]
    item = {"phone_number": NUMBER, "amount": 500, "reference": "row"}
    payout = by_program("POST", "/api/payouts", "payout-1", {"reference": "NOV", "items": [item]})["payout_id"]
    key = by_person("POST", "api-keys", "key-1", {})["id"]
    by_person("POST", f"api-keys/{key}/rotate", "rotate-1", {})
    expected = {
        "save-1": ("menu", "m"), "publish-1": ("menu", "m"), "hook-1": ("webhook", webhook),
        "payout-1": ("payout", payout), "key-1": ("key", key), "rotate-1": ("key", key),
    }  # fmt: skip
    for name, hit in expected.items():
        assert found(program, name) == [hit], name
        assert found(stranger, name) == [], name
        (seen,) = services.search.find(Search(name), operator()).items
        assert (seen.kind, seen.id, seen.client) == (*hit, "acme")
    narrow = Program(services, web, "webhooks:read", client_id=program.client_id)
    assert [found(narrow, name) for name in expected] == [[], [], [("webhook", webhook)], [], [], []]
    by_person("DELETE", f"api-keys/{key}", "delete-1")
    assert found(program, "delete-1") == [("key", key)]
    (gone,) = services.search.find(Search("delete-1"), operator()).items
    assert "api_key.deleted" in gone.sentence
    owner = replace(client.at_console(), request_id="invite-1")
    services.people.invite(InvitePerson("new@acme.example", "viewer"), owner)
    assert found(program, "invite-1") == [("person", User.get(User.email == "new@acme.example").id)]


def test_other_clients_objects_of_the_same_name_hide_none_of_ones_own(
    program: Program, services: Services, web: FlaskClient
) -> None:
    stranger, headers = Program(services, web), {"X-Request-Id": "constant"}
    mine = web.post("/api/transactions", headers=program.headers | headers, json=BODY | {"reference": "mine"})
    for number in range(51):
        web.post("/api/transactions", headers=stranger.headers | headers, json=BODY | {"reference": f"r{number}"})
    assert found(program, "constant") == [("transaction", mine.json["data"]["transaction_id"])]


def test_payments_that_a_key_may_not_read_hide_none_that_it_may(
    program: Program, services: Services, web: FlaskClient
) -> None:
    rich = Program(services, web, client_id=program.client_id, shillings=100_000)
    paid = rich.collect(number=NUMBER).json["data"]["transaction_id"]
    for number in range(51):
        assert rich.disburse(f"d{number}", number=NUMBER, amount=500).status_code == 201
    narrow = Program(services, web, "collection:read", client_id=program.client_id)
    assert found(narrow, NUMBER) == [("transaction", paid)]


def test_a_phone_number_in_a_path_is_as_strict_as_one_in_a_body(program: Program) -> None:
    for number in ("0772123456", "256772123456", "+25677212345", " +256772123456", "%20256772123456", "+256 772123456"):
        reply = program.get(f"/api/subscribers/{number}/history")
        assert (reply.status_code, reply.json["error"]) == (400, "INVALID_PHONE_NUMBER"), number
    for number in ("+256772123456", "%2B256772123456"):
        assert program.get(f"/api/subscribers/{number}/history").status_code == 200
