"""Bad input on every path gets a documented refusal in the right envelope, and changes nothing."""

from __future__ import annotations

import itertools
import json
import random
import re
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from marshmallow import INCLUDE, ValidationError
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from schemas.fields import Body
from tests.conftest import MovableClock
from tests.faults.routes import filled, methods_of, route_ends_everything, route_of, routes_with_bodies, stated_rules
from tests.faults.seeded_client import SeededClient, example_of
from ussd_server.api.document import api_document
from ussd_server.api.requests import is_management
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database

SEED = 256
# A request that is refused for its form never reaches the database, so one database is enough.
FORM_ONLY = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
TRIES = 8
LEAKS = re.compile(r"Traceback|sqlite|postgres|psycopg|peewee|marshmallow|werkzeug|site-packages|\.py\b|0x[0-9a-f]{8}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# Tables that change with the client's credentials, and the log of requests; all others must stay as they are.
OF_CREDENTIALS = {
    "api_keys", "deleted_api_keys", "logins", "audit_events", "events", "pending_events", "api_requests", "key_usage",
}  # fmt: skip

NOT_JSON_OBJECTS = [
    b"{", b"}", b"[]", b"null", b"true", b"0", b'"x"', b"{} {}", b"{}x", b"{,}", b"{'a':1}", b'{"a":}', b'{"a":1,}',
    b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', b"\xff\xfe",
    b'{"a":"\xc3\x28"}', b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":"\\u0000"}', b'{"\\u0000":1}', b'{"a":"\x00"}',
    b'{"a":"\n"}', b"[" * 30_000, b'{"a":' * 10_000, b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", b"\xef\xbb\xbf{}",
    "{}".encode("utf-16"), "{}".encode("utf-32"), b'{"a":' + b"9" * 5000 + b"}", b"a=1&b=2", b"<a/>", b"\x1f\x8b\x08",
    b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":0x10}', b"\x00", b" ", b"\n",
]  # fmt: skip
STRANGE_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, -(10**30), 0.1, 1e308, 1.5, "", " ", "x", "x" * 70,
    "x" * 3000, "\n", "\t", "x\n", "\x7f", "\x1b[31m", "é", "ŋ", "😀", "١٢٣", "１２", "\u202e", "\ufeff", "\u2028",
    "%00", "../..", "' OR 1=1 --", "${7*7}", "{{7*7}}", "<script>", "+256770000000", "+256770000000\n",
    "+２56770000000", "0770000000", "1e3", "1_000", "NaN", "-5", "+5", "0x10", "5,000", "999999.999", "true", "null",
    "main", "collection", "ussd:read", "2026-11-20T08:15:30Z", "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z", "http://127.0.0.1", "https://[::1]/", "https://x:99999/",
    "file:///etc/passwd", "https://user:pw@example.com/", [], [[]], {}, {"a": 1}, [None], [1], ["x"], ["x"] * 200,
    {"a": {"b": {"c": []}}}, [{}], {"": ""},
]  # fmt: skip
STRANGE_QUERIES = [
    "%ff=%fe", "%00=%00", "a=1&a=2", "=", "a", "limit=%00", "limit=١", "limit=1&limit=2", "wait=1e1", "wait=0x1",
    "cursor=%ff", "cursor=" + "x" * 600, "from=now", "from=2026-11-20T08:15:30", "to=9999-99-99T99:99:99Z",
    "from=0001-01-01T00:00:00%2B14:00", "status=%0a", "phone_number=%2B256770000000%0A", "x" * 2000,
    "version=9999999999", "__proto__=1", "[]=1", "a[b]=c", "limit=-1", "limit=+1", "limit= 1", "type[]=x", "?", "%",
    "%zz=1", "a=%u0041",
]  # fmt: skip
STRANGE_NAMES = [
    "%00", "%ff%fe", "..", "%2e%2e", "%2F", "a%2Fb", "%5C", " ", "%20", "%0a", "x" * 5000, "😀", "é", "null", "*",
    "**", "0", "-1", "{}", "%7B%7D", "%25", "%2500", "' OR 1=1 --", "00000000-0000-0000-0000-000000000000%0A", "١",
    "#", "?", ";", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "__proto__", "%E0%80%80",
]  # fmt: skip
UNKNOWN_PATHS = [
    "/", "//", "/api", "/api/", "/api//transactions", "//api/transactions", "/api/transactions/", "/API/transactions",
    "/api/balance/", "/api/balance/x", "/api/./balance", "/api/../api/balance", "/api/%2e%2e/api/balance",
    "/api/transactions%2Fx", "/api/transactions%00", "/api/transactions;x=1", "/%ff", "/%00", "/" + "a/" * 500,
    "/.env", "/.git/config", "/metrics/../api", "/data", "/data/collection/", "/ussd", "/ussd/", "/ussd/x",
    "/callbacks/x", "/health", "/metrics/", "/openapi.json/", "/static/x", "/favicon.ico", "/wp-login.php", "/é",
    "/😀", "/api/clients", "/api/clients/", "/api/clients//api-keys", "/api/clients/api-keys/",
    "/api/clients/api-keys//", "/api/clients/x", "/api/clients/api-keys/x/y", "/api/clients/%2e%2e/transactions",
    "/api/clients/\\", "/api/clients/api-keys/bulk/x", "/api/clients/login/", "/api/clients/%00", "/api/clients/%ff",
    "/api/clients/é",
]  # fmt: skip


