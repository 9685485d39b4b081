"""The endpoint for balances: the main account, subscribers' accounts, and what is reserved."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import work
from tests.support.program import Program
from ussd_server.bootstrap import Services

PAYER = "+256770000000"


@pytest.fixture
def program(services: Services, web: FlaskClient) -> Program:
    return Program(services, web, shillings=10_000)


def balance(program: Program, **query: str) -> tuple[Any, Any, Any]:
    data = program.get("/api/balance", **query).json["data"]
    return data["current"], data["available"], data["reserved"]


def test_a_balance_shows_account_currency_and_moment(program: Program) -> None:
    reply = program.get("/api/balance")
    data = reply.json["data"]
    assert reply.status_code == 200
    assert list(data) == ["account", "currency", "current", "available", "reserved", "as_of"]
    assert (data["account"], data["currency"]) == ("main", "UGX")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", data["as_of"])
    assert balance(program) == (10_000, 10_000, 0)


def test_an_account_that_was_never_used_shows_zeros(program: Program) -> None:
    data = program.get("/api/balance", phone_number=PAYER).json["data"]
    assert (data["account"], data["current"], data["available"], data["reserved"]) == (PAYER, 0, 0, 0)


def test_the_plus_of_a_number_in_a_query_comes_raw_or_encoded(program: Program) -> None:
    for path in ("/api/balance", "/api/transactions", "/data/collection", "/api/ussd/sessions"):
        for plus, status in (("+", 200), ("%2B", 200), ("%20", 400), ("", 400), ("++", 400)):
            reply = program.web.get(f"{path}?phone_number={plus}256770000000", headers=program.headers)
            assert reply.status_code == status, (path, plus)


def test_a_disbursement_reserves_and_then_pays(program: Program, services: Services, clock: MovableClock) -> None:
    program.disburse(amount="4000.50")
    assert balance(program) == (10_000, 5999.5, 4000.5)
    work(services, clock)
    assert balance(program) == (5999.5, 5999.5, 0)


def test_an_ambiguous_disbursement_keeps_its_reservation_and_a_failed_one_does_not(
    program: Program, services: Services, clock: MovableClock
) -> None:
    program.disburse("silent", "+256770000007", 4000)
    program.disburse("refused", "+256770000008", 4000)
    assert balance(program) == (10_000, 2000, 8000)
    work(services, clock)
    assert balance(program) == (10_000, 6000, 4000)


def test_a_collection_credits_the_account_it_names_and_a_disbursement_debits_it(
    program: Program, services: Services, clock: MovableClock
) -> None:
    program.collect("in", PAYER, 3000, account="+256770000004")
    work(services, clock)
    assert balance(program, phone_number="+256770000004") == (3000, 3000, 0)
    program.disburse("out", PAYER, 1000, account="+256770000004")
    assert balance(program, phone_number="+256770000004") == (3000, 2000, 1000)
    work(services, clock)
    assert balance(program, phone_number="+256770000004") == (2000, 2000, 0)
    assert balance(program) == (10_000, 10_000, 0)
    assert program.disburse("more", PAYER, 2001, account="+256770000004").json["error"] == "INSUFFICIENT_BALANCE"


def test_a_malformed_question_is_refused(program: Program) -> None:
    for query, code in (
        ("phone_number=0770000000", "INVALID_PHONE_NUMBER"),
        ("phone_number=", "INVALID_PHONE_NUMBER"),
        ("account=main", "INVALID_REQUEST"),
    ):
        reply = program.get(f"/api/balance?{query}")
        assert (reply.status_code, reply.json["error"]) == (400, code)
