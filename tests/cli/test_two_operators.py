"""Commands that take two operators: who they are, and refunds of the same amount."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import output_of, run
from tests.services.incoming.till import Till
from tests.services.reconciliation.statement_files import reconcile
from tests.support.money import request
from ussd_server.cli import open_services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.services.clients.messages import CreateClient
from ussd_server.services.incoming.messages import PutPaymentCode

NAMES = ("--by", "Jane", "--and", "Mary")


@pytest.fixture
def paid(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A succeeded collection of UGX 5,000."""
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("USSD_DATABASE_URL", database_url)
    monkeypatch.setenv("USSD_REDIS_URL", f"unix://{tmp_path}/no.sock")
    with open_services() as services:
        client_id = services.clients.create(CreateClient("ACME"), operator_context()).client_id
        context = RequestContext(Caller(CallerKind.KEY, client_id=client_id, grants=None))
        made = services.transactions.create(request(reference="order 7"), context).transaction
        for claimed in services.processing.claim(1):
            services.processing.advance(claimed)
    return made.transaction_id


def test_a_second_equal_refund_is_counted_and_a_repeated_command_never_refunds_twice(paid: str) -> None:
    refund = ("transactions", "refund", paid, "--reason", "paid twice", *NAMES)
    first = output_of(*refund, "--amount", "1500")["transaction"]
    # The id of the payment would be another one after a restore; its name at the provider stays.
    name = output_of("transactions", "show", paid)["transaction"]["provider_reference"]
    assert first["reference"] == f"operator-refund-{name}"
    repeated = run(*refund, "--amount", "1500")
    assert repeated.exit_code == 1
    assert f"by transaction {first['transaction_id']} (created)" in repeated.output
    assert "give its number: 2" in repeated.output
    second = output_of(*refund, "--amount", "1500", "--number", "2")
    assert second["transaction"]["reference"] == f"operator-refund-{name}-2"
    again = output_of(*refund, "--amount", "1500", "--number", "2")
    assert (again["replayed"], again["transaction"]["transaction_id"]) == (
        True,
        second["transaction"]["transaction_id"],
    )
    # Another amount is no repeat, and takes the next number.
    third = output_of(*refund, "--amount", "700")["transaction"]
    assert third["reference"] == f"operator-refund-{name}-3"
    rest = output_of(*refund)["transaction"]
    assert (rest["reference"], rest["amount"]) == (f"operator-refund-{name}-4", 1300)
    assert run(*refund).exit_code == 1
    assert run(*refund, "--number", "1").exit_code == 1
    assert run(*refund, "--number", "5").exit_code == 1
    assert run(*refund, "--number", "1", "--reference", "r").exit_code == 2
    assert run(*refund, "--number", "0").exit_code == 2


def test_held_movements_are_listed_and_ended_and_a_till_gets_its_path_and_secret(paid: str) -> None:
    with open_services() as services:
        client_id = services.clients.list(operator_context())[0].client_id
    assert output_of("payment-codes", "prefix", client_id, "sch")["prefix"] == "SCH"
    assert output_of("callbacks") == {"items": []}
    (till,) = output_of("callbacks", "--show-secrets")["items"]
    assert till["incoming_path"].startswith("/callbacks/sandbox/incoming/")
    assert till["incoming_secret"].startswith("whsec_")
    with open_services() as services:
        services.payment_codes.put(PutPaymentCode("SCH1", "Fees"), operator_context(client_id))
        for receipt in ("R1", "R2"):
            Till(services).pay("SCH2", receipt=receipt)
        Till(services).pay("SCH3", receipt="R3")
    own, second, first = output_of("movements", "list", "--held")["items"]
    assert (first["receipts"], first["amount"], first["suggestions"]) == (["R1"], 5000, ["SCH1"])
    assert run("movements", "assign", first["movement_id"], "SCH1", "--by", "Jane", "--and", "Jane").exit_code == 1
    assigned = output_of("movements", "assign", first["movement_id"], "SCH1", *NAMES)["use"]
    assert (assigned["kind"], assigned["by"], assigned["and"]) == ("payment", "Jane", "Mary")
    returned = output_of("movements", "return", second["movement_id"], "--reason", "asked for it", *NAMES)
    assert (returned["state"], returned["use"]["reason"]) == ("to be given back", "asked for it")
    assert output_of("movements", "own", own["movement_id"], "--reason", "our float", *NAMES)["use"]["kind"] == "own"
    assert output_of("movements", "list", "--held") == {"items": [returned]}
    assert "to be given back, Jane and Mary: asked for it" in run("movements", "list", "--held").output
    with open_services() as services:
        line = [datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"), "Successful", "Payment", "FRI:256772123456/MSISDN"]
        reconcile(services, [["B1", "", *line, "FRI:41000001/MM", "-5,000.00", "UGX", "0", "1,000,000"]], "sandbox")
    (given_back,) = output_of("movements", "show", second["movement_id"])["may_give_back"]
    pair = run("movements", "return", second["movement_id"], given_back, "--reason", "line B1", *NAMES)
    assert f"UGX 5,000 is given back by movement {given_back}." in pair.output
    assert f"returned, with movement {given_back}" in run("movements", "list").output
    assert output_of("movements", "list", "--held") == {"items": []}
    told = output_of("movements", "show", first["movement_id"])
    assert [each["way"] for each in told["told"]] == ["notice", "assignment"]
    assert [each["transaction_id"] for each in told["history"]] == [assigned["transaction_id"]]
    sums = output_of("check")["movements"]
    assert [each["ledger"] for each in sums if each["account"] == "sandbox"] == [each["used"] for each in sums]