@pytest.fixture
def seeded_client(services: Services, web: FlaskClient, clock: MovableClock) -> SeededClient:
    return SeededClient(services, web, clock, "acme", "*384*1#")


@pytest.fixture
def document(app: Flask) -> dict[str, Any]:
    return api_document(app)


@FORM_ONLY
def test_a_body_that_is_no_json_object_is_refused_everywhere(
    app: Flask, seeded_client: SeededClient, document: dict[str, Any]
) -> None:
    chance = random.Random(SEED)
    before = contents()
    for rule, method, path in routes_with_bodies(app, seeded_client):
        for body in chance.sample(NOT_JSON_OBJECTS, 2 * TRIES):
            reply = seeded_client.ask(method, path, data=body, content_type="application/json")
            refused(reply, rule, method, document, seeded_client, body, 400)
        for content_type in (
            "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml",
            "application/json; charset=utf-16", "application/json; charset=latin-1", "application/jsonx", "", "é",
            "x" * 500,
        ):  # fmt: skip
            reply = seeded_client.ask(method, path, data=b"{}", content_type=content_type)
            refused(reply, rule, method, document, seeded_client, content_type, 415)
        largest = route_of(app, rule).max_body_bytes
        reply = seeded_client.ask(method, path, data=b"{" + b" " * largest + b"}", content_type="application/json")
        refused(reply, rule, method, document, seeded_client, f"{largest + 2} bytes", 413)
    assert contents() == before


@FORM_ONLY
def test_a_strange_value_in_any_field_of_any_body_does_no_harm(
    app: Flask, seeded_client: SeededClient, document: dict[str, Any]
) -> None:
    chance = random.Random(SEED)
    before, asked = contents(), 0
    for rule, method, path in routes_with_bodies(app, seeded_client):
        schema = route_of(app, rule).body
        assert schema is not None
        if schema.opts.unknown == INCLUDE:
            continue
        for name in (*(field.data_key or name for name, field in schema.fields.items()), "unknown", "", "__proto__"):
            for value in chance.sample(STRANGE_VALUES, TRIES):
                body = example_of(rule) | {name: value}
                if accepts(schema, body):
                    continue
                reply = seeded_client.ask(method, path, data=json.dumps(body), content_type="application/json")
                refused(reply, rule, method, document, seeded_client, body, 400)
                asked += 1
    print(f"5xx and wrong envelopes among {asked} calls: 0")
    assert asked > 300
    assert contents() == before


def test_what_is_strange_but_well_formed_is_done_or_refused_and_never_breaks(
    app: Flask, seeded_client: SeededClient, document: dict[str, Any]
) -> None:
    chance = random.Random(SEED)
    for rule, method, path in routes_with_bodies(app, seeded_client):
        schema = route_of(app, rule).body
        assert schema is not None
        names = ["id", "nodes", "start", "title", "vars", "languages"]
        if schema.opts.unknown != INCLUDE:
            names = [field.data_key or name for name, field in schema.fields.items()]
        for name, value in itertools.product(names, chance.sample(STRANGE_VALUES, 2 * TRIES)):
            body = example_of(rule) | {name: value}
            if accepts(schema, body) and not route_ends_everything(rule):
                reply = seeded_client.ask(method, path, data=json.dumps(body), content_type="application/json")
                documented(reply, rule, method, document, seeded_client, body)


@FORM_ONLY
def test_a_strange_query_is_refused_everywhere(
    app: Flask, seeded_client: SeededClient, document: dict[str, Any]
) -> None:
    chance = random.Random(SEED)
    before = contents()
    for rule in stated_rules(app):
        for method, query in itertools.product(methods_of(rule), chance.sample(STRANGE_QUERIES, TRIES)):
            takes = route_of(app, rule).body
            body = None if takes is None else example_of(rule)
            reply = seeded_client.ask(method, f"{filled(rule, seeded_client)}?{query}", json=body)
            refused(reply, rule, method, document, seeded_client, query, 400)
            if route_ends_everything(rule):
                break
    assert contents() == before


