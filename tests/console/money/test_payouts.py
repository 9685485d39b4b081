"""The pages of payouts."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, timedelta
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.console.clients.test_api_keys import assert_same
from tests.console.conftest import ConsoleVisitor, Visit
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.example_client import ExampleClient
from tests.support.money import agree_fee, deposit, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.providers import ProviderAccount
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.payouts.messages import ItemState, ListPayoutItems, ListPayouts
from ussd_server.services.providers.messages import SwitchProvider
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.values import KAMPALA

FILE = """phone_number,amount,reference,name,description
0770000000,"1,000",E-1,<b>Sarah</b> שלום,Salary
0770000002,2000,E-2,,
2.56772E+11,3000,E-3,,
"""


def upload(visitor: ConsoleVisitor, content: str | bytes = FILE, name: str = "pay.csv", **fields: Any) -> TestResponse:
    """Send the form of a new payout."""
    visitor.get("/payouts/new")
    content = content.encode() if isinstance(content, str) else content
    return visitor.post(
        "/payouts/new", **({"reference": "NOV", "description": "November"} | fields), file=(io.BytesIO(content), name)
    )


@pytest.fixture
def funded(services: Services, example_client: ExampleClient) -> ExampleClient:
    deposit(services, operator_context(example_client.id), 100_000)
    return example_client


def test_the_page_says_when_a_payout_is_sent_and_what_it_waits_for(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    maker, approver = visit("owner"), visit("admin")
    due = (clock.now() + timedelta(days=3)).astimezone(KAMPALA)
    typed = f"{due:%Y-%m-%dT%H:%M}"
    wrong = upload(maker, send_at="soon")
    assert (wrong.status_code, 'value="soon"' in wrong.text) == (400, True)
    large = "phone_number,amount,reference\n0770000000,900000,E-1\n"
    path = upload(maker, large, send_at=typed).location.removeprefix("/console")
    shown = f"{due:%d %b %Y, %H:%M}:00"
    assert "before it is due" in approver.get(path).text
    approver.post(f"{path}/approve")
    page = " ".join(re.sub(r"<[^>]+>", " ", approver.get(path).text).split())
    assert "The payout is approved. It waits for its date." in page
    assert f"It is sent at {shown} . Its money is reserved then; nothing is reserved yet." in page
    assert "Cancel the payout …" in page
    clock.advance(3 * 86_400)
    for claimed in services.payout_sender.claim(5):
        services.payout_sender.advance(claimed)
    later = visit("admin")
    assert "and its money was missing" in later.get(path).text
    (listed,) = later.get("/payouts?format=json").json["items"]
    assert listed["send_at"] == f"{due.astimezone(UTC):%Y-%m-%dT%H:%M}:00.000Z"


def test_one_person_uploads_a_file_and_another_approves_it(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    maker, approver = visit("owner"), visit("admin")
    empty = maker.get("/payouts").text
    assert "No payouts yet" in empty
    assert empty.count('href="/console/payouts/new">New payout</a>') == 2
    assert "Upload a file</a>" not in visit("viewer").get("/payouts").text
    made = upload(maker)
    assert made.status_code == 303
    path = made.location.removeprefix("/console")
    page = maker.get(path).text
    assert "Nothing is sent before another person approves it" in page
    assert "&lt;b&gt;Sarah&lt;/b&gt;" in page
    assert "The spreadsheet shortened the number" in page
    assert "admin@acme.example may approve it; you, who made it, may not, and nobody who" in page
    assert "Approve and send" not in page
    assert upload(maker).location == made.location
    assert "uploaded before" in maker.get(path).text
    invalid = maker.get(f"{path}?state=invalid&format=json").json["items"]
    assert [(item["line"], item["state"]) for item in invalid] == [(4, "invalid")]
    assert "2.56772E+11" in invalid[0]["problems"]

    assert "float of" not in approver.get(path).text
    now = clock.now()
    ProviderAccount.insert(
        account="sandbox", provider="sandbox", asked_at=now, read_at=now, amount_cents=100_000
    ).execute()
    shown = approver.get(path).text
    assert 'more than Sandbox\'s float of <span class="money">UGX 1,000' in shown
    words = re.sub(r"<[^>]+>", " ", shown)
    assert re.search(r"This will send\s+UGX\s+3,000\s+to 2 people\s*, and costs\s+UGX", words)
    assert "1 invalid row is left out" in words
    assert visit("developer").post(f"{path}/approve").status_code == 403
    assert maker.post(f"{path}/approve").status_code == 403
    assert "you, who made it, may not" in maker.get(path).text
    assert '<input type="hidden" name="total_fee" value="0.00">' in shown
    other = approver.post(f"{path}/approve", total_fee="1.00")
    assert (other.status_code, "The fees of the payout are 0 now" in other.text) == (400, True)
    assert approver.post(f"{path}/approve", total_fee="0.00").status_code == 303
    assert "Its rows are being sent" in approver.get(path).text
    assert maker.get(f"{path}/live?was=draft").headers["HX-Refresh"] == "true"
    live = maker.get(f"{path}/live").text
    assert "Rows with an outcome: 0 of 2. Rows that wait to be sent: 2." in live
    assert "data-poll" in live
    desk = PayoutDesk(services, clock, 0)
    desk.work(3)
    live = maker.get(f"{path}/live").text
    assert "1 succeeded, 1 failed" in live
    assert "data-poll" not in live
    page = maker.get(path).text
    assert "Cancel what waits" not in page
    assert re.search(r'href="/console/transactions/[0-9a-f-]{36}"', page)
    failed = maker.get(f"{path}?state=failed").text
    assert "E-2" in failed
    assert "E-1" not in failed
    results = list(csv.DictReader(io.StringIO(maker.get(f"{path}/results.csv").text)))
    assert [item["state"] for item in results] == ["succeeded", "failed", "invalid"]
    assert results[1]["failure"].startswith("PAYEE_BLOCKED: ")
    assert results[0]["receipt"].startswith("SBX")
    assert maker.get(f"{path}/results.csv?state=failed").headers["Content-Disposition"] == (
        'attachment; filename="payout-NOV-failed.csv"'
    )
    (listed,) = maker.get("/payouts?status=completed&format=json").json["items"]
    assert (listed["reference"], listed["total_amount"], listed["succeeded_count"]) == ("NOV", 3000, 1)


def test_different_names_reach_the_approver(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    given = "phone_number,amount,reference,name\n0770000000,1000,E-1,Mallory Mukasa\n0770000001,1000,E-2,\n"
    path = upload(visit("developer"), given).location.removeprefix("/console")
    assert "1 name is not compared yet" in visit("admin").get(path).text
    PayoutDesk(services, clock, 0).tick()
    page = visit("admin").get(path).text
    assert f'<a href="/console{path}?names=different">1 name is different</a>' in page
    (different,) = visit("admin").get(f"{path}?names=different&format=json").json["items"]
    assert (different["reference"], different["name"], different["name_match"]) == (
        "E-1",
        "Mallory Mukasa",
        "different",
    )
    assert different["registered_name"] in page
    results = visit("admin").get(f"{path}/results.csv?names=different").text
    assert results.count("\n") == 2
    assert f",{different['registered_name']}" in results


BAD_ROWS = """phone_number,amount,reference
0770000000,1000,E-1
0770000001,abc,E-2
0770000003,2000,E-1
"""


def test_an_invalid_row_shows_what_the_file_had_and_is_corrected_in_the_draft(
    visit: Visit, funded: ExampleClient
) -> None:
    maker = visit("developer")
    path = upload(maker, BAD_ROWS).location.removeprefix("/console")
    assert "<bdi>abc</bdi>" in maker.get(path).text
    assert f'<a href="/console{path}/correct">Correct them</a>' in maker.get(path).text
    assert "Correct them" not in visit("admin").get(path).text
    form = maker.get(f"{path}/correct").text
    assert 'name="amount-3" value="abc"' in form
    rows = dict(re.findall(r'<input name="([a-z_]+-[0-9]+)" value="([^"]*)"', form))
    still = maker.post(f"{path}/correct", **rows)
    assert still.location == f"/console{path}"
    assert "Nothing was changed" in maker.get(path).text
    corrected = maker.post(f"{path}/correct", **(rows | {"amount-3": "5,000", "reference-4": "E-3"}))
    assert corrected.status_code == 303
    after = corrected.location.removeprefix("/console")
    items = maker.get(f"{after}?format=json").json["items"]
    assert [(item["line"], item["amount"], item["state"]) for item in items] == [
        (2, 1000, "ready"), (3, 5000, "ready"), (4, 2000, "ready")
    ]  # fmt: skip
    assert f'<a href="{corrected.location}">the corrected draft</a> took its place' in maker.get(path).text
    assert [item["reference"] for item in maker.get("/payouts?format=json").json["items"]] == ["NOV"]
    again = maker.post(f"{path}/correct", **(rows | {"amount-3": "6,000"}))
    assert (again.status_code, "The payout was corrected already" in again.text) == (400, True)
    assert "approve it" in visit("admin").get(after).text


def test_a_draft_takes_a_corrected_file_of_its_maker_alone(visit: Visit, funded: ExampleClient) -> None:
    maker = visit("developer")
    path = upload(maker, BAD_ROWS).location.removeprefix("/console")
    good = BAD_ROWS.replace("abc", "500").replace("2000,E-1", "2000,E-3").encode()
    other = visit("owner")
    other.get(path)
    assert "A draft is corrected by its maker" in other.post(f"{path}/correct", file=(io.BytesIO(good), "pay.csv")).text
    bad = maker.post(f"{path}/correct", file=(io.BytesIO(b"amount\n5\n"), "pay.csv"))
    assert (bad.status_code, 'role="alert"' in bad.text) == (400, True)
    after = maker.post(f"{path}/correct", file=(io.BytesIO(good), "pay.csv")).location.removeprefix("/console")
    assert other.get(f"{after}?state=ready&format=json").json["items"][1]["amount"] == 500
    other.get(path)
    assert other.post(f"{path}/approve", total_fee="0.00").status_code == 400
    assert other.post(f"{after}/approve", total_fee="0.00").status_code == 303
    maker.get(path)
    late = maker.post(f"{after}/correct", file=(io.BytesIO(FILE.encode()), "pay.csv"))
    assert "The payout is approved and cannot be corrected" in late.text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"phone_number;amount\n0770000000;5\n", "reference"),
        (b"\xff\xfe\x00", "not UTF-16 to its end"),
        (b"PK\x03\x04nonsense", "file"),
        ("phone_number,amount,reference\n", "no row below its headings"),
        ("phone_number,amount,reference\n0770000000,5,\x01x\n", "Row 2, column C"),
    ],
)
def test_a_bad_file_gives_one_sentence_and_loses_nothing_that_was_typed(
    visit: Visit, content: str | bytes, sentence: str
) -> None:
    visitor = visit("developer")
    refused = upload(visitor, content, reference="NOV-26", description='"Pay" <b>')
    assert refused.status_code == 400
    assert sentence in re.search(r'role="alert">([^<]+)<', refused.text)[1]  # type: ignore[index]
    assert 'value="NOV-26"' in refused.text
    assert 'value="&#34;Pay&#34; &lt;b&gt;"' in refused.text
    assert "No payouts yet" in visitor.get("/payouts").text


def test_what_is_missing_or_too_large_is_said(visit: Visit) -> None:
    visitor = visit("owner")
    visitor.get("/payouts/new")
    assert "Choose a file." in visitor.post("/payouts/new", reference="NOV").text
    assert "1 to 64 characters" in upload(visitor, reference="N" * 65).text
    assert "reference" in upload(visitor, reference="").text
    assert upload(visitor, b"x" * 3 * 1024 * 1024).status_code == 413
    assert visit("viewer").get("/payouts/new").status_code == 403


def test_a_payout_without_money_stays_a_draft_and_is_cancelled(visit: Visit, example_client: ExampleClient) -> None:
    maker, approver = visit("developer"), visit("owner")
    path = upload(maker).location.removeprefix("/console")
    assert "Put money in before you approve it." in approver.get(path).text
    refused = approver.post(f"{path}/approve")
    assert refused.status_code == 400
    assert "Insufficient balance" in refused.text
    assert "Nothing of it is ever sent." in maker.get(path).text
    assert maker.post(f"{path}/cancel").status_code == 303
    page = approver.get(path).text
    assert "It was cancelled before anything was sent." in page
    assert "Approve and send" not in page
    assert "cancelled and cannot be approved" in approver.post(f"{path}/approve").text
    assert visit("viewer").post(f"{path}/cancel").status_code == 403


def test_rows_that_wait_are_cancelled_and_pages_of_rows_follow_each_other(
    visit: Visit, funded: ExampleClient, services: Services
) -> None:
    rows = "".join(f"0770000000,10,r{place}\n" for place in range(120))
    path = upload(visit("owner"), f"phone_number,amount,reference\n{rows}").location.removeprefix("/console")
    approver = visit("admin")
    approver.get(path)
    approver.post(f"{path}/approve")
    seen, link = [], f"{path}?state=queued&format=json"
    while link:
        page = approver.get(link)
        seen += [item["reference"] for item in page.json["items"]]
        link = re.sub(r"^<(/console)?|>.*", "", page.headers.get("Link", ""))
    assert seen == [f"r{place}" for place in range(120)]
    assert approver.post(f"{path}/cancel").status_code == 303
    assert approver.get(f"{path}?state={ItemState.CANCELLED}&format=json").json["items"][0]["reference"] == "r0"


def test_failed_rows_come_first_and_are_chosen_for_a_retry_with_a_date(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    maker, desk = visit("owner"), PayoutDesk(services, clock, 0)
    rows = "".join(f"077000000{2 if place > 52 else 0},10,r{place}\n" for place in range(55))
    path = upload(maker, f"phone_number,amount,reference\n{rows}").location.removeprefix("/console")
    approver = visit("admin")
    assert "You may approve it; owner@acme.example, who made it" in approver.get(path).text
    approver.post(f"{path}/approve")
    assert 'type="checkbox"' not in maker.get(path).text
    desk.work(8)
    page = maker.get(path).text
    assert "Approved</dt>" in approver.get(path).text
    assert " by <bdi>you</bdi>" in approver.get(path).text
    assert re.findall('name="rows" value="([^"]+)"', page) == ["r53", "r54"]
    for shown in (page, maker.get("/payouts").text):
        assert '<span class="badge warn">completed with failures</span>' in shown
    (listed,) = maker.get("/payouts?format=json").json["items"]
    assert listed["status"] == "completed"
    seen, link = [], f"{path}?format=json"
    while link:
        files = maker.get(link)
        seen += [item["reference"] for item in files.json["items"]]
        link = re.sub(r"^<(/console)?|>.*", "", files.headers.get("Link", ""))
    assert seen == ["r53", "r54", *(f"r{place}" for place in range(53))]
    refused = maker.post(f"{path}/retry", rows="r1", send_at="")
    assert (refused.status_code, "Not all of these rows may be retried: row r1: succeeded" in refused.text) == (
        400,
        True,
    )
    at = (clock.now() + timedelta(hours=5)).astimezone(KAMPALA)
    assert maker.post(f"{path}/retry", rows="r54", send_at=f"{at:%Y-%m-%dT%H:%M}").status_code == 303
    drafted = " ".join(re.sub(r"<[^>]+>", " ", approver.get(path).text).split())
    assert "UGX 10 to 1 person draft" in drafted
    (opened,) = services.payouts.list(ListPayouts(), funded.call()).items
    assert (opened.round.item_count, opened.send_at) == (1, at.replace(second=0, microsecond=0))


def test_a_row_that_may_not_be_retried_yet_names_its_time_in_kampala(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    maker, desk = visit("owner"), PayoutDesk(services, clock, 0)
    path = upload(maker).location.removeprefix("/console")
    approver = visit("admin")
    approver.get(path)
    approver.post(f"{path}/approve")
    desk.work(2)
    wanted = ListPayoutItems(path.rpartition("/")[2], state=ItemState.FAILED)
    (item,) = services.payouts.items(wanted, funded.call()).items
    assert item.retry_at is not None
    maker.get(path)
    refused = maker.post(f"{path}/retry", rows="E-2").text
    assert f"row E-2: not before {item.retry_at.astimezone(KAMPALA):%d %b %Y, %H:%M:%S}" in refused
    assert 'value="E-2" checked' in refused


def test_a_row_without_an_answer_says_who_looks_into_it_and_what_waits_for_it(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    maker, approver = visit("owner"), visit("admin")
    rows = "0770000002,10,E-1\n0770000007,10,E-2\n"
    path = upload(maker, f"phone_number,amount,reference\n{rows}").location.removeprefix("/console")
    approver.get(path)
    approver.post(f"{path}/approve")
    running = maker.get(path).text
    assert "can be retried once" not in running
    PayoutDesk(services, clock, 0).work(130)
    page = maker.get(path).text
    assert "Rows that failed can be retried once every row has its outcome." in page
    assert page.count("The operator looks into it; it is not retried before that.") == 1
    was = re.search(r"was=([0-9a-z-]+)", running)
    assert was
    assert maker.get(f"{path}/live?was={was[1]}").headers["HX-Refresh"] == "true"


def test_names_that_are_not_looked_up_yet_are_being_checked(
    visit: Visit, funded: ExampleClient, services: Services
) -> None:
    maker = visit("owner")
    path = upload(maker, f"{FILE}0412345678,4000,E-4,John,\n").location.removeprefix("/console")
    page = maker.get(path).text
    assert page.count('<span class="badge wait">being checked</span>') == 1
    was = re.search(r"was=([0-9a-z-]+)", page)
    assert was
    assert "HX-Refresh" not in maker.get(f"{path}/live?was={was[1]}").headers
    # The name of an invalid row is never looked up.
    assert re.search(r"John</bdi>\s*</td>", page)
    assert maker.get(f"{path}?format=json").json["items"][0]["name_match"] == "unknown"
    for payout_id in services.payout_sender.claim(5):
        services.payout_sender.advance(payout_id)
    assert maker.get(f"{path}/live?was={was[1]}").headers["HX-Refresh"] == "true"


def test_another_clients_payout_answers_as_a_missing_one(visit: Visit, services: Services, clock: MovableClock) -> None:
    foreign = PayoutDesk(services, clock, 0).draft(row()).payout_id
    visitor, missing = visit(), "019e0000-0000-7000-8000-000000000000"
    for below in ("", "/live", "/results.csv"):
        assert_same(*(visitor.get(f"/payouts/{each}{below}") for each in (foreign, missing)))
    for action in ("approve", "cancel"):
        assert_same(*(visitor.post(f"/payouts/{each}/{action}") for each in (foreign, missing)))


def test_the_page_says_what_is_not_paid_and_why_a_payout_waits_and_retries_what_failed(
    visit: Visit, funded: ExampleClient, services: Services, clock: MovableClock
) -> None:
    agree_fee(FeeTerms(funded.id, TransactionType.DISBURSEMENT, 5000, 0))
    maker, approver = visit("owner"), visit("admin")
    path = upload(maker).location.removeprefix("/console")
    page = approver.get(path).text
    assert "Invalid rows, which are not paid: 1 of 3. Their amounts, as far as they can be read, add up to" in page
    assert "Download the invalid rows" in page
    assert page.index("Approve …") < page.index("1 invalid row is left out.") < page.index("Approve and send")
    (line,) = csv.DictReader(io.StringIO(approver.get(f"{path}/results.csv?state=invalid").text))
    assert line["reference"] == "E-3"
    services.provider_states.switch(SwitchProvider("sandbox", True, "maintenance"), operator_context())
    assert (
        "It waits for its provider."
        in approver.get(approver.post(f"{path}/approve").location.removeprefix("/console")).text
    )
    assert "is switched off here." in approver.get(path).text
    services.provider_states.switch(SwitchProvider("sandbox", False, "done"), operator_context())
    for _ in range(20):
        for payout_id in services.payout_sender.claim(10):
            services.payout_sender.advance(payout_id)
        work(services, clock)
        clock.advance(0.5)
    ended = maker.get(path).text
    assert re.search(r'<dt>Paid</dt><dd><span class="money">UGX 1,000', ended)
    assert re.search(r'<dt>Fees</dt><dd><span class="money">UGX 50<', ended)
    assert "Invalid rows, which are not paid: 1 of 3." in ended
    assert "Retry rows" in ended
    clock.advance(6)
    work(services, clock)
    retried = maker.post(f"{path}/retry").location.removeprefix("/console")
    assert retried == path
    page = approver.get(path).text
    assert "Round 2 pays 1 row again: " in page
    assert '<input type="hidden" name="round" value="2">' in page
    assert "<dt>Retried by</dt><dd><bdi>owner@acme.example</bdi></dd>" in page
    assert "you, who made it, may not" in maker.get(path).text
    approver.post(f"{path}/approve", round="2")
    assert services.payouts.get(path.rpartition("/")[2], funded.call()).round.number == 2
    assert approver.post(f"{path}/cancel").status_code == 303
    assert "pays 1 row again" not in maker.get(path).text
