"""No text or file in a form of the console costs more than four times what a plain one of its size costs (P31).

With `-s` the tests print what they measured.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

import pytest
from flask import Flask

from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.spreadsheets.workbooks import raw_workbook
from tests.support import worst_inputs
from tests.support.costs import LIMIT, Endpoint, worst_ratio
from ussd_server.services.bank.messages import LARGEST_FILE_BYTES

_MENU_BYTES = 63 * 1024
ID = b"01a212ee-d10a-7484-883b-433d53ae3179"
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)]


def form(app: Flask, visitor: ConsoleVisitor, path: str, content_type: str) -> Endpoint:
    cookie = visitor.web.get_cookie("console", path="/console")
    assert cookie
    return Endpoint(app, f"/console{path}", content_type, {"Cookie": f"console={cookie.value}", "Host": "localhost"})


def upload(visitor: ConsoleVisitor, file: bytes, **fields: str) -> bytes:
    """A form with these fields and a file."""
    begin = '\r\n--b\r\nContent-Disposition: form-data; name="{}"'
    texts = (begin.format(name) + f"\r\n\r\n{text}" for name, text in {"csrf_token": visitor.token, **fields}.items())
    head = "".join(texts)[2:] + begin.format("file") + '; filename="a"\r\n\r\n'
    return head.encode() + file + b"\r\n--b--\r\n"


def report(title: str, ratio: float, name: str) -> None:
    print(f"| {title} | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, (title, name)


def test_the_editor_of_menus(app: Flask, visit: Visit) -> None:
    visitor = visit()
    document = worst_inputs.plain_menu(2000)
    assert visitor.post("/menus/new", menu_id="shop", text=document).status_code == 303
    visitor.get("/menus/shop/edit")
    endpoint = form(app, visitor, "/menus/shop/edit", worst_inputs.FORM)

    def call(text: str) -> float:
        fields = {"csrf_token": visitor.token, "do": "check", "text": text[:_MENU_BYTES]}
        return endpoint.call(urlencode(fields).encode())

    plain = partial(call, worst_inputs.plain_menu(_MENU_BYTES))
    plain()
    assert endpoint.status == 200
    texts = worst_inputs.menu_texts(_MENU_BYTES)
    report("the editor of menus", *worst_ratio(plain, ((name, partial(call, text)) for name, text in texts)))


def test_the_file_of_a_bank(app: Flask, operator: Operators) -> None:
    visitor = operator("first")
    visitor.get("/operator/settlements")
    endpoint = form(app, visitor, "/operator/settlements/file", worst_inputs.MULTIPART)
    heading = b"settlement_id,client_id,client,bank,number,name,amount,currency,bank_reference\n"

    def call(unit: bytes) -> float:
        file = (heading + unit * (LARGEST_FILE_BYTES // len(unit)))[:LARGEST_FILE_BYTES]
        return endpoint.call(upload(visitor, file))

    plain = partial(call, ID + b"," + ID + b",A,B,1,N,500,UGX," + b" " * 110 + b"\n")
    plain()
    assert endpoint.status == 400, "no line has a reference of the bank"
    units = (
        b"a," * 9 + b"\n",
        b"a," * 60 + b"\n",
        b"a\n",
        b"\n",
        b"\r",
        b'"a""b",',
        b'",\n',
        b" " * 990 + b",1,1\n",
        b"," * 31 + b"\n",
    )
    report("the file of a bank", *worst_ratio(plain, ((repr(unit[:9]), partial(call, unit)) for unit in units)))


def test_the_columns_of_a_statement(app: Flask, operator: Operators) -> None:
    visitor = operator("first")
    visitor.get("/operator/reconciliation/new")
    endpoint = form(app, visitor, "/operator/reconciliation/new", worst_inputs.MULTIPART)

    def call(file: bytes) -> float:
        return endpoint.call(upload(visitor, file, account="mtn", result="try"))

    plain = partial(call, b"Id,Date,Amount\n" + b"1,2026-11-20 09:05:10,-5000\n" * 35)
    plain()
    assert endpoint.status == 200
    cell = b'<c t="s"><v>0</v></c>'
    books = {
        f"256 headings of {length:,} letters": raw_workbook(
            b"<row>" + cell * 256 + b"</row>", b"<sst><si><t>" + b"a" * length + b"</t></si></sst>"
        )
        for length in (1, 100, 32_700)
    }
    books["256 headings"] = b"a," * 255 + b"\n"
    calls = ((name, partial(call, book)) for name, book in books.items())
    report("1 KiB, the form with the columns of a statement", *worst_ratio(plain, calls))
    endpoint.call(upload(visitor, books["256 headings of 32,700 letters"], account="mtn", result="try"))
    assert endpoint.length < 1024 * 1024
