"""The pages of reconciliation."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Operators, Visit, confirmation
from tests.services.reconciliation.reading.test_stated_direction import PORTAL, RECEIPTS
from tests.services.reconciliation.statement_files import csv_file, kampala, mtn_row
from tests.support.money import a_client, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.reconciliation import closed_days
from ussd_server.values import KAMPALA

SILENT = "+256770000007"


def pay(services: Services, number: str = "+256770000000") -> Transaction:
    made = services.transactions.create(request(number=number), a_client(f"<i>{number}</i>"))
    return Transaction.get_by_id(made.transaction.transaction_id)


def upload(visitor: ConsoleVisitor, content: bytes, provider: str = "sandbox", **fields: Any) -> TestResponse:
    """Send the form of a new comparison."""
    visitor.get("/operator/reconciliation/new")
    file = (io.BytesIO(content), "<b>day</b>.csv")
    return visitor.post("/operator/reconciliation/new", account=provider, file=file, **fields)


def test_differences_of_a_statement_are_found_ended_and_concluded_by_two(
    operator: Operators, visit: Visit, services: Services, clock: MovableClock
) -> None:
    good, silent = pay(services), pay(services, SILENT)
    work(services, clock, 2.5)
    good, silent = (Transaction.get_by_id(each.id) for each in (good, silent))
    lines = [
        mtn_row(good),
        mtn_row(silent, Id="S-1", From="<u>party</u>"),
        mtn_row(good, Id="=1+1", Status="Failed", **{"External id": "unknown"}),
        mtn_row(good, Id="R-1", Type="Reversal", **{"External id": "taken back by hand"}),
    ]
    ann, bob = operator("ann"), operator("bob")
    assert "No statement yet" in ann.get("/operator/reconciliation").text
    assert visit("owner").get("/operator/reconciliation").status_code == 404
    tried = upload(ann, csv_file(lines), result="try")
    assert (tried.status_code, "3 differences in 4 lines. Nothing was stored." in tried.text) == (200, True)
    assert "Status differs" in tried.text
    refused = upload(ann, csv_file(lines))
    assert (refused.status_code, "looks like the wrong file" in refused.text) == (400, True)
    assert 'name="is_confirmed"' in refused.text
    assert "No statement yet" in ann.get("/operator/reconciliation").text
    every_line = upload(ann, csv_file(lines), result="csv", is_confirmed="yes")
    assert [row["verdict"] for row in csv.DictReader(io.StringIO(every_line.text))] == [
        "matched",
        "status_differs",
        "not_ours",
        "reversal",
    ]
    assert "'=1+1" in every_line.text
    made = upload(ann, csv_file(lines))
    assert made.status_code == 303
    path = made.location.removeprefix("/console")
    page = ann.get(path).text
    assert "compared before" in page
    assert "2 differences</a> to review" in ann.get("/operator").text
    assert "3 differences" in page
    assert "&lt;b&gt;day&lt;/b&gt;.csv" in page
    (silent_one,) = ann.get(f"{path}?verdict=status_differs&format=json").json["items"]
    assert "&lt;u&gt;party" in ann.get(f"/operator/differences/{silent_one['difference_id']}").text
    (unknown,) = ann.get(f"{path}?verdict=not_ours&format=json").json["items"]
    assert (unknown["provider_id"], unknown["theirs"]) == ("=1+1", "UGX 5,000")
    (listed,) = ann.get("/operator/reconciliation?format=json").json["items"]
    assert (listed["lines"], listed["differences"], listed["sum_difference"]) == (4, 3, 0)
    (reversal,) = ann.get(f"{path}?verdict=reversal&format=json").json["items"]
    shown = f"/operator/differences/{reversal['difference_id']}"
    assert reversal["review"] == "moved"
    assert "/operator/movements/" in ann.get(shown).text
    assert ann.post(f"{shown}/end", reason="by hand").status_code == 400

    end = f"/operator/differences/{unknown['difference_id']}/end"
    assert "A reason is needed" in ann.post(end).text
    assert ann.post(end, reason="Their <b>test</b>").status_code == 303
    ended = ann.get(end.removesuffix("/end")).text
    assert "by <bdi>you</bdi>" in ended
    assert "End the review" not in ended
    assert ann.post(end, reason="again").status_code == 400
    assert (
        ann.post(f"/operator/propose/difference.conclude/{unknown['difference_id']}", reason="it is ours").status_code
        == 400
    )

    (found,) = ann.get("/operator/differences?format=json").json["items"]
    conclude = f"/operator/propose/difference.conclude/{found['difference_id']}"
    assert ann.post(conclude).status_code == 400
    assert ann.post(conclude, reason="their statement").status_code == 303
    assert "is proposed" in bob.get(conclude).text
    proposals = bob.get("/operator/proposals").text
    assert "Conclude a payment from a statement" in proposals
    path, digest = confirmation(proposals)
    box = proposals[proposals.index(path) : proposals.index("</section>", proposals.index(path))]
    for shown in (
        "+256770000007",
        "their statement",
        "ann@ops.example",
        "succeeded, here ambiguous",
        "csv, line ",
        "S-1",
    ):
        assert shown in box, shown
    assert bob.post(path, digest=digest).status_code == 303
    row = Transaction.get_by_id(silent.id)
    assert (row.status, row.provider_transaction_id) == ("succeeded", "S-1")
    assert "No difference is open" in ann.get("/operator/differences").text


def test_an_import_is_undone_by_two_operators(operator: Operators, services: Services, clock: MovableClock) -> None:
    good = pay(services)
    work(services, clock, 2.5)
    row = mtn_row(Transaction.get_by_id(good.id))
    ann, bob = operator("ann"), operator("bob")
    path = upload(ann, csv_file([row, row])).location.removeprefix("/console")
    assert (
        "Another line of the statement matches"
        in ann.get(
            ann.get(f"{path}?format=json").json["items"][0]["difference_id"].join(("/operator/differences/", ""))
        ).text
    )
    assert "Undo the import" in ann.get(path).text
    undo = path.replace("reconciliation", "propose/statement.undo")
    assert ann.post(undo).status_code == 400
    assert ann.post(undo, reason="the file of another <b>account</b>").status_code == 303
    assert "is proposed" in bob.get(path).text
    proposals = bob.get("/operator/proposals").text
    assert "Undo the import of a statement" in proposals
    assert f'href="/console{path}"' in proposals
    confirm, digest = confirmation(proposals)
    assert bob.post(confirm, digest=digest).status_code == 303
    assert ann.get(path).status_code == 404
    assert ann.post(undo, reason="again").status_code == 404
    assert "No difference is open" in ann.get("/operator/differences").text
    assert "No statement yet" in ann.get("/operator/reconciliation").text


def test_a_bad_statement_is_refused_in_one_sentence(operator: Operators) -> None:
    ann = operator("ann")
    for content, provider, sentence in (
        (b"a,b\n1,2\n", "mtn", "heading"),
        (csv_file([["1"] * 11]), "mtn", "Row"),
        (b"x", "nobody", "There is no account"),
    ):
        refused = upload(ann, content, provider)
        assert refused.status_code == 400
        assert sentence in re.search(r'role="alert">([^<]+)<', refused.text)[1]  # type: ignore[index]
    assert "Choose a file." in ann.post("/operator/reconciliation/new", account="mtn").text
    too_large = ann.web.post("/console/operator/reconciliation/new", data=b"", content_length=200 * 1024 * 1024)
    assert too_large.status_code == 413
    missing = "019e0000-0000-7000-8000-000000000000"
    for path in (f"/operator/reconciliation/{missing}", f"/operator/differences/{missing}", "/operator/differences/x"):
        assert ann.get(path).status_code == 404


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_large_statement_goes_to_a_file(operator: Operators, services: Services, clock: MovableClock) -> None:
    paid = pay(services)
    work(services, clock, 2.5)
    row = mtn_row(Transaction.get_by_id(paid.id))
    fees = [[*row[:4], "Fee", *row[5:]] for _ in range(10_000)]
    reply = upload(operator("ann"), csv_file([row, *fees]), result="csv")
    assert reply.status_code == 200
    assert reply.text.count("\n") == 10_002


def test_a_day_is_closed_on_its_page_once_its_differences_are_ended(
    operator: Operators, visit: Visit, services: Services, clock: MovableClock
) -> None:
    paid = pay(services)
    work(services, clock, 2.5)
    paid = Transaction.get_by_id(paid.id)
    day = f"{paid.completed_at.astimezone(KAMPALA).date()}"
    ann = operator("ann")
    imported = upload(ann, csv_file([mtn_row(paid)]))
    clock.advance(86_400)
    ann = operator("bob")
    assert visit("owner").get("/operator/days").status_code == 404
    days = ann.get("/operator/days").text
    assert f'href="/console/operator/days/sandbox/{day}"' in days
    assert ("no statement covers it yet" in days, "a statement covers it" in days) == (True, False)
    assert f"{paid.completed_at.astimezone(KAMPALA).date() - timedelta(days=1)}" not in days
    refused = ann.post("/operator/days/sandbox/2020-01-01/close")
    assert (refused.status_code, "No statement covers this day" in refused.text) == (400, True)
    assert "Its statement is empty" in ann.get("/operator/days/sandbox/2020-01-01").text
    assert close_on_page(ann, "2020-01-01", is_empty="yes").status_code == 303
    assert ann.get("/operator/days/sandbox/soon").status_code == 404
    page = ann.get(f"/operator/days/sandbox/{day}").text
    assert ("new?account=sandbox" in page, "Its statement covers it" in page) == (True, True)
    assert f'href="/console/operator/days/sandbox/{day}"' in ann.get(imported.location.removeprefix("/console")).text
    assert close_on_page(ann, day).status_code == 400
    assert upload(ann, csv_file([mtn_row(paid)]), covers_from=day).status_code == 400
    proposed = upload(ann, csv_file([mtn_row(paid)]), covers_from=day, covers_to=day)
    assert proposed.location == "/console/operator/proposals"
    assert "What this statement covers is proposed" in ann.get(f"/operator/days/sandbox/{day}").text
    confirm_by(operator("cleo"), "State what a statement covers")
    assert "a statement covers it" in ann.get("/operator/days").text
    page = ann.get(f"/operator/days/sandbox/{day}").text
    assert [text in page for text in ("The bridge from our sum to theirs", "UGX 5,000", "Close the day")] == [True] * 3
    changed = ann.post(f"/operator/days/sandbox/{day}/close", shown="1 1")
    assert (changed.status_code, "The sums of the day have changed" in changed.text) == (400, True)
    assert close_on_page(ann, day).status_code == 303
    assert "by you" in ann.get("/operator/days").text
    page = ann.get(f"/operator/days/sandbox/{day}").text
    assert ("closed by you" in page, "Close the day" in page) == (True, False)


def test_the_page_of_a_day_says_what_is_open_before_it_is_closed_and_asks_once_what_covers_it(
    operator: Operators, services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid, lacking = pay(services), pay(services, "2")
    work(services, clock, 2.5)
    paid, lacking = Transaction.get_by_id(paid.id), Transaction.get_by_id(lacking.id)
    day = paid.completed_at.astimezone(KAMPALA).date()
    clock.advance(86_400)
    asked, coverage_of = list[str](), closed_days.coverage_of
    monkeypatch.setattr(closed_days, "coverage_of", lambda *day: asked.append(day[0]) or coverage_of(*day))
    ann, path = operator("ann"), f"/operator/days/sandbox/{day}"
    ann.get(path)
    assert asked == ["sandbox"]
    covered = upload(ann, csv_file([mtn_row(paid)]), covers_from=f"{day}", covers_to=f"{day}")
    assert covered.status_code == 303
    confirm_by(operator("bob"), "State what a statement covers")
    assert lacking.status == "succeeded"
    asked.clear()
    page = ann.get(path).text
    assert asked == ["sandbox"]
    assert ("1 difference is open" in page, "Close the day" in page, "UGX 5,000" in page) == (True, False, True)


def close_on_page(visitor: ConsoleVisitor, day: str, **fields: str) -> TestResponse:
    """Close a day with the sums that its page shows."""
    path = f"/operator/days/sandbox/{day}"
    shown = re.search('name="shown" value="([^"]*)"', visitor.get(path).text)
    return visitor.post(f"{path}/close", shown=shown[1] if shown else "", **fields)


FOREIGN = b"Receipt,When,What,Sum\n77001,03/04/2026 09:05,<b>Sale</b>,5000\n77002,03/04/2026 09:06,Rent,-90000\n"


def test_the_reading_of_a_file_is_shown_and_corrected_before_anything_is_stored(
    operator: Operators, services: Services
) -> None:
    ann = operator("ann")
    unknown = upload(ann, FOREIGN, "mtn", result="try")
    assert (unknown.status_code, "No row has the headings" in unknown.text) == (400, True)
    assert '<input type="hidden" name="heading-3" value="Sum">' in unknown.text
    headings = ("Receipt", "When", "What", "Sum")
    columns = {f"heading-{place}": heading for place, heading in enumerate(headings)}
    columns |= {f"known-{place}": "" for place in range(4)}
    columns |= {f"field-{place}": field for place, field in enumerate(("id", "date", "", "amount"))}
    undated = upload(ann, FOREIGN, "mtn", result="try", **columns)
    assert "is 3 April 2026 or 4 March 2026" in undated.text
    tried = upload(ann, FOREIGN, "mtn", result="try", dates="dmy", **columns)
    assert tried.status_code == 200
    for shown in ("How the file is read", "UGX 5,000", "UGX 90,000", "77002", "First lines"):
        assert shown in tried.text, shown
    assert '<option value="amount" selected>' in tried.text
    assert services.statement_layouts.list(operator_context()) == ()
    assert "No statement yet" in ann.get("/operator/reconciliation").text
    twice = upload(ann, FOREIGN, "mtn", result="try", **(columns | {"field-2": "amount"}))
    assert (twice.status_code, "one column only" in twice.text) == (400, True)

    imported = upload(ann, FOREIGN, "mtn", dates="dmy", is_confirmed="yes", **columns)
    assert imported.status_code == 303, imported.text
    (kept,) = services.statement_layouts.list(operator_context())
    assert (kept.provider, kept.columns["amount"], kept.created_by) == ("mtn", "Sum", "ann@ops.example")
    # The next file with these headings needs no correction.
    again = upload(ann, FOREIGN + b"77003,20/04/2026 10:00,Sale,7000\n", "mtn", result="try")
    assert (again.status_code, "UGX 12,000" in again.text) == (200, True)
    # A part of the page keeps the chosen file, also when the file is refused.
    form = {"csrf_token": ann.token, "account": "mtn", "file": (io.BytesIO(b"%PDF"), "day.pdf")}
    part = ann.web.post("/console/operator/reconciliation/new", data=form, headers={"HX-Request": "true"})
    assert (part.status_code, "PDF" in part.text) == (200, True)


def test_a_file_without_directions_is_read_as_the_operator_says_and_so_is_the_next_one(
    operator: Operators, services: Services
) -> None:
    ann = operator("ann")
    refused = upload(ann, RECEIPTS, "mtn", result="try")
    assert (refused.status_code, "whether the money came in or went out" in refused.text) == (400, True)
    both = upload(ann, RECEIPTS, "mtn", result="try", all_in="yes", our_number="0772000999")
    assert (both.status_code, "Either every line came in" in both.text) == (400, True)
    tried = upload(ann, RECEIPTS, "mtn", result="try", all_in="yes")
    assert (tried.status_code, "UGX 20,500" in tried.text) == (200, True)
    assert 'name="all_in" value="yes" checked' in tried.text
    assert upload(ann, PORTAL, "mtn", our_number="0772000999", is_confirmed="yes").status_code == 303
    (kept,) = services.statement_layouts.list(operator_context())
    assert (kept.our_number, kept.created_by) == ("0772000999", "ann@ops.example")
    assert upload(ann, PORTAL, "mtn", result="try").status_code == 200


def test_what_a_statement_covers_and_steps_that_nothing_explains_take_a_second_operator(
    operator: Operators, services: Services, clock: MovableClock
) -> None:
    # Around noon, a quarter of an hour before is the same day.
    clock.advance((36 - clock.now().astimezone(KAMPALA).hour) % 24 * 3600)
    paid = pay(services)
    work(services, clock, 2.5)
    paid = Transaction.get_by_id(paid.id)
    day = paid.completed_at.astimezone(KAMPALA).date()
    ann = operator("ann")
    # Dates that are off by whole or half hours would be those of another zone.
    dated = kampala(paid.completed_at - timedelta(days=1, minutes=15))
    made = upload(ann, csv_file([mtn_row(paid, Date=dated)]), is_confirmed="yes")
    clock.advance(86_400)
    ann, bob, page = operator("cleo"), operator("bob"), made.location.removeprefix("/console")
    cover = page.replace("reconciliation", "propose/statement.cover")
    for days in ({}, {"covers_from": f"{day}"}, {"covers_from": f"{day}", "covers_to": "2020-01-01"}):
        assert ann.post(cover, reason="seen there", **days).status_code == 400
    stated = {"covers_from": f"{day - timedelta(days=1)}", "covers_to": f"{day}", "reason": "seen there"}
    assert ann.post(cover, **stated).status_code == 303
    assert "What this statement covers is proposed" in ann.get(page).text
    confirm_by(bob, "State what a statement covers")
    path = f"/operator/days/sandbox/{day}"
    assert "Propose to close it" in ann.get(path).text
    alone = ann.post(f"{path}/close", shown="500000 0")
    assert (alone.status_code, "takes two operators: other_day UGX 5,000" in alone.text) == (400, True)
    assert ann.post("/operator/days/sandbox/soon/propose", reason="x").status_code == 404
    assert ann.get("/operator/days/sandbox/%20").status_code == 404
    proposed = ann.post(f"{path}/propose", reason="dated by their clock")
    assert proposed.status_code == 303
    assert "closed: ours UGX 5,000, theirs UGX 0; other_day UGX 5,000" in bob.get("/operator/proposals").text
    confirm_by(bob, "Close a day")
    assert "closed by you, bob@" in ann.get(path).text


def confirm_by(visitor: ConsoleVisitor, title: str) -> None:
    """Confirm the open proposal that another operator made."""
    page = visitor.get("/operator/proposals").text
    assert title in page
    path, digest = confirmation(page)
    assert visitor.post(path, digest=digest).status_code == 303
