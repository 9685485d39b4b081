"""The pages of statements and reports."""

from __future__ import annotations

import csv
import io
import re
from datetime import date, datetime, timedelta

import pytest

from tests.conftest import MovableClock
from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.console.pages.money import statements
from ussd_server.context import operator_context
from ussd_server.values import KAMPALA, bounds_of_day


def test_a_statement_adds_up_and_shows_the_balance_over_time(
    visit: Visit,
    example_client: ExampleClient,
    services: Services,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = operator_context(example_client.id)
    visitor = visit("viewer")
    today = clock.now().astimezone(KAMPALA).date()
    assert "Nothing moved in this account" in visitor.get("/statements").text
    deposit(services, call, 100_000)
    create = services.transactions.create
    for place in range(60):
        create(request(shillings=10, reference=f"<b>{place}"), call)
    work(services, clock, 1)
    page = visitor.get("/statements").text
    assert "&lt;b&gt;0" in page
    assert re.search(r"Closing balance</h2><p class=\"big\"><span class=\"money\">UGX 100,600<", page)
    assert '<polyline class="line"' in page
    printed = re.sub(r"<[^>]+>", "", " ".join(re.findall(r'<p class="printed">.*', page)))
    assert re.match(
        r"acme Account main, \d\d [A-Z][a-z]{2} \d{4} to \d\d [A-Z][a-z]{2} \d{4} \(Kampala\). These are not all lines",
        printed,
    )
    seen, link = [], f"/statements?from={today}&to={today}&format=json"
    while link:
        shown = visitor.get(link)
        seen += shown.json["items"]
        link = re.sub(r"^<(/console)?|>.*", "", shown.headers.get("Link", ""))
    assert [line["balance"] for line in seen] == [100_000 + 10 * place for place in range(61)]
    downloaded = visitor.get(f"/statements/file.csv?from={today}&to={today}")
    assert downloaded.headers["Content-Disposition"] == f'attachment; filename="statement-main-{today}-{today}.csv"'
    opening, *file, closing = csv.DictReader(io.StringIO(downloaded.text))
    assert [row["balance"] for row in file] == [str(line["balance"]) for line in seen]
    at = "at (Kampala, UTC+3)"
    assert (opening[at], opening["kind"], opening["balance"]) == (f"{today} 00:00:00", "opening balance", "0")
    assert (closing[at], closing["kind"], closing["balance"]) == (f"{today} 23:59:59", "closing balance", "100600")
    assert file[0][at] == f"{datetime.fromisoformat(seen[0]['at']).astimezone(KAMPALA):%Y-%m-%d %H:%M:%S}"
    assert "All lines, to print" in page
    whole = visitor.get("/statements?lines=all").text
    assert "&lt;b&gt;59" in whole
    assert "not all lines" not in whole
    monkeypatch.setattr(statements, "_MOST_PRINTED", 50)
    monkeypatch.setattr(statements, "_PRINTED_AT_ONCE", 50)
    assert "These are the first 50 lines. The CSV file has all." in visitor.get("/statements?lines=all").text
    other = visitor.get("/statements?account=0770000000").text
    assert "+256770000000" in other
    assert "Nothing moved" in other
    before = visitor.get(f"/statements?from={today - timedelta(days=2)}&to={today - timedelta(days=1)}").text
    assert "UGX 0" in before
    assert "Nothing moved" in before


@pytest.mark.parametrize("path", ["/statements?from=", "/statements?to=", "/reports?date="])
def test_a_day_that_is_none_is_refused(visit: Visit, path: str) -> None:
    visitor = visit("viewer")
    for text in ("0001-01-01", "9999-12-31", "2026-02-30", "tomorrow", "٢٠٢٦-١١-٢٢"):
        assert visitor.get(path + text).status_code == 400, text


def test_the_report_of_a_day_counts_by_type_provider_and_status(
    visit: Visit, example_client: ExampleClient, services: Services, clock: MovableClock
) -> None:
    call = operator_context(example_client.id)
    for number in ("+256770000000", "+256770000002"):
        services.transactions.create(request(number=number), call)
    work(services, clock, 2)
    visitor = visit("viewer")
    page = visitor.get("/reports").text
    assert "50.0 %" in page
    rows = visitor.get("/reports?format=json").json["items"]
    assert [(row["status"], row["count"], row["amount"]) for row in rows] == [
        ("failed", 1, 5000),
        ("succeeded", 1, 5000),
    ]
    assert "No payment became final" in visitor.get("/reports?date=2020-01-01").text


def test_the_report_of_a_month_adds_its_days_up(
    visit: Visit, example_client: ExampleClient, services: Services, clock: MovableClock
) -> None:
    call = operator_context(example_client.id)
    clock.advance((bounds_of_day(date(2027, 3, 1))[0] - clock.now()).total_seconds())
    for reference, number in enumerate(("+256770000000", "+256770000000", "+256770000002")):
        services.transactions.create(request(number=number, reference=f"order-{reference}"), call)
        work(services, clock, 2)
        clock.advance(86_400)
    visitor = visit("viewer")
    rows = visitor.get("/reports?period=This+month&format=json").json["items"]
    sums = [(row["status"], row["count"], row["amount"]) for row in rows]
    assert sums == [("failed", 1, 5000), ("succeeded", 2, 10_000)]
    assert "66.7 %" in visitor.get("/reports?period=This+month").text
    assert visitor.get("/reports?period=Last+month&format=json").json["items"] == []
