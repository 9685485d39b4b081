"""The operator's commands for approvals: who counts as whom, rules that ask for less, and notes."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import output_of, run
from tests.support.example_client import PASSWORD
from ussd_server.cli import open_services
from ussd_server.context import RequestContext, operator_context
from ussd_server.services.clients.messages import InvitePerson, LogIn
from ussd_server.services.payouts.messages import ApprovalRule


def test_the_operator_confirms_people_and_rules_and_approves_with_a_note(client_id: str, tmp_path: Path) -> None:
    made = run(
        "users", "create", "--client", "ACME", "--email", "ann@acme.example", "--role", "owner", "--password-stdin",
        typed=PASSWORD,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    with open_services() as services:
        login = services.logins.begin_for_console(LogIn("ann@acme.example", PASSWORD), operator_context())
        ann = RequestContext(services.auth.authenticate_login(login).caller)
        services.people.invite(InvitePerson("ben@acme.example", "admin"), ann)
        services.approval_rules.set([ApprovalRule(0, 2)], ann)
        services.approval_rules.set([ApprovalRule(0, 1)], ann)
    assert "a person of their own" in run("users", "confirm", "ben@acme.example").output
    assert run("users", "confirm", "nobody@acme.example").exit_code != 0
    shown = run("clients", "approval-rules", "ACME").output
    assert "2 above UGX 0\nwaiting: 1 above UGX 0" in shown
    confirm = ("clients", "approval-rules", "ACME", "--confirm")
    assert "the rules that wait are 1 above UGX 0" in run(*confirm, "2 above UGX 0").output
    assert run(*confirm, "1 above UGX 0").output == "1 above UGX 0\n"
    assert run(*confirm, "1 above UGX 0").exit_code != 0
    assert "ignores readers" in run("clients", "readers", "ACME", "--ignore").output
    file = tmp_path / "pay.csv"
    file.write_text("phone_number,amount,reference\n0770000000,500,a\n")
    options = ("--client", "ACME", "--reference", "P1", "--by", "Ann")
    payout_id = output_of("payouts", "create", file, *options)["payout_id"]
    assert run("accounts", "credit", "--client", "ACME", "--amount", "1000", "--reference", "d1").exit_code == 0
    approved = output_of(
        "payouts", "approve", payout_id, "--client", "ACME", "--by", "Ann", "--and", "Ben", "--note", "by phone"
    )
    assert (approved["status"], [each["note"] for each in approved["approvals"]]) == ("approved", ["by phone"])
    cancelled = output_of("payouts", "cancel", payout_id, "--client", "ACME", "--note", "too early")
    assert (cancelled["status"], cancelled["cancel_note"]) == ("cancelled", "too early")
    assert "by phone" in run("payouts", "show", payout_id, "--client", "ACME").output
