"""Endpoints for menus, their versions and codes."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.support.program import Program
from tests.support.shop import CODE, Shop, shop_document
from ussd_server.bootstrap import Services

PATH = "/api/ussd/menus"


@pytest.fixture
def program(services: Services, web: FlaskClient, shop: Shop) -> Program:
    return Program(services, web, client_id=shop.client_id)


def put(program: Program, path: str, body: Any) -> TestResponse:
    return program.web.put(path, json=body, headers=program.headers)


def refusal(reply: TestResponse) -> tuple[int, str]:
    assert list(reply.json) == ["success", "error", "message", "timestamp"]
    return reply.status_code, reply.json["error"]


def test_a_menu_is_saved_checked_published_and_put_back(program: Program) -> None:
    saved = put(program, f"{PATH}/kiosk", shop_document(id="kiosk"))
    assert (saved.status_code, saved.json["data"]) == (
        200,
        {"menu_id": "kiosk", "passes": True, "errors": [], "warnings": saved.json["data"]["warnings"]},
    )
    assert program.post(f"{PATH}/kiosk/check", None).json["data"]["passes"]
    published = program.post(f"{PATH}/kiosk/publish", {}).json["data"]
    assert (published["menu_id"], published["version"], published["in_force"]) == ("kiosk", 1, True)
    put(program, f"{PATH}/kiosk", shop_document(id="kiosk", title="New"))
    assert program.post(f"{PATH}/kiosk/publish", {}).json["data"]["version"] == 2
    assert program.post(f"{PATH}/kiosk/rollback", {"version": 1}).json["data"]["in_force"]
    versions = program.get(f"{PATH}/kiosk/versions").json["data"]["items"]
    assert [(each["version"], each["in_force"]) for each in versions] == [(2, False), (1, True)]
    record = program.get(f"{PATH}/kiosk").json["data"]
    assert (record["title"], record["published_version"], record["published"]["title"]) == ("New", 1, "ACME")
    assert list(record["draft"]) == [
        "id",
        *(name for name in shop_document() if name != "id"),
    ]
    assert [menu["menu_id"] for menu in program.get(PATH).json["data"]["items"]] == ["kiosk", "shop"]


def test_a_screen_that_does_not_fit_is_reported_with_its_excess_and_not_published(program: Program) -> None:
    fits, one_too_many = (
        shop_document(nodes={"bye": {"type": "end", "text": {"en": "Goodbye", "lg": letters + "a" * 69}}})
        for letters in ("ŋ", "ŋŋ")
    )
    assert put(program, f"{PATH}/shop", fits).json["data"]["passes"]
    (finding,) = put(program, f"{PATH}/shop", one_too_many).json["data"]["errors"]
    measured = [finding[name] for name in ("rule", "node", "language", "excess", "unit")]
    assert measured == ["budget", "bye", "lg", 1, "characters"]
    refused = program.post(f"{PATH}/shop/publish", {})
    assert refusal(refused) == (400, "MENU_INVALID")
    assert refused.json["message"].startswith("bye: 1 character too many in `lg` on every network: 71 of 70, because")


def test_a_document_in_the_body_is_checked_without_being_kept(program: Program) -> None:
    report = program.post(f"{PATH}/shop/check", {"nodes": {}}).json["data"]
    assert not report["passes"]
    assert program.get(f"{PATH}/shop").json["data"]["draft"] == shop_document()
    assert not program.post(f"{PATH}/never-saved/check", {"nodes": {}}).json["data"]["passes"]


def test_an_empty_body_replaces_no_draft(program: Program) -> None:
    for kind in ("application/json", "application/yaml"):
        empty = program.web.put(f"{PATH}/shop", data=b"", content_type=kind, headers=program.headers)
        assert refusal(empty) == (400, "INVALID_REQUEST")
    assert program.get(f"{PATH}/shop").json["data"]["draft"] == shop_document()


def test_a_code_is_bound_with_or_without_its_closing_hash(program: Program) -> None:
    for written in ("*384*123%23", "*384*123"):
        bound = put(program, f"/api/ussd/codes/{written}", {"menu_id": "shop"})
        assert (bound.status_code, bound.json["data"]["service_code"]) == (200, CODE)
    assert program.get("/api/ussd/codes").json["data"]["items"] == [bound.json["data"]]
    assert refusal(put(program, "/api/ussd/codes/*999", {"menu_id": "shop"})) == (404, "NOT_FOUND")
    assert refusal(put(program, "/api/ussd/codes/*384*123", {"menu_id": "x"})) == (404, "NOT_FOUND")
    assert refusal(put(program, "/api/ussd/codes/abc", {"menu_id": "shop"})) == (400, "INVALID_REQUEST")


def test_the_graph_is_data_and_a_diagram(program: Program) -> None:
    graph = program.get(f"{PATH}/shop/graph", version=1).json["data"]
    assert list(graph) == ["menu_id", "version", "nodes", "edges", "svg"]
    assert {"from": "root", "to": "amount", "label": "1. Pay"} in graph["edges"]
    assert graph["nodes"][0] == {"id": "root", "type": "menu", "text": "Welcome to ACME", "rank": 0}
    drawn = program.web.get(f"{PATH}/shop/graph", headers={**program.headers, "Accept": "image/svg+xml"})
    assert (drawn.status_code, drawn.content_type) == (200, "image/svg+xml")
    assert drawn.text == graph["svg"]
    assert drawn.text.startswith("<svg")
    for accepted in ("*/*", "application/json", "text/html", "image/svg+xml;q=0.5, application/json"):
        reply = program.web.get(f"{PATH}/shop/graph", headers={**program.headers, "Accept": accepted})
        assert reply.content_type == "application/json"
    assert refusal(program.get(f"{PATH}/shop/graph", version=7)) == (404, "NOT_FOUND")


def test_any_object_may_be_a_draft_and_comes_back_with_its_errors(program: Program) -> None:
    for body in ({}, {"nodes": 1}, {"vars": []}, {"languages": [{}]}, {"start": 1e300}, {"id": "kiosk"}):
        report = put(program, f"{PATH}/kiosk", body)
        assert report.status_code == 200
        assert report.json["data"]["errors"]
        assert program.get(f"{PATH}/kiosk").json["data"]["draft"] == {"id": "kiosk", **body}
        assert refusal(program.post(f"{PATH}/kiosk/publish", {})) == (400, "MENU_INVALID")
        assert program.get(f"{PATH}/kiosk/graph").status_code == 200


def test_an_unknown_field_is_refused_by_name(program: Program) -> None:
    reply = program.post(f"{PATH}/shop/publish", {"now": True})
    assert (*refusal(reply), reply.json["message"]) == (400, "INVALID_REQUEST", "now: Unknown field.")
    assert refusal(program.post(f"{PATH}/shop/rollback", {"version": "1"})) == (400, "INVALID_REQUEST")


YAML = """\
start: root
nodes:
  root:
    type: confirm
    text: Go on?
    yes: bye
    no: bey
  bye: {type: end, text: Goodbye}