def test_a_strange_name_in_a_path_is_refused_everywhere(
    app: Flask, seeded_client: SeededClient, document: dict[str, Any]
) -> None:
    chance = random.Random(SEED)
    for rule in stated_rules(app):
        # PostgreSQL takes no NUL, whatever the others do.
        names = ["%00", *chance.sample(STRANGE_NAMES[1:], TRIES - 1)]
        for variable, method, name in itertools.product(rule.arguments, methods_of(rule), names):
            path = rule.rule.replace(f"<{variable}>", name if "%" in name else quote(name))
            takes = route_of(app, rule).body
            reply = seeded_client.ask(method, path, json=None if takes is None else example_of(rule))
            assert reply.status_code < 500, (path, reply.text)
            well_formed(reply, path, seeded_client)


def test_an_unknown_path_is_a_404_in_the_envelope_of_its_place(web: FlaskClient, seeded_client: SeededClient) -> None:
    for path, method in itertools.product(UNKNOWN_PATHS, ("GET", "POST", "DELETE")):
        reply = web.open(path if path.isascii() else quote(path), method=method)
        assert reply.status_code in (400, 401, 404, 405), (method, path, reply.text)
        well_formed(reply, reply.request.path, seeded_client)


def test_a_wrong_method_is_a_405_that_names_the_right_ones(app: Flask, seeded_client: SeededClient) -> None:
    adapter = app.url_map.bind("localhost")
    for rule in app.url_map.iter_rules():
        path = re.sub("<.*?>", "x", rule.rule)
        served = {each: len(adapter.match(path, each)[1]) for each in adapter.allowed_methods(path)}
        # `/api/events/redeliver` is also the path of an event that no client has.
        right = {each for each, variables in served.items() if variables == min(served.values())}
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"):
            if method in served:
                continue
            reply = seeded_client.ask(method, path)
            assert (reply.status_code, set(reply.headers["Allow"].split(", "))) == (405, right), (method, path)
            well_formed(reply, path, seeded_client)


def test_head_answers_like_get_without_a_body(app: Flask, seeded_client: SeededClient) -> None:
    for rule in stated_rules(app):
        if "GET" in rule.methods:
            path = filled(rule, seeded_client)
            head, get = seeded_client.ask("HEAD", path), seeded_client.ask("GET", path)
            assert (head.status_code, head.data) == (get.status_code, b"")
            assert head.headers["X-Request-Id"]


def test_strange_credentials_are_a_401_everywhere(app: Flask, web: FlaskClient, seeded_client: SeededClient) -> None:
    good = {"x-api-key": seeded_client.ids["api_key_id"], "x-api-secret": seeded_client.secrets[0]}
    words = ["", " ", "x", "a,b", "é", "\x7f", "x" * 5000, "null", "' OR 1=1 --", seeded_client.secrets[0], "Bearer x"]
    tried = [{"x-api-key": a, "x-api-secret": b} for a, b in itertools.product(words, repeat=2)]
    tried += [
        {},
        {"x-api-key": "x"},
        {"x-api-secret": "x"},
        good,
        {"Authorization": f"Bearer {seeded_client.secrets[1]}"},
    ]
    addresses = ({"REMOTE_ADDR": f"198.51.100.{number}"} for number in itertools.count())
    for headers in tried:
        reply = web.get("/api/balance", headers=headers, environ_base=next(addresses))
        assert (reply.status_code, reply.json["error"]) == (401, "INVALID_CREDENTIALS")
        well_formed(reply, "/api/balance", seeded_client)
    for rule in stated_rules(app):
        if route_of(app, rule).authenticate.__name__ == "allow_anyone":
            continue
        for method in methods_of(rule):
            path, headers = filled(rule, seeded_client), {"Authorization": "Bearer é", "x-api-key": "é"}
            reply = web.open(path, method=method, headers=headers, data=b"{", environ_base=next(addresses))
            assert reply.status_code == 401, path
            well_formed(reply, path, seeded_client)


def test_a_doubled_credential_is_no_credential(web: FlaskClient, seeded_client: SeededClient) -> None:
    seeded_client.ask("GET", "/api/balance")
    key = seeded_client.key
    for name in key:
        headers = [*key.items(), (name, key[name])]
        assert web.get("/api/balance", headers=headers).status_code == 401
    token = seeded_client.token["Authorization"]
    reply = web.get("/api/clients/api-keys", headers=[("Authorization", token), ("Authorization", token)])
    assert reply.status_code == 401


