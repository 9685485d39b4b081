"""`payouts`: an operator looks at a client's payout, finds it by its reference and cancels it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cli.test_money import client_id, output_of, run
from tests.services.payouts.desk import row
from tests.support.money import deposit
from ussd_server.cli import open_services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.values import new_id

__all__ = ["client_id"]


def test_an_operator_lists_shows_finds_and_cancels_a_payout(client_id: str) -> None:
    with open_services() as services:
        maker, approver = (
            RequestContext(
                Caller(
                    CallerKind.KEY,
                    client_id=client_id,
                    grants=frozenset({"payouts:*"}),
                    key_id=new_id(services.clock.now()),
                )
            )
            for _ in range(2)
        )
        deposit(services, maker, 10_000)
        made = services.payouts.create(CreatePayout("Pay 1", items=(row("a"), row("b"), row("c", "1"))), maker)
        payout_id = made.payout.payout_id
        services.payouts.approve(ApprovePayout(payout_id), approver)
    named = (payout_id, "--client", "ACME")
    assert [each["payout_id"] for each in output_of("payouts", "list", "--client", "ACME")["items"]] == [payout_id]
    assert output_of("payouts", "list", "--client", "ACME", "--status", "draft") == {"items": []}
    shown = run("payouts", "show", *named).output
    assert [words in shown for words in ("approved", "queued        2 rows", "invalid       1 rows")] == [True] * 3
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
