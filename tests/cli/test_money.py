"""`accounts`, `transactions`, `payouts` and `callbacks`: the operator's commands for money."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import output_of, run
from tests.services.payouts.desk import row
from tests.support.money import call_with_key, deposit, request
from ussd_server.cli import open_services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction
from ussd_server.services.bank.messages import StateBankAccount
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.processing.outcomes import open_review
from ussd_server.services.transactions.messages import TransactionType


@pytest.fixture
def silent(client_id: str) -> str:
    """A disbursement that went to review."""
    output_of("accounts", "credit", "--client", "ACME", "--amount", "5000", "--reference", "r")
    with open_services() as services:
        context = RequestContext(Caller(CallerKind.KEY, client_id=client_id, grants=None))
        made = services.transactions.create(
            request("disbursement", "+256770000007"), context
        ).transaction.transaction_id
        for claimed in services.processing.claim(1):
            services.processing.advance(claimed)
        row = Transaction.get_by_id(made)
        open_review(row, "nobody could confirm the outcome in time", services.clock.now())
        row.save()
    return made


def test_production_pays_out_nothing_that_the_sandbox_made_up(
    client_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_services() as services:
        context = RequestContext(Caller(CallerKind.KEY, client_id=client_id, grants=None))
        services.transactions.create(request("collection"), context)
        for claimed in services.processing.claim(1):
            services.processing.advance(claimed)
    monkeypatch.setenv("USSD_ENV", "production")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "secrets.json"))
    ended = run("worker")
    assert (ended.exit_code, "The database holds money that the sandbox" in ended.output) == (
        1,
        True,
    )


def test_production_pays_out_nothing_that_an_operator_of_the_sandbox_credited(
    client_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credited = output_of("accounts", "credit", "--client", "ACME", "--amount", "5000", "--reference", "r")
    output_of(
        "accounts",
        "credit",
        "--undo",
        credited["transaction"]["transaction_id"],
        "--reason",
        "Tried",
        "--by",
        "Ann",
        "--and",
        "Ben",
    )
    monkeypatch.setenv("USSD_ENV", "production")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "secrets.json"))
    ended = run("worker")
    assert (ended.exit_code, "The database holds money that the sandbox" in ended.output) == (1, True)


def test_what_the_bank_has_paid_is_recorded_once(client_id: str, tmp_path: Path) -> None:
    output_of("accounts", "credit", "--client", "ACME", "--amount", "5000", "--reference", "r")
    output_of("users", "create", "--client", "ACME", "--email", "owner@acme.example", "--role", "owner")
    with open_services() as services:
        owner = services.clients.find_user("owner@acme.example", operator_context()).user_id
        context = RequestContext(Caller(CallerKind.TOKEN, client_id=client_id, user_id=owner))
        services.bank_accounts.state(StateBankAccount("Stanbic", "9030", "ACME Ltd"), context)
    assert "NOT CONFIRMED" in run("settlements", "accounts").output
    assert output_of("settlements", "propose") == {"items": []}
    output_of("settlements", "confirm", "ACME", "9030", "--by", "Mary Akello")
    terms = output_of("settlements", "set", "ACME", "--keep", "1000")
    assert (terms["keep"], terms["minimum"], terms["confirmed_by"]) == (1000, None, "Mary Akello")
    file = tmp_path / "due.csv"
    assert [each["amount"] for each in output_of("settlements", "propose")["items"]] == [4000]
    proposing = ("settlements", "propose", "--csv", file)
    assert "--csv needs --by" in run(*proposing).output
    (proposed,) = output_of(*proposing, "--by", "Mary Akello")["items"]
    assert [(each["by"], each["and"]) for each in output_of("settlements", "list")["items"]] == [("Mary Akello", None)]
    assert proposed["settlement_id"] in file.read_text()
    assert "exists" in run(*proposing, "--by", "Mary Akello").output
    output_of("settlements", "waiting", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == file.read_text()
    file.write_text(file.read_text().replace("UGX,", "UGX,FT9"))
    recording = ("settlements", "record", file, "--by", "Mary Akello", "--and", "John Okot")
    assert "1 recorded, UGX 4,000; 0 had been recorded before." in run(*recording).output
    assert [each["replayed"] for each in output_of(*recording)["items"]] == [True]
    listed = [(each["bank_reference"], each["by"], each["and"]) for each in output_of("settlements", "list")["items"]]
    assert listed == [("FT9", "Mary Akello", "John Okot")]
    assert "FT9  by Mary Akello and John Okot" in run("settlements", "list").stdout
    ending = (proposed["settlement_id"], "--by", "Mary Akello", "--and", "John Okot")
    assert "has paid the settlement" in run("settlements", "cancel", *ending).output
    assert output_of("settlements", "returned", *ending)["status"] == "reversed"


def test_a_lost_payment_is_listed_and_booked_once(client_id: str, tmp_path: Path) -> None:
    with open_services() as services:
        name = services.runtime.references.of_reference(client_id, TransactionType.COLLECTION, "R1")
    statement, lost = tmp_path / "statement.csv", tmp_path / "lost.csv"
    headings = "Id,External id,Date,Status,Type,From,To,Amount,Currency,Fee,Balance"
    payment = f"S-1,{name},2026-11-20 17:00:00,Successful,Payment,FRI:256770000000/MSISDN,FRI:41000001/MM,5000,UGX,0,0"
    statement.write_text(f"{headings}\n{payment}\n")
    command = ("recover", "--since", "2026-11-20T13:00:00Z", "--statement", f"sandbox={statement}")
    assert [each["provider_id"] for each in output_of(*command, "--csv", lost)["items"]] == ["S-1"]
    lost.write_text(lost.read_text().replace("+256770000000,,", "+256770000000,ACME,R1"))
    booking = (*command, "--book", lost, "--by", "Mary Akello", "--and", "John Okot")
    assert "1 booked, UGX 5,000; 0 had been booked before." in run(*booking).output
    assert "0 booked, UGX 0; 1 had been booked before." in run(*booking).output
    assert "No payment was lost." in run(*command).output
    assert run(*command, "--book", lost).exit_code == 2
    refused = run(*command, "--by", "Mary Akello", "--and", "John Okot")
    assert (refused.exit_code, "nothing was booked" in refused.output) == (2, True)


def test_a_deposit_is_credited_once(client_id: str) -> None:
    deposit = ("accounts", "credit", "--client", "ACME", "--amount", "50000.50", "--reference", "slip 1")
    made = output_of(*deposit)["transaction"]
    assert (made["amount"], made["fee"], made["refunded_amount"], "amount_cents" in made) == (50_000.5, 0, 0, False)
    (entry,) = output_of("transactions", "show", "slip 1")["transaction"]["events"][-1]["ledger"][1:]
    assert (entry["account"], entry["amount"]) == ("main", 50_000.5)
    assert "had been credited before" in run(*deposit).output
    with open_services():
        (event,) = AuditEvent.select().where(AuditEvent.action == "transaction.deposited")
    assert (event.client_id, event.object_id, event.amount_cents) == (client_id, made["transaction_id"], 5_000_050)
    kept = {each["account"]: each["current"] for each in output_of("accounts", "list", "--client", client_id)["items"]}
    assert kept == {"deposits": -50_000.5, "main": 50_000.5}
    assert "−UGX 50,000.50" in run("accounts", "list", "--client", "ACME").output


@pytest.mark.parametrize("amount", ["0", "-5", "1.001", "x", "1e3", "٣", ""])
def test_an_amount_that_is_none_is_refused(client_id: str, amount: str) -> None:
    assert run("accounts", "credit", "--client", "ACME", f"--amount={amount}", "--reference", "r").exit_code == 2


@pytest.mark.parametrize("reference", ["", " ", "r" * 65, "slip\t1", "slip\u202e1"])
def test_a_deposit_needs_a_reference_that_people_can_read(client_id: str, reference: str) -> None:
    deposit = ("accounts", "credit", "--client", "ACME", "--amount", "5")
    refused = run(*deposit, "--reference", reference)
    assert (refused.exit_code, "A reference is needed, of at most 64" in refused.output) == (1, True), refused.output
    assert "A description has at most 200" in run(*deposit, "--reference", "r", "--description", "d" * 201).output
    assert output_of("accounts", "list", "--client", "ACME") == {"items": []}


def test_a_stranger_is_credited_nothing(client_id: str) -> None:
    assert run("accounts", "credit", "--client", "Nobody", "--amount", "5", "--reference", "r").exit_code == 1


def test_a_review_is_listed_settled_and_gone(silent: str) -> None:
    assert [item["transaction"]["transaction_id"] for item in output_of("transactions", "review")["items"]] == [silent]
    said = run("transactions", "review").output
    assert silent in said
    assert "the provider's statement" in said
    assert "--settle ID --as succeeded|failed" in said
    settle = ("transactions", "review", "--settle", silent, "--as", "failed", "--reason", "their statement")
    assert run(*settle, "--by", "Jane Doe").exit_code == 1
    result = run(*settle, "--by", "Jane Doe", "--and", "Mary Roe")
    assert result.exit_code == 0
    assert "their statement (Jane Doe, Mary Roe)" in result.output
    assert output_of("transactions", "review") == {"items": []}
    shown = output_of("transactions", "show", silent)
    assert (shown["transaction"]["status"], shown["transaction"]["events"][-1]["source"]) == ("failed", "operator")
    assert output_of("check", "--full")["ok"]


@pytest.mark.parametrize(
    "words", [("--settle", "x"), ("--as", "failed"), ("--settle", "x", "--close", "y", "--as", "failed")]
)
def test_half_a_settlement_is_a_usage_error(client_id: str, words: tuple[str, ...]) -> None:
    assert run("transactions", "review", *words).exit_code == 2


def test_what_is_not_there_is_refused_in_one_sentence(client_id: str) -> None:
    result = run("transactions", "show", "x")
    assert (result.exit_code, result.output) == (1, "Error: Transaction not found\n")


def test_callbacks_without_the_settings_of_the_service_say_where_these_are(client_id: str) -> None:
    result = run("callbacks")
    assert result.exit_code == 0
    assert "In the settings of this shell, no provider is switched on." in result.output
    assert "`ussd callbacks`" in result.output


def test_the_callback_addresses_of_enabled_providers_are_printed(
    client_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert output_of("callbacks") == {"items": []}
    monkeypatch.setenv("USSD_AIRTEL_BASE_URL", "https://openapi.airtel.ug")
    monkeypatch.setenv("USSD_AIRTEL_CLIENT_ID", "id")
    assert run("callbacks").exit_code == 1, "a company half set up is refused"
    monkeypatch.setenv("USSD_AIRTEL_CLIENT_SECRET", "secret")
    monkeypatch.setenv("USSD_PUBLIC_URL", "https://api.example.com/")
    (airtel,) = output_of("callbacks")["items"]
    assert airtel["url"] == f"https://api.example.com{airtel['path']}"
    assert output_of("callbacks") == {"items": [airtel]}


def test_two_operators_refund_a_collection_once(client_id: str) -> None:
    with open_services() as services:
        context = RequestContext(Caller(CallerKind.KEY, client_id=client_id, grants=None))
        made = services.transactions.create(request(reference="order 7"), context).transaction
        for claimed in services.processing.claim(1):
            services.processing.advance(claimed)
    refund = ("transactions", "refund", made.transaction_id, "--amount", "1500", "--reason", "paid twice")
    assert "Two different people" in run(*refund, "--by", "Jane", "--and", " jane ").output
    created = output_of(*refund, "--by", "Jane", "--and", "Mary")["transaction"]
    assert (created["type"], created["amount"], created["refund_of"]) == ("refund", 1500, made.transaction_id)
    assert created["metadata"] == {"reason": "paid twice", "refunded_by": ["Jane", "Mary"]}
    again = run(*refund, "--by", "Jane", "--and", "Mary")
    assert again.exit_code == 1
    assert f"this refund was made before, by transaction {created['transaction_id']}" in again.output
    assert "give its number: 2" in again.output
    assert "had been accepted before" in run(*refund, "--by", "Jane", "--and", "Mary", "--number", "1").output
    assert run(*refund, "--by", "Jane", "--and", "Mary", "--reference", "again", "--amount", "3501").exit_code == 1
    assert (
        "A reference is needed, of at most 64"
        in run(*refund, "--by", "Jane", "--and", "Mary", "--reference", "r" * 65).output
    )
    with open_services():
        audit = AuditEvent.get(AuditEvent.action == "transaction.refunded")
    assert (audit.client_id, audit.object_id, audit.actor) == (client_id, made.transaction_id, "operator")
    shown = output_of("transactions", "show", "order 7", "--client", "ACME")["transaction"]
    assert (shown["transaction_id"], shown["refunded_amount"]) == (made.transaction_id, 1500)
    assert "UGX 1,500 of it was refunded or is being refunded" in run("transactions", "show", "order 7").output


def test_a_reference_of_several_clients_needs_the_client(client_id: str) -> None:
    output_of("clients", "create", "Other")
    for client in ("ACME", "Other"):
        output_of("accounts", "credit", "--client", client, "--amount", "5", "--reference", "slip")
    refused = run("transactions", "show", "slip")
    assert refused.exit_code == 1
    assert "Several transactions have this reference" in refused.output
    assert output_of("transactions", "show", "slip", "--client", "ACME")["client_id"] == client_id
    assert run("transactions", "show", "missing").exit_code == 1


def test_a_payment_is_found_by_the_number_of_a_caller(client_id: str, silent: str) -> None:
    (hit,) = output_of("find", "0770000007")["items"]
    assert list(hit) == ["kind", "id", "client", "title", "sentence", "created_at", "possible_double"]
    assert (hit["kind"], hit["id"], hit["client"]) == ("transaction", silent, "ACME")
    assert hit["sentence"] in run("find", "+256770000007").output
    assert "Nothing was found" in run("find", "0770000008").output
    assert run("find", "07").exit_code == 2


def test_a_provider_is_switched_off_and_on_with_a_reason(client_id: str) -> None:
    (shown,) = output_of("providers")["items"]
    assert list(shown) == [
        "provider", "name", "status", "collections", "disbursements", "success_rate", "median_seconds", "since",
        "message", "connection", "account", "client", "float_amount", "float_at", "last_error", "last_error_at",
        "waiting_elsewhere",
    ]  # fmt: skip
    assert output_of("providers", "off", "sandbox", "--reason", "maintenance")["status"] == "switched_off"
    assert "Switched off by the operator: maintenance." in run("providers").output
    assert output_of("providers", "on", "sandbox", "--reason", "done")["status"] == "available"
    refused = run("providers", "off", "mpesa", "--reason", "x")
    assert (refused.exit_code, "Must be one of: sandbox." in refused.output) == (1, True)


def test_a_statement_and_a_daily_report_are_printed_as_text_json_and_csv(client_id: str) -> None:
    for number in range(2):
        output_of("accounts", "credit", "--client", "ACME", "--amount", "1000.50", "--reference", f"=slip {number}")
    shown = output_of("accounts", "statement", "ACME")
    assert (shown["opening_balance"], shown["closing_balance"]) == (0, 2001)
    assert [(line["credit"], line["balance"]) for line in shown["items"]] == [(1000.5, 1000.5), (1000.5, 2001)]
    assert "Closing balance UGX 2,001" in run("accounts", "statement", client_id).output
    lines = run("accounts", "statement", "ACME", "--csv").output.splitlines()
    assert lines[0] == "at,kind,transaction_id,reference,description,debit,credit,balance"
    assert lines[2].endswith(",'=slip 1,,,1000.5,2001")
    assert output_of("accounts", "statement", "ACME", "--from", "2020-01-01", "--to", "2020-02-01")["items"] == []
    assert run("accounts", "statement", "ACME", "--from", "yesterday").exit_code == 2
    (row,) = output_of("report", "daily")["rows"]
    assert (row["type"], row["status"], row["count"], row["amount"]) == ("deposit", "succeeded", 2, 2001)
    assert output_of("report", "daily", "--client", "ACME", "--date", "2020-01-01")["rows"] == []
    assert "UGX 2,001" in run("report", "daily").output
    assert "deposit,,succeeded,2,2001,0,0.0" in run("report", "daily", "--csv").output


def test_an_operator_lists_shows_finds_and_cancels_a_payout(client_id: str) -> None:
    with open_services() as services:
        client = RequestContext(Caller(CallerKind.KEY, client_id=client_id))
        maker, approver = (call_with_key(services, client, "payouts:*") for _ in range(2))
        deposit(services, maker, 10_000)
        made = services.payouts.create(CreatePayout("Pay 1", items=(row("a"), row("b"), row("c", "1"))), maker)
        payout_id = made.payout.payout_id
        services.payouts.approve(ApprovePayout(payout_id), approver)
    named = (payout_id, "--client", "ACME")
    assert [each["payout_id"] for each in output_of("payouts", "list", "--client", "ACME")["items"]] == [payout_id]
    assert output_of("payouts", "list", "--client", "ACME", "--status", "draft") == {"items": []}
    shown = run("payouts", "show", *named).output
    assert [words in shown for words in ("approved", "queued        2 rows", "invalid        1 row")] == [True] * 3
    (hit,) = output_of("find", "Pay 1")["items"]
    assert (hit["kind"], hit["id"], hit["client"]) == ("payout", payout_id, "ACME")
    assert hit["title"] == "Payout Pay 1: 3 rows, UGX 2,000, approved"
    assert hit["sentence"] == "Rows by state: 1 invalid, 2 queued."
    assert output_of("payouts", "cancel", *named)["status"] == "cancelled"
    assert output_of("payouts", "cancel", *named)["states"]["cancelled"]["count"] == 2
    with open_services():
        audited = [
            (event.action, event.actor)
            for event in AuditEvent.select().order_by(AuditEvent.id)
            if event.object_id == payout_id
        ]
    assert audited == [("payout.created", "key"), ("payout.approved", "key"), ("payout.cancelled", "operator")]
    assert run("payouts", "show", client_id, "--client", "ACME").exit_code == 1


def test_operators_make_a_payout_of_a_file_and_two_of_them_approve_it(client_id: str, tmp_path: Path) -> None:
    output_of("accounts", "credit", "--client", "ACME", "--amount", "UGX 10,000", "--reference", "r")
    file = tmp_path / "salaries.csv"
    file.write_text("phone_number,amount,reference\n0770000000,1000,a\n0770000000,x,b\n")
    create = ("payouts", "create", file, "--client", "ACME", "--reference", "Pay 2")
    later = datetime.now(UTC) + timedelta(days=9)
    dated = (*create[:-1], "Pay 3", "--by", "Ann", "--send-at", f"{later:%Y-%m-%dT%H:%M:%SZ}")
    assert output_of(*dated)["send_at"] == f"{later:%Y-%m-%dT%H:%M:%S}.000Z"
    assert f"sent from {later:%Y-%m-%d %H:%M} UTC" in run(*dated).output
    drafted = output_of(*create, "--by", "Ann")
    assert (drafted["status"], drafted["ready_count"], drafted["total_amount"]) == ("draft", 1, 1000)
    assert "Row 3: amount: " in run(*create, "--by", "Ann").output
    approve = ("payouts", "approve", drafted["payout_id"], "--client", "ACME", "--by")
    assert "Two different people" in run(*approve, "Ann", "--and", "ann").output
    approved = output_of(*approve, "Ben", "--and", "Ann")
    assert (approved["status"], approved["created_by"] == approved["approved_by"]) == ("approved", False)
    assert output_of(*approve, "Ann", "--and", "Ben")["approved_at"] == approved["approved_at"]
    with open_services():
        audited = [
            (event.action, event.actor, event.operator)
            for event in AuditEvent.select().order_by(AuditEvent.id)
            if event.object_id == drafted["payout_id"]
        ]
    assert audited == [("payout.created", "operator", "Ann"), ("payout.approved", "operator", "Ann and Ben")]
    file.write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    assert "has more than 2,097,152 bytes" in run(*create, "--by", "Ann").output


def test_what_happened_with_a_number_is_shown_of_all_clients_or_of_one(client_id: str) -> None:
    run("clients", "create", "Other")
    for client in ("ACME", "Other"):
        output_of("accounts", "credit", "--client", client, "--amount", "5000", "--reference", "r")
        with open_services() as services:
            owner = operator_context(services.clients.find(client, operator_context()).client_id)
            call = call_with_key(services, owner)
            services.transactions.create(request("disbursement", "+256770000007"), call)
    of_all = output_of("subscribers", "show", "0770000007")["items"]
    assert [(each["client"], each["amount"]) for each in of_all] == [("Other", 5000), ("ACME", 5000)]
    of_one = output_of("subscribers", "show", "+256770000007", "--client", "ACME")["items"]
    assert [each["id"] for each in of_one] == [of_all[1]["id"]]
    assert "Other" in run("subscribers", "show", "0770000007").stdout
    held = output_of("subscribers", "export", "0770000007")
    assert (held["phone_number"], len(held["transactions"])) == ("+256770000007", 2)
