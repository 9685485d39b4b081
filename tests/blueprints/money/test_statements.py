"""Statements by the API: pages and CSV files that add up, periods that stay as they were, and their bounds."""

from __future__ import annotations

import csv
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from peewee import OperationalError

from tests.conftest import MovableClock
from tests.support.money import agree_fee, deposit, operator, work
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import release_connection, unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts import statements as service
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.processing.outcomes import succeed
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.messages import Source, TransactionType
from ussd_server.values import iso_milliseconds

PAYER = "+256770000000"
FIELDS = ["at", "kind", "transaction_id", "reference", "description", "debit", "credit", "balance"]


@pytest.fixture
def program(services: Services, web: FlaskClient) -> Program:
    return Program(services, web, shillings=10_000)


def statement(program: Program, **query: Any) -> dict[str, Any]:
    data: dict[str, Any] = program.get("/api/statements", **query).json["data"]
    return data


def all_lines(program: Program, page_size: int = 2, **query: Any) -> list[dict[str, Any]]:
    """The lines of all pages, which show the same balances."""
    page = statement(program, limit=page_size, **query)
    lines, balances = page["items"], (page["opening_balance"], page["closing_balance"])
    while page["next_cursor"]:
        page = statement(program, limit=page_size, cursor=page["next_cursor"], **query)
        assert (page["opening_balance"], page["closing_balance"]) == balances
        lines += page["items"]
    balance = balances[0]
    for line in lines:
        balance = round(balance + (line["credit"] or 0) - (line["debit"] or 0), 2)
        assert line["balance"] == balance
    assert balance == balances[1]
    return lines


def csv_file(program: Program, web: FlaskClient, **query: Any) -> tuple[list[dict[str, str]], Any]:
    reply = web.get("/api/statements", headers=program.headers | {"Accept": "text/csv"}, query_string=query)
    return list(csv.DictReader(io.StringIO(reply.text))), reply