def test_a_strange_header_does_no_harm(seeded_client: SeededClient) -> None:
    for name, value in itertools.product(
        ("X-Request-Id", "Idempotency-Key", "Accept", "Host", "X-Forwarded-For", "Content-Encoding", "Range", "Cookie"),
        ("", "é", "\x7f", "x" * 6000, "../..", "' OR 1=1 --", "<script>", "text/html", "gzip", "bytes=0-0", "😀"),
    ):
        header = {name: value.encode().decode("latin-1")}
        body = {"type": "collection", "phone_number": "+256770000000", "amount": 1, "reference": "headers"}
        reply = seeded_client.ask("POST", "/api/transactions", headers=header, json=body)
        assert reply.status_code in (200, 201, 400), (header, reply.text)
        well_formed(reply, "/api/transactions", seeded_client)


def accepts(schema: Body, body: dict[str, Any]) -> bool:
    try:
        schema.load(json.loads(json.dumps(body), parse_float=Decimal))
    except ValidationError:
        return False
    return True


def contents() -> dict[str, int]:
    """How many rows each table has, except rows that change with the credentials."""
    tables = set(database.get_tables()) - OF_CREDENTIALS
    counts = {name: _count(f'"{name}"') for name in sorted(tables)}
    # A signature of each key's row, which is kept when the key is deleted.
    counts["row_signatures"] = _count("row_signatures WHERE id NOT LIKE 'api_keys/%'")
    return counts


def _count(rows: str) -> int:
    count: int = database.execute_sql(f"SELECT COUNT(*) FROM {rows}").fetchone()[0]
    return count


def refused(
    reply: TestResponse,
    rule: Rule,
    method: str,
    document: dict[str, Any],
    seeded_client: SeededClient,
    sent: Any,
    status: int,
) -> None:
    """The reply is the refusal with `status`, or the one with which the path's own check comes first."""
    assert reply.status_code == status, (method, rule.rule, str(sent)[:200], reply.text)
    documented(reply, rule, method, document, seeded_client, sent)


def documented(
    reply: TestResponse, rule: Rule, method: str, document: dict[str, Any], seeded_client: SeededClient, sent: Any
) -> None:
    """The reply is well formed, and the API document has its status and code for this operation."""
    assert reply.status_code < 500, (method, rule.rule, str(sent)[:200], reply.text)
    well_formed(reply, rule.rule, seeded_client)
    operation = document["paths"][re.sub("<(.*?)>", r"{\1}", rule.rule)][method.lower()]
    assert str(reply.status_code) in operation["responses"], (method, rule.rule, str(sent)[:200], reply.text)
    if "error" in reply.json:
        assert f"`{reply.json['error']}` ({reply.status_code})" in operation["description"], (rule.rule, reply.text)


def well_formed(reply: TestResponse, path: str, seeded_client: SeededClient) -> None:
    """The reply is JSON in the envelope of the path, with a request id, and gives nothing of the inside away."""
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", reply.headers["X-Request-Id"])
    assert not [secret for secret in seeded_client.secrets if secret in reply.text]
    if reply.request.method == "HEAD":
        return
    assert reply.headers["Content-Type"] == "application/json", (path, reply.text)
    if reply.status_code < 400:
        assert list(reply.json) == (
            ["status", "message", "data"] if is_management(path) else ["success", "data", "message"]
        )
        return
    assert not LEAKS.search(reply.text), reply.text
    if is_management(path):
        assert list(reply.json) == ["status", "message", "data"], (path, reply.text)
        assert (reply.json["status"], reply.json["data"]) == (reply.status_code, None)
    else:
        assert list(reply.json) == ["success", "error", "message", "timestamp"], (path, reply.text)
        assert reply.json["success"] is False
        assert MOMENT.fullmatch(reply.json["timestamp"])
    assert len(reply.json["message"]) < 300, reply.text


def test_a_period_at_the_ends_of_time_is_an_ordinary_period(app: Flask, seeded_client: SeededClient) -> None:
    for rule in stated_rules(app):
        if "from" in {field.data_key for field in route_of(app, rule).parameters.fields.values()}:
            for moment in ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"):
                for name in ("from", "to"):
                    reply = seeded_client.ask("GET", f"{filled(rule, seeded_client)}?{name}={moment}")
                    assert reply.status_code == 200, (rule, name, moment, reply.text)
    period = {"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"}
    assert seeded_client.ask("POST", "/api/events/redeliver", json=period).status_code == 200
    expiry = {"expires_at": "9999-12-31T23:59:59.999999Z"}
    assert seeded_client.ask("POST", "/api/clients/api-keys", json=expiry).status_code == 201
    assert seeded_client.ask("GET", "/api/clients/api-keys").status_code == 200
