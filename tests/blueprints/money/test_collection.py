"""The endpoint for collected payments: collections, and nothing else."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import work
from tests.support.program import Program
from ussd_server.bootstrap import Services

PATH = "/data/collection"


@pytest.fixture
def program(services: Services, web: FlaskClient, clock: MovableClock) -> Program:
    """A program whose client has something of every type."""
    program = Program(services, web, shillings=10_000)
    paid = program.collect("paid").json["data"]["transaction_id"]
    program.collect("refused", "+256770000002")
    program.disburse("sent")
    work(services, clock)
    program.post(f"/api/transactions/{paid}/refunds", {"reference": "given back", "amount": 1})
    return program


def references(program: Program, **query: str) -> list[str]:
    return [item["reference"] for item in program.get(PATH, **query).json["data"]["items"]]


def test_only_collections_are_shown(program: Program) -> None:
    assert references(program) == ["refused", "paid"]


def test_its_filters_and_pages_are_those_of_transactions(program: Program) -> None:
    assert references(program, status="succeeded") == ["paid"]
    assert references(program, type="collection") == ["refused", "paid"]
    assert references(program, type="disbursement") == []
    assert references(program, amount="5000.00") == ["refused", "paid"]
    assert references(program, amount="1") == []
    for path in (PATH, "/api/transactions"):
        refused = program.get(path, amount="much")
        assert (refused.status_code, refused.json["error"]) == (400, "INVALID_AMOUNT")
    page = program.get(PATH, limit=1).json["data"]
    assert page["items"] == program.get("/api/transactions", reference="refused").json["data"]["items"]
    assert references(program, cursor=page["next_cursor"]) == ["paid"]
    refused = program.get(PATH, cursor="x")
    assert (refused.status_code, refused.json["error"]) == (400, "INVALID_REQUEST")