def test_a_statement_shows_every_movement_fees_as_lines_of_their_own_and_no_reservation(
    program: Program, services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    agree_fee(FeeTerms(program.client_id, TransactionType.DISBURSEMENT, 150, 0))
    paid = program.disburse("=1+1", amount="1000.50", description="@salary").json["data"]["transaction_id"]
    program.disburse("waits", "+256770000004", 500)
    program.collect("saved", amount=70, account=PAYER)
    work(services, clock, 1)
    program.move("transfer", "moved", PAYER, 20, to_phone_number="+256770000009")
    first, *lines = all_lines(program)
    assert list(first) == FIELDS
    assert (first["kind"], first["credit"], first["debit"], first["balance"]) == ("deposit", 10_000, None, 10_000)
    assert [(line["kind"], line["debit"], line["credit"], line["reference"]) for line in lines] == [
        ("disbursement", 1000.5, None, "=1+1"),
        ("fee", 1.5, None, "=1+1"),
    ]
    assert {line["transaction_id"] for line in lines} == {paid}
    saved = all_lines(program, account=PAYER)
    assert [(line["kind"], line["debit"], line["credit"]) for line in saved] == [
        ("collection", None, 70),
        ("transfer", 20, None),
    ]
    rows, reply = csv_file(program, web)
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert (reply.headers["Opening-Balance"], reply.headers["Closing-Balance"]) == ("0", "8998")
    assert list(rows[0]) == FIELDS
    assert [(row["debit"], row["credit"], row["balance"]) for row in rows] == [
        ("", "10000", "10000"),
        ("1000.5", "", "8999.5"),
        ("1.5", "", "8998"),
    ]
    assert (rows[1]["reference"], rows[1]["description"]) == ("'=1+1", "'@salary")


def test_a_statement_of_an_unused_account_is_empty_and_wrong_requests_are_refused(
    program: Program, services: Services, web: FlaskClient
) -> None:
    empty = {"opening_balance": 0, "closing_balance": 0, "items": [], "next_cursor": None}
    assert statement(program, account="+256770000123") == empty
    rows, reply = csv_file(program, web, account="+256770000123")
    assert (rows, reply.headers["Opening-Balance"], reply.headers["Closing-Balance"]) == ([], "0", "0")
    now = services.clock.now()
    for query in (
        {"account": "fees"},
        {"account": "256770000000"},
        {"from": iso_milliseconds(now), "to": iso_milliseconds(now - timedelta(seconds=1))},
        {"cursor": "x"},
        {"limit": "101"},
        {"date": "2026-11-20"},
    ):
        refused = program.get("/api/statements", **query)
        assert (refused.status_code, refused.json["error"]) == (400, "INVALID_REQUEST"), query
    deposit(services, program.call, 1, "second")
    cursor = statement(program, limit=1)["next_cursor"]
    assert program.get("/api/statements", limit=1, cursor=cursor, to=iso_milliseconds(now)).status_code == 400
    other = Program(services, web, "transactions:read")
    assert other.get("/api/statements").json["error"] == "INSUFFICIENT_SCOPE"
    assert Program(services, web, "statements:read").get("/api/statements").json["data"] == empty


@pytest.mark.both_databases
def test_a_period_that_is_over_waits_for_what_is_under_way_and_never_changes(
    program: Program, services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = program.collect(number="+256770000004", amount=7).json["data"]["transaction_id"]
    posted, may_commit = threading.Event(), threading.Event()

    def succeed_late() -> None:
        with unit_of_work():
            succeed(lock_row(Transaction, paid), Source.POLL, services.clock.now(), ReceiptWriter(services.runtime))
            posted.set()
            assert may_commit.wait(10)
        release_connection()

    def wait_for_commit() -> Any:
        may_commit.set()
        return unit_of_work()

    monkeypatch.setattr(service, "unit_of_work", wait_for_commit)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(succeed_late)
        assert posted.wait(10)
        assert statement(program, to=iso_milliseconds(clock.now() + timedelta(days=1)))["closing_balance"] == 10_000
        # Entries have the database's time, and a test's clock may begin two minutes behind it.
        clock.advance(300)
        over = iso_milliseconds(clock.now() - timedelta(seconds=10))
        seen = statement(program, to=over)
        late.result()
    assert [line["transaction_id"] for line in seen["items"]][1:] == [paid]
    assert seen["closing_balance"] == 10_007
    deposit(services, program.call, 5, "afterwards")
    assert statement(program, to=over) == seen
    following = statement(program, **{"from": over})
    assert (following["opening_balance"], following["closing_balance"]) == (10_007, 10_012)
    assert [line["credit"] for line in following["items"]] == [5]


@pytest.mark.both_databases
def test_statements_add_up_while_payments_run(program: Program, services: Services, web: FlaskClient) -> None:
    over = threading.Event()

    def pay() -> None:
        for number in range(40):
            deposit(services, program.call, 1, f"deposit {number}")
        over.set()
        release_connection()

    read = 0
    with ThreadPoolExecutor(1) as pool:
        paying = pool.submit(pay)
        # Three calls each time; the key has a hundred in a minute.
        for _ in range(20):
            read += len(all_lines(program, page_size=20))
            if over.is_set():
                break
        paying.result()
    assert read
    assert len(all_lines(program, page_size=20)) == 41
    rows, reply = csv_file(program, web)
    assert (len(rows), reply.headers["Closing-Balance"]) == (41, "10040")


def test_a_long_file_comes_in_parts_and_breaks_off_when_the_database_fails(
    program: Program, services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        deposit(services, program.call, 1, f"deposit {number}")
    monkeypatch.setattr(service, "_LINES_AT_ONCE", 2)
    assert len(csv_file(program, web)[0]) == 6
    accept = {"Accept": "text/csv"}
    # A file that its client does not read to the end frees its place.
    for _ in range(20):
        web.get("/api/statements", headers=program.headers | accept, buffered=False).close()
        assert web.head("/api/statements", headers=program.headers | accept).status_code == 200

    def fail(*_: object) -> Any:
        raise OperationalError("the server is gone")

    monkeypatch.setattr(service, "_lines", fail)
    with pytest.raises(ConnectionResetError):
        web.get("/api/statements", headers=program.headers | accept)


def test_a_daily_report_shows_each_payment_as_it_was_when_its_day_ended(
    program: Program, services: Services, clock: MovableClock
) -> None:
    agree_fee(FeeTerms(program.client_id, TransactionType.COLLECTION, 100, 0))
    clock.anchor(datetime(2030, 5, 4, 20, 0, tzinfo=UTC))
    for number, at_the_provider in enumerate(("00", "00", "02")):
        program.collect(f"c{number}", f"+2567700000{at_the_provider}", 100 + number)
    late = program.collect("late", "+256770000009", 50).json["data"]["transaction_id"]
    while program.see(late)["status"] != "failed":
        work(services, clock, 0.5)
    refunded = program.get("/api/transactions", reference="c0").json["data"]["items"][0]["transaction_id"]

    def report(day: str) -> Any:
        return program.get("/api/reports/daily", date=day).json["data"]

    seen = report("2030-05-04")
    assert seen["date"] == "2030-05-04"
    groups = {(row["type"], row["provider"], row["status"]): row for row in seen["rows"]}
    paid = groups["collection", "sandbox", "succeeded"]
    assert (paid["count"], paid["amount"], paid["fees"]) == (2, 201, 2)
    failed = groups["collection", "sandbox", "failed"]
    assert (failed["count"], failed["amount"], failed["fees"]) == (2, 152, 0)
    assert list(paid) == [
        "type", "provider", "status", "count", "amount", "fees", "median_seconds",
        "given_back_count", "given_back_amount", "given_back_fees",
    ]  # fmt: skip
    assert seen["success_rate"] == 0.5
    clock.anchor(datetime(2030, 5, 4, 21, 0, tzinfo=UTC))
    program.post(f"/api/transactions/{refunded}/refunds", {"reference": "back"})
    work(services, clock, 900, 60)
    assert program.see(refunded)["status"] == "reversed"
    assert program.see(late)["late"]
    assert report("2030-05-04") == seen
    following = {(row["type"], row["status"]): row["count"] for row in report("2030-05-05")["rows"]}
    assert following["refund", "succeeded"] == 1
    clock.advance(2 * 86_400)
    assert report("2030-05-04") == report("2030-05-04") == seen
    assert report("2030-05-06") == {"date": "2030-05-06", "rows": [], "success_rate": None}
    assert program.get("/api/reports/daily", date="2030-02-30").status_code == 400
    everything = services.daily_reports.get(GetDailyReport(date(2030, 5, 4)), operator())
    assert sum(row.count for row in everything.rows) == sum(row["count"] for row in seen["rows"])
