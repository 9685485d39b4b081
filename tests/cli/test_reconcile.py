"""`ussd-server reconcile`: what it prints and writes, and its exit status."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import MTN, csv_file, kampala, mtn_row, with_balances
from tests.support.money import a_client, request, work
from ussd_server.bootstrap import Services
from ussd_server.cli import main
from ussd_server.models.transactions import Transaction
from ussd_server.values import KAMPALA

Run = Callable[..., Result]


@pytest.fixture
def run(services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    settings = services.settings
    monkeypatch.setenv("USSD_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("USSD_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("USSD_REDIS_URL", settings.redis_url)
    return lambda *arguments: CliRunner().invoke(main, [str(each) for each in arguments])


def three_payments(services: Services, clock: MovableClock) -> list[Transaction]:
    call = a_client()
    made = []
    for number in range(3):
        reference = f"order {number}"
        view = services.transactions.create(request(reference=reference, number="+256770000000"), call)
        work(services, clock, 2)
        made.append(Transaction.get_by_id(view.transaction.transaction_id))
    return made


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_day_is_closed_at_the_command_line(
    run: Run, services: Services, clock: MovableClock, tmp_path: Path
) -> None:
    first, second, third = three_payments(services, clock)
    file, out, headings = tmp_path / "day.csv", tmp_path / "result.csv", tmp_path / "headings.csv"
    lines = [mtn_row(first), mtn_row(second, Amount="4,000.50"), mtn_row(third, Id="=1+1", **{"External id": ""})]
    file.write_bytes(csv_file(lines))
    refused = run("reconcile", "SANDBOX", file, "--json", "--csv", out)
    assert (refused.exit_code, out.exists()) == (2, False)
    assert json.loads(refused.output)["error"] == (
        "day.csv looks like the wrong file: 3 differences in 3 lines. "
        "Nothing was stored; --dry-run shows them, --yes stores them."
    )
    assert run("reconcile", "review", "list").output == "No difference waits for a review.\n"
    result = run("reconcile", "sandbox", file, "--json", "--csv", out, "--yes")
    assert result.exit_code == 1, result.output
    document = json.loads(result.output)
    assert list(document) == ["statement_id", "lines", "differences", "sums", "balance"]
    assert document["lines"] == {"matched": 1, "amount_differs": 1, "not_ours": 1, "not_theirs": 1}
    assert document["sums"] == {"ours": 15000, "theirs": 14000.5, "difference": 999.5}
    names = {"provider_id": second.provider_transaction_id, "reference": second.provider_reference}
    assert document["differences"][0] == {
        "line": 5, "verdict": "amount_differs", **names, "transaction_id": second.id, "ours": 5000, "theirs": 4000.5,
    }  # fmt: skip
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert [each["verdict"] for each in rows] == ["matched", "amount_differs", "not_ours", "not_theirs"]
    assert list(rows[0]) == list(document["differences"][0])
    assert rows[2]["provider_id"] == "'=1+1", "a program that opens the file must not evaluate it"

    listed = json.loads(run("reconcile", "review", "list", "--json").output)["items"]
    assert [each["verdict"] for each in listed] == ["not_theirs"], "what lines moved is held, without a review"
    for each in listed:
        ended = run("reconcile", "review", "end", each["difference_id"], "--reason", "explained", "--by", "Jane")
        assert ended.exit_code == 0, ended.output
    assert run("reconcile", "review", "list").output == "No difference waits for a review.\n"
    assert run("reconcile", "review", "end", listed[0]["difference_id"], "--reason", "again").exit_code == 1
    refused = run(
        "reconcile", "review", "conclude", listed[0]["difference_id"], "--reason", "x", "--by", "A", "--and", "B"
    )
    assert (refused.exit_code, refused.output) == (1, "Error: Only a success of the provider concludes a payment\n")
    assert "imported before" in run("reconcile", "sandbox", file).output

    out.unlink()
    whole = csv_file([mtn_row(each) for each in (first, second, third)], ["Number", *MTN[1:]])
    file.write_bytes(whole.replace(b"Successful", b"Perhaps"))
    refused = run("reconcile", "sandbox", file, "--csv", out)
    assert refused.exit_code == 2
    assert refused.output == "Error: day.csv: Row 4, column D: the status 'Perhaps' is not known.\n"
    assert [path.name for path in tmp_path.glob("*result*")] == []
    headings.write_text("provider,part,text,meaning\nsandbox,status,Perhaps,succeeded\nsandbox,heading,Number,id\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("USSD_STATEMENT_HEADINGS", str(headings))
        agreed = run("reconcile", "sandbox", file)
        assert (agreed.exit_code, agreed.output.splitlines()[0][-9:]) == (0, "3 matched")
        headings.write_text("provider,part,text,meaning\nsandbox,status,Perhaps,maybe\n", "utf-8")
        wrong = run("reconcile", "sandbox", file)
        assert wrong.exit_code == 1
        assert "USSD_STATEMENT_HEADINGS: gives a status the meaning 'maybe'" in wrong.output

    assert run("reconcile", "nobody", file).exit_code == 2
    assert run("reconcile", "sandbox", tmp_path / "missing.csv").exit_code == 2
    assert "ACCOUNT FILE" in run("reconcile", "--help").output


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_results_never_take_the_place_of_the_statement_or_of_a_device(run: Run, tmp_path: Path) -> None:
    file, pipe = tmp_path / "day.csv", tmp_path / "pipe"
    content = csv_file([["1", "", "2026-11-20 14:03:12", "Successful", "Payment", "", "", "5,000", "UGX", "", ""]])
    file.write_bytes(content)
    (tmp_path / "same.csv").symlink_to(file)
    for place in (file, tmp_path / "same.csv"):
        refused = run("reconcile", "sandbox", file, "--csv", place)
        assert (refused.exit_code, "name another file for --csv" in refused.output) == (2, True), refused.output
    assert file.read_bytes() == content
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert run("reconcile", "sandbox", file, "--csv", pipe, "--yes").exit_code == 1
    assert b"not_ours" in os.read(reader, 4096)
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_dry_run_stores_nothing_and_an_import_is_undone_by_two(
    run: Run, services: Services, clock: MovableClock, tmp_path: Path
) -> None:
    first, second, third = three_payments(services, clock)
    file = tmp_path / "day.csv"
    file.write_bytes(csv_file([mtn_row(first), mtn_row(second, Status="Failed"), mtn_row(third)]))
    dry = run("reconcile", "sandbox", file, "--dry-run", "--json")
    assert (dry.exit_code, json.loads(dry.output)["statement_id"]) == (1, None)
    assert "dry run; nothing was stored" in run("reconcile", "sandbox", file, "--dry-run").output
    assert run("reconcile", "review", "list").output == "No difference waits for a review.\n"

    stored = run("reconcile", "sandbox", file, "--json")
    document = json.loads(stored.output)
    statement_id = document.pop("statement_id")
    assert stored.exit_code == 1
    assert document == {key: value for key, value in json.loads(dry.output).items() if key != "statement_id"}
    assert json.loads(run("reconcile", "sandbox", file, "--json", "--dry-run").output)["statement_id"] == statement_id

    alone = run("reconcile", "undo", statement_id, "--by", "Ann", "--and", "ann")
    assert (alone.exit_code, "Two different people" in alone.output) == (1, True)
    undone = run("reconcile", "undo", statement_id, "--by", "Ann", "--and", "Ben", "--json")
    assert (undone.exit_code, json.loads(undone.output)["removed"]) == (0, True)
    assert run("reconcile", "review", "list").output == "No difference waits for a review.\n"
    assert run("reconcile", "undo", statement_id, "--by", "Ann", "--and", "Ben").exit_code == 1

    again = json.loads(run("reconcile", "sandbox", file, "--json").output)["statement_id"]
    assert again not in (None, statement_id)
    (listed,) = json.loads(run("reconcile", "review", "list", "--json").output)["items"]
    assert run("reconcile", "review", "end", listed["difference_id"], "--reason", "known").exit_code == 0
    refused = run("reconcile", "undo", again, "--by", "Ann", "--and", "Ben")
    assert refused.exit_code == 1
    assert refused.output == "Error: The import stays: the review of one of its differences has ended\n"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_more_than_fifty_differences_are_shown_on_request(run: Run, services: Services, tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    line = ["", "", "2026-11-20 14:03:12", "Failed", "Payment", "", "", "5,000", "UGX", "", ""]
    file.write_bytes(csv_file([[str(number), *line[1:]] for number in range(60)]))
    capped = run("reconcile", "sandbox", file, "--yes").output.splitlines()
    assert sum("not_ours:" in each for each in capped) == 50
    assert capped[50] == "and 10 more differences; --all shows them"
    everything = run("reconcile", "sandbox", file, "--all").output
    assert everything.count("not_ours:") == 60
    assert len(json.loads(run("reconcile", "sandbox", file, "--json").output)["differences"]) == 60
    assert run("reconcile", "review", "list").output.count("not_ours:") == 50
    assert run("reconcile", "review", "list", "--all").output.count("not_ours:") == 60


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_layout_is_shown_kept_used_and_removed_at_the_command_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("Receipt,When,What,Sum\n77001,03/04/2026 09:05,Sale,5000\n77002,03/04/2026 09:06,Rent,-90000\n")
    columns = ["--column", "id=Receipt", "--column", "date=When", "--column", "amount=Sum"]
    shown = run("reconcile", "layout", "mtn", file, "--json")
    assert shown.exit_code == 2
    assert [each["field"] for each in json.loads(shown.stdout)["columns"]] == [None] * 4
    refusal = json.loads(shown.stderr)
    assert (refusal["exit_status"], "day.csv: No row has the headings" in refusal["error"]) == (2, True)
    assert "two readings" not in shown.output
    asked = json.loads(run("reconcile", "layout", "mtn", file, *columns, "--json").stdout)
    assert "is 3 April 2026 or 4 March 2026" in asked["problem"]
    said = run("reconcile", "layout", "mtn", file, *columns, "--dates", "dmy", "--json")
    assert said.exit_code == 0, said.output
    document = json.loads(said.output)
    assert list(document) == ["provider", "columns", "lines", "sums", "period", "balance", "problem"]
    assert document["lines"][1] == {
        "line": 3, "id": "77002", "at": "2026-04-03T06:06:00.000Z", "amount": -90000, "kind": "out",
        "status": "succeeded",
    }  # fmt: skip
    assert (document["sums"], document["balance"]) == ({"in": 5000, "out": 90000}, None)
    assert document["period"] == {"from": "2026-04-03T06:05:00.000Z", "to": "2026-04-03T06:07:00.000Z"}
    assert document["columns"][0] == {"heading": "Receipt", "field": "id", "how": "said"}

    kept = run("reconcile", "layouts", "add", "mtn", file, *columns, "--by", "Ann", "--json")
    assert kept.exit_code == 0, kept.output
    assert "id='Receipt'" in run("reconcile", "layouts", "list").output
    assert "in UGX 5,000, out UGX 90,000" in run("reconcile", "layout", file, "--dates", "dmy").output
    tried = run("reconcile", "mtn", file, "--dates", "dmy", "--dry-run", "--json")
    assert json.loads(tried.output)["sums"]["theirs"] == -85000
    assert run("reconcile", "mtn", file, "--dry-run").exit_code == 2
    removed = run("reconcile", "layouts", "remove", json.loads(kept.output)["layout_id"], "--by", "Ann")
    assert removed.exit_code == 0, removed.output
    assert run("reconcile", "layouts", "list").output == "No layout is kept.\n"
    assert run("reconcile", "layout", "mtn", file, "--column", "id").exit_code == 2
    assert run("reconcile", "layout").exit_code == 2


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_money_of_each_direction_is_held(run: Run) -> None:
    file = Path(__file__).parents[1] / "services" / "reconciliation" / "reading" / "files" / "mtn_signed.csv"
    imported = run("reconcile", "mtn", file, "--yes", "--json")
    assert [each["theirs"] for each in json.loads(imported.output)["differences"]] == [5000, 30000, 4000, -90000]
    assert json.loads(run("reconcile", "review", "list", "--json").output)["items"] == []
    held = json.loads(run("movements", "list", "--held", "--json").output)["items"]
    assert [(each["direction"], each["amount"], each["line"]["line"]) for each in held] == [
        ("out", 90000, 5),
        ("in", 4000, 4),
        ("in", 30000, 3),
        ("in", 5000, 2),
    ]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_statement_whose_balance_breaks_needs_a_yes(
    run: Run, services: Services, clock: MovableClock, tmp_path: Path
) -> None:
    rows = with_balances([mtn_row(each) for each in three_payments(services, clock)])
    file = tmp_path / "day.csv"
    file.write_bytes(csv_file(rows))
    assert json.loads(run("reconcile", "sandbox", file, "--dry-run", "--json").output)["balance"] is None
    file.write_bytes(csv_file([rows[0], rows[2]]))
    dry = run("reconcile", "sandbox", file, "--dry-run", "--json")
    assert json.loads(dry.output)["balance"] == {"line": 5, "expected": 1_010_000, "found": 1_015_000}
    assert dry.exit_code == 1, "the payment that the file lacks is a difference"
    refused = run("reconcile", "sandbox", file)
    assert refused.exit_code == 2
    assert "running balance of line 5 is UGX 1,015,000, and UGX 1,010,000 would follow" in refused.output
    assert "line 5  balance UGX 1,015,000" in run("reconcile", "sandbox", file, "--yes").output
    file.write_bytes(csv_file([[*rows[0][:-1], "many"]]))
    assert run("reconcile", "sandbox", file, "--dry-run").exit_code == 2


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_day_is_closed_with_what_two_state_and_with_a_second_name_where_it_takes_one(
    run: Run, services: Services, clock: MovableClock, tmp_path: Path
) -> None:
    # The command's clock is the machine's.
    clock.advance(-2 * 86_400)
    first, second, third = three_payments(services, clock)
    file = tmp_path / "day.csv"
    file.write_bytes(csv_file([mtn_row(first), mtn_row(second, Date=kampala(clock.now() - timedelta(days=1)))]))
    day = first.completed_at.astimezone(KAMPALA).date()
    assert run("reconcile", "sandbox", file).exit_code == 0
    close = ("day", "close", day, "sandbox", "--by", "Ann")
    refused = run(*close)
    assert (refused.exit_code, "No statement covers this day" in refused.output) == (1, True)
    covers = ("reconcile", "sandbox", file, "--covers", f"{day}..{day}")
    assert (run(*covers).exit_code, run(*covers, "--by", "Ann").exit_code) == (2, 2)
    assert run("reconcile", "sandbox", file, "--by", "Ann", "--and", "Ben").exit_code == 2
    assert run("reconcile", "sandbox", file, "--covers", f"{day}", "--by", "Ann", "--and", "Ben").exit_code == 2
    alone = run(*covers, "--by", "Ann", "--and", "ann")
    assert (alone.exit_code, "Two different people" in alone.output) == (2, True)
    assert run(*covers, "--by", "Ann", "--and", "Ben").exit_code == 1
    (lacking,) = json.loads(run("reconcile", "review", "list", "--json").output)["items"]
    assert (lacking["verdict"], lacking["transaction_id"]) == ("not_theirs", third.id)
    assert "1 of its differences is open" in run(*close).output
    run("reconcile", "review", "end", lacking["difference_id"], "--reason", "asked them", "--by", "Ann")
    refused = run(*close)
    assert (refused.exit_code, refused.output) == (1, "Error: This bridge takes two operators: other_day UGX 5,000\n")
    closed = json.loads(run(*close, "--and", "Ben", "--json").output)
    assert (closed["provider"], closed["closed_by"], closed["confirmed_by"]) == ("sandbox", "Ann", "Ben")
    assert closed["bridge"] == [
        {"verdict": "matched", "count": 1, "amount": 0, "late_for": None},
        {"verdict": "not_theirs", "count": 1, "amount": 5000, "late_for": None},
        {"verdict": "other_day", "count": 1, "amount": 5000, "late_for": None},
    ]
    assert run("check").exit_code == 0
