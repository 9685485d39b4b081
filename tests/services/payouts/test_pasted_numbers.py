"""Numbers as people paste them: marks without a glyph, a number that occurs twice, and numbers of no mobile network."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.support.program import Program
from ussd_server import values
from ussd_server.bootstrap import Services
from ussd_server.services.payouts.drafts.rows import read_file, row_of

PASTED = [
    "\u202a+256770000101\u202c",
    "\u200e0770000101",
    "0770000101\u200b",
    "\u20680770000101\u2069",
    "+256\u2011770\u2011000101",
    "0770000101\ufeff",
    "+256\u00a0770\u202f000\u2009101",
    "\u200f'0770000101",
    "0770\u00ad000101",
    "0770000101\ufe0f",
]


@pytest.mark.parametrize("number", PASTED)
def test_a_mark_without_a_glyph_is_dropped_from_the_number_of_a_file(number: str) -> None:
    (row,) = read_file(f"phone_number,amount,reference\r\n{number},\u200e5000,r1\r\n".encode())
    assert (row.phone_number, row.amount_cents, row.problems) == ("+256770000101", 500_000, [])


def test_a_mark_does_not_hide_that_an_amount_was_cut_at_its_comma() -> None:
    (row,) = read_file("phone_number,amount,reference,name\r\n0770000101,\u200e30,000,r1\r\n".encode())
    assert "look like 30,000" in row.problems[0]


@pytest.mark.parametrize("number", [each for each in PASTED if "'" not in each])
def test_commands_and_forms_drop_such_marks(number: str) -> None:
    assert values.phone_number(number) == "+256770000101"


@pytest.mark.parametrize("number", PASTED[:-3])
def test_json_names_the_character(number: str) -> None:
    (problem,) = row_of(1, {"phone_number": number, "amount": 5000, "reference": "r1"}).problems
    character = next(each for each in number if not each.isascii())
    assert (
        problem == f"phone_number: Must be +256 followed by nine digits; it has the character U+{ord(character):04X}."
    )


@pytest.mark.parametrize("text", ["Ñankole", "ŋŋoma", "A-1", "Ssekitto–Musoke"])
def test_letters_and_marks_with_a_glyph_stay(text: str) -> None:
    assert values.without_marks(text) == text


@pytest.fixture
def program(services: Services, web: FlaskClient) -> Program:
    return Program(services, web, "payouts:read", "payouts:write", "transactions:write")


def items_of(program: Program, *rows: str) -> list[dict[str, object]]:
    lines = [f"{number},5000,r{place}" for place, number in enumerate(rows)]
    file = "\r\n".join(["phone_number,amount,reference", *lines]).encode()
    headers = program.headers | {"Content-Type": "text/csv"}
    made = program.web.post("/api/payouts", query_string={"reference": "march"}, data=file, headers=headers)
    payout_id = made.json["data"]["payout_id"]
    items: list[dict[str, object]] = program.get(f"/api/payouts/{payout_id}/items").json["data"]["items"]
    return items


def test_a_number_that_occurs_twice_is_said_and_not_refused(program: Program) -> None:
    found = items_of(program, "0770000107", "+256770000107", "0770000108", "0410000107", "0410000107")
    assert [item["warning"] for item in found] == ["number occurs in rows 2, 3"] * 2 + [None] * 3
    assert [item["state"] for item in found] == ["ready"] * 3 + ["invalid"] * 2
    assert found[3]["problems"] == ["phone_number: No mobile network of Uganda has numbers that begin with 041."]


@pytest.mark.parametrize("block", ["70", "71", "72", "73", "74", "75", "76", "77", "78", "79", "39"])
def test_every_mobile_block_is_paid(program: Program, block: str) -> None:
    (item,) = items_of(program, f"0{block}0000107")
    assert item["state"] == "ready"


def test_a_payment_in_json_names_the_character(program: Program) -> None:
    body = {"phone_number": "+256\u2011770000101", "amount": 5000, "reference": "a", "type": "collection"}
    refused = program.post("/api/transactions", body)
    assert refused.status_code == 400
    assert "it has the character U+2011." in refused.text
