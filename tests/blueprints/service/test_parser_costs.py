"""No input of any parser costs more than four times what a plain one of its size costs at the same endpoint (P31).

With `-s` the tests print what they measured.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.support import worst_inputs
from tests.support.costs import LIMIT, Endpoint, Stretches, worst_ratio
from tests.support.money import operator
from tests.support.program import Program
from tests.support.shop import Shop
from ussd_server.app import create_app
from ussd_server.bootstrap import Services
from ussd_server.providers.registry import PACKAGES
from ussd_server.services.reconciliation.reading.statement_lines import StatementReader
from ussd_server.spreadsheets.rows import SpreadsheetError

SIZE = 64 * 1024
FILE_SIZE = 2 * 1024 * 1024 - 64
LONGEST_STRETCH_MS = 15
QUERY_SIZE = HEADER_SIZE = 4000
STATEMENT_HEADINGS = "Id,External id,Date,Status,Type,From,Amount,Currency\n"
ROW = {"phone_number": "+256770000000", "amount": 500}
# What each costs does not depend on the database.
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)]


def check(title: str, endpoint: Endpoint, plain: bytes, bodies: Iterable[tuple[str, bytes]]) -> None:
    calls = [(name, partial(endpoint.call, body)) for name, body in bodies]
    report(title, *worst_ratio(partial(endpoint.call, plain), calls))


def report(title: str, ratio: float, name: str) -> None:
    print(f"| {title} | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, (title, name)


def json_of(size: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    return worst_inputs.plain_json(size), list(worst_inputs.json_bodies(size))


@pytest.mark.parametrize("path", ["/api/clients/login", "/api/clients/token/refresh"])
def test_json_without_credentials(app: Flask, path: str) -> None:
    check(f"JSON, `{path}`", Endpoint(app, path), *json_of(SIZE))


def test_json_of_a_provider_that_asks_about_a_code(app: Flask, services: Services) -> None:
    (paths,) = services.notices.paths(operator())
    check("JSON, `…/incoming/{secret}/check`", Endpoint(app, f"{paths.path}/check"), *json_of(SIZE))
    check("JSON, `…/incoming/{secret}/notify`", Endpoint(app, f"{paths.path}/notify"), *json_of(SIZE))


def test_reports_of_a_provider(app: Flask, services: Services) -> None:
    path = services.runtime.tokens.callback_path("sandbox")
    check("JSON, `/callbacks/{provider}/{secret}`", Endpoint(app, path), *json_of(SIZE))
    check(
        "Form, the same",
        Endpoint(app, path, worst_inputs.FORM),
        worst_inputs.plain_form(SIZE),
        worst_inputs.form_bodies(SIZE),
    )


@pytest.mark.parametrize("path", ["/api/transactions", "/api/webhooks", "/api/ussd/sessions", "/api/messages"])
def test_json_of_a_key(app: Flask, services: Services, web: FlaskClient, path: str) -> None:
    def call(body: bytes) -> float:
        # A new key for each call, because a key may call a hundred times a minute.
        return Endpoint(app, path, headers=Program(services, web).headers).call(body)

    plain, bodies = json_of(SIZE)
    report(
        f"JSON, `{path}`", *worst_ratio(partial(call, plain), ((name, partial(call, body)) for name, body in bodies))
    )


def test_menus_in_yaml(app: Flask, services: Services, web: FlaskClient) -> None:
    def call(text: str) -> float:
        headers = Program(services, web).headers
        return Endpoint(app, "/api/menus/m/check", "application/yaml", headers).call(text.encode()[: SIZE - 1])

    plain = partial(call, worst_inputs.plain_menu(SIZE))
    report(
        "YAML, a menu",
        *worst_ratio(plain, ((name, partial(call, text)) for name, text in worst_inputs.menu_texts(SIZE))),
    )


def test_menus_in_json(app: Flask, services: Services, web: FlaskClient) -> None:
    def call(body: bytes) -> float:
        return Endpoint(app, "/api/menus/m/check", headers=Program(services, web).headers).call(body)

    node = {"type": "screen", "text": "Pay the school fees", "options": [{"label": "Pay", "goto": "n0"}]}
    plain = json.dumps({"start": "n0", "nodes": {f"n{number}": node for number in range(560)}}).encode()
    bodies = ((name, partial(call, body)) for name, body in worst_inputs.json_bodies(len(plain)))
    report("JSON, a menu", *worst_ratio(partial(call, plain), bodies))


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/payouts/new"])
def test_forms_of_the_console(app: Flask, path: str) -> None:
    form = Endpoint(app, path, worst_inputs.FORM)
    check(f"Form, `{path}`", form, worst_inputs.plain_form(SIZE), worst_inputs.form_bodies(SIZE))
    parts = Endpoint(app, path, worst_inputs.MULTIPART)
    check(f"Multipart, `{path}`", parts, worst_inputs.plain_multipart(SIZE), worst_inputs.multipart_bodies(SIZE))


def test_steps_of_gateways(app: Flask, shop: Shop) -> None:
    size = 16 * 1024
    form = Endpoint(app, shop.channel.gateway_path, worst_inputs.FORM)
    check("Form, a gateway", form, worst_inputs.plain_form(size), worst_inputs.form_bodies(size))
    events = Endpoint(app, f"{shop.channel.gateway_path}/events", worst_inputs.FORM)
    check("Form, a gateway's report", events, worst_inputs.plain_form(size), worst_inputs.form_bodies(size))
    for adapter in ("json", "hubtel", "nalo", "dmark", "madapi", "arkesel"):
        check(f"JSON or form, the gateway {adapter}", Endpoint(app, shop.channel_of(adapter)), *json_of(size))


@pytest.mark.parametrize("path", ["/console/sign-in", "/api/openapi.json", "/api/clients/audit-events"])
def test_queries_and_headers(app: Flask, path: str) -> None:
    endpoint = Endpoint(app, path, method="GET")
    plain = worst_inputs.plain_form(QUERY_SIZE).decode()
    queries = [
        (name, partial(endpoint.call, query=query.decode("latin-1")))
        for name, query in worst_inputs.form_bodies(QUERY_SIZE)
    ]
    report(f"Query, `{path}`", *worst_ratio(partial(endpoint.call, query=plain), queries))
    for header in (
        "Cookie",
        "Accept",
        "Accept-Language",
        "Authorization",
        "X-Request-Id",
        "traceparent",
        "Origin",
        "Range",
        "If-None-Match",
        "If-Modified-Since",
        "Accept-Encoding",
    ):
        headers = [
            (unit, partial(endpoint.call, headers={header: (unit * HEADER_SIZE)[:HEADER_SIZE]}))
            for unit in (
                "a=b;",
                'a="',
                '"',
                ",",
                "a,",
                "a;q=0.1,",
                '\\"',
                'a="\\1"; ',
                "%E9",
                "a/b;q=1,",
                "console=e30.e.",
                "eyJ.",
            )
        ]
        least = partial(endpoint.call, headers={header: "a" * HEADER_SIZE})
        report(f"`{header}`, `{path}`", *worst_ratio(least, headers))


def test_the_addresses_that_proxies_write(services: Services) -> None:
    services.settings = replace(services.settings, trusted_proxies=1)  # type: ignore[misc]
    endpoint = Endpoint(create_app(services), "/api/openapi.json", method="GET")

    def call(forwarded: str) -> float:
        return endpoint.call(headers={"X-Forwarded-For": forwarded})

    units = ("1.1.1.1,", ",", '"', '"",', '"\\"', "a,", "[::1]:80,", "::1,", " ,")
    values = [
        (unit, partial(call, (unit * HEADER_SIZE)[:HEADER_SIZE] + end)) for unit in units for end in ("", "1.1.1.1")
    ]
    report("`X-Forwarded-For`", *worst_ratio(partial(call, "a" * HEADER_SIZE + ",1.1.1.1"), values))


def sheet(rows: str, texts: str = "") -> bytes:
    """A workbook with one sheet of these rows."""
    book = BytesIO()
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    with ZipFile(book, "w", ZIP_DEFLATED) as parts:
        parts.writestr("xl/workbook.xml", f'<w xmlns:r="{relation}"><sheets><sheet r:id="a"/></sheets></w>')
        parts.writestr("xl/_rels/workbook.xml.rels", '<r><Relationship Id="a" Target="s.xml"/></r>')
        parts.writestr("xl/sharedStrings.xml", f"<sst>{texts}</sst>")
        parts.writestr("xl/s.xml", f"<worksheet><sheetData>{rows}</sheetData></worksheet>")
    return book.getvalue()


def test_workbooks(send: Callable[..., float]) -> None:
    xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    heading = "".join(
        f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in ("phone_number", "amount", "reference")
    )
    texts = ("+256770000000", "500", "r")
    row = "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in texts)
    plain = sheet(f"<row>{heading}</row>" + f"<row>{row}</row>" * 5000)
    books = {
        "empty rows": sheet("<row/>" * 690_000), "empty cells": sheet("<row>" + "<c/>" * 690_000 + "</row>"),
        "values": sheet("<row>" + "<c><v>1</v></c>" * 340_000 + "</row>"),
        "texts": sheet("", "<si><t>a</t></si>" * 340_000),
        "deep": sheet("<a>" * 60), "attributes": sheet("<row " + " ".join(f'a{n}="1"' for n in range(5000)) + "/>"),
    }  # fmt: skip
    as_xlsx = partial(send, content_type=xlsx, query="reference=F")
    report(
        "XLSX, `/api/payouts`",
        *worst_ratio(partial(as_xlsx, plain), [(n, partial(as_xlsx, b)) for n, b in books.items()]),
    )


def files() -> Iterator[tuple[str, bytes]]:
    heading = b"phone_number,amount,reference\n"
    units = {
        "400 digits": b"9" * 400 + b",x,y\n", "amounts of 390 digits": b"0770000000," + b"9" * 390 + b",y\n",
        "thousands": b'0770000000,"1' + b",000" * 95 + b'",y\n', "60 cells": b"a," * 60 + b"\n", "short rows": b"a\n",
        "quotes": b'"a""b",', "quoted lines": b'",\n',
        "spaces": b" " * 990 + b",1,1\n", "no-break spaces": "\u00a0,\n".encode(),
    }  # fmt: skip
    for name, unit in units.items():
        yield name, (heading + unit * (FILE_SIZE // len(unit)))[:FILE_SIZE]


@pytest.mark.usefixtures("services")
def test_statements_of_a_provider() -> None:
    (known,) = (package.statement for package in PACKAGES if package.name == "mtn")
    assert known
    line = "31,,2026-11-20 09:05:10,Successful,Payment,256770000101,5000,UGX\n"

    def call(unit: str) -> float:
        file = BytesIO((STATEMENT_HEADINGS + unit * (256 * 1024 // len(unit))).encode())
        began = time.thread_time()
        with suppress(SpreadsheetError):
            deque(StatementReader(known, "UGX", {}).lines(file), maxlen=0)
        return (time.thread_time() - began) * 1000

    units = [
        ",,,,,,,\n", "a,,,,,,,\n", "1\n", '"a""b",', '",\n', " " * 990 + ",,,,,,,\n",
        line.replace("5000", '"5,000.00"'),
        line.replace("2026-11-20 09:05:10", "20/11/2026 09:05"), "3,,2026-11-20,Successful,Payment,1,1,UGX\n",
    ]  # fmt: skip
    report("a statement", *worst_ratio(partial(call, line), [(repr(unit[:30]), partial(call, unit)) for unit in units]))


def rows(**more: object) -> bytes:
    return json.dumps(
        {"reference": "P", "items": [ROW | more | {"reference": f"r{row}"} for row in range(5000)]}
    ).encode()


@pytest.fixture
def send(app: Flask, services: Services, web: FlaskClient) -> Callable[..., float]:
    def send(body: bytes, content_type: str = "application/json", query: str = "") -> float:
        return Endpoint(app, "/api/payouts", content_type, Program(services, web).headers, query=query).call(body)

    return send


def test_payouts(send: Callable[..., float]) -> None:
    plain = rows(description="x" * 290)
    bodies = [*worst_inputs.json_bodies(FILE_SIZE, 31_000), ("short rows", rows()), ("bad rows", rows(amount="9" * 30))]
    report(
        "JSON of 2 MB, `/api/payouts`", *worst_ratio(partial(send, plain), [(n, partial(send, b)) for n, b in bodies])
    )
    as_csv = partial(send, content_type="text/csv", query="reference=F")
    table = b"phone_number,amount,reference,description\n" + b"+256770000000,500,r,xxxxxxx\n" * 5000
    report(
        "CSV of 2 MB, `/api/payouts`",
        *worst_ratio(partial(as_csv, table), [(n, partial(as_csv, b)) for n, b in files()]),
    )


@pytest.mark.nightly
def test_no_stretch_without_a_pause_is_long(send: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    stretches = Stretches(monkeypatch)
    bodies = [
        *worst_inputs.json_bodies(FILE_SIZE, 31_000),
        ("rows", rows(description="x" * 290)),
        ("short rows", rows()),
    ]
    calls = [(name, partial(send, body)) for name, body in bodies]
    calls += [(name, partial(send, body, "text/csv", "reference=F")) for name, body in files()]
    longest = (0.0, "")
    for name, call in calls:
        took = stretches.of(call)
        for _ in range(6):
            if took <= LONGEST_STRETCH_MS:
                break
            took = min(took, stretches.of(call))
        longest = max(longest, (took, name))
    print(f"longest stretch without a pause: {longest[0]:.1f} ms ({longest[1]})")
    assert longest[0] <= LONGEST_STRETCH_MS, longest