"""


def test_a_menu_is_written_in_yaml_and_its_findings_name_line_column_and_suggestion(program: Program) -> None:
    def send(method: str, path: str, text: str, content_type: str = "application/yaml") -> TestResponse:
        call = getattr(program.web, method)
        return call(path, data=text, headers={**program.headers, "Content-Type": content_type})  # type: ignore[no-any-return]

    expected = {"rule": "goto", "node": "root", "line": 7, "column": 9, "suggestion": "bye"}
    for method, path in (("put", f"{PATH}/kiosk"), ("post", f"{PATH}/kiosk/check")):
        (finding,) = send(method, path, YAML).json["data"]["errors"]
        assert {name: finding[name] for name in expected} == expected
        message = "`no` leads to `bey`, and there is no such node; did you mean `bye`? (line 7, column 9)"
        assert finding["message"] == message
        refused = send(method, path, "a: 1\na: 2")
        assert refusal(refused) == (400, "INVALID_REQUEST")
        assert refused.json["message"] == "The name `a` is given twice in one object (line 2, column 1)"
    assert program.get(f"{PATH}/kiosk").json["data"]["draft"]["nodes"]["root"]["yes"] == "bye"
    assert send("put", f"{PATH}/kiosk", YAML.replace("bey", "bye")).json["data"]["passes"]
    in_json = '{"start": "rot",\n "nodes": {"root": {"type": "end", "text": "Bye"}}}'
    (finding,) = send("put", f"{PATH}/kiosk", in_json, "application/json").json["data"]["errors"]
    assert (finding["line"], finding["column"], finding["suggestion"]) == (1, 11, "root")
    for text, place in (('{"a": 1,\n "a": 2}', "(line 2, column 2)"), ('{"a": 1,\n "b" 2}', "(line 2, column 6)")):
        refused = send("put", f"{PATH}/kiosk", text, "application/json")
        assert refusal(refused) == (400, "INVALID_REQUEST")
        assert refused.json["message"].endswith(place)
    assert refusal(send("put", f"{PATH}/kiosk", YAML, "text/yaml")) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert refusal(send("post", f"{PATH}/kiosk/publish", YAML)) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert refusal(send("put", f"{PATH}/kiosk", "a: " + "x" * 70_000)) == (413, "REQUEST_TOO_LARGE")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_schema_of_a_menu_is_public(web: FlaskClient) -> None:
    reply = web.get("/menu.schema.json")
    assert (reply.status_code, reply.mimetype) == (200, "application/schema+json")
    assert reply.json["$schema"] == "https://json-schema.org/draft/2020-12/schema"
