"""The pages of bank accounts and settlements."""

from __future__ import annotations

import io
import re

from tests.console.conftest import ConsoleVisitor, Operators, Visit, confirmation
from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context

ACCOUNT = {"bank": "Stanbic Bank", "number": "9030001234567", "name": "<b>ACME</b> Ltd"}


def state(owner: ConsoleVisitor, **parts: str) -> None:
    owner.get("/bank-account")
    assert owner.post("/bank-account", **{**ACCOUNT, **parts}).status_code == 303


def reserve(operator: ConsoleVisitor) -> tuple[str, str]:
    """Reserve what is due; return the page that shows it and the file for the bank."""
    reserved = operator.post("/operator/settlements/reserve").location.removeprefix("/console")
    page = operator.get(reserved).text
    (address,) = re.findall(r'href="/console(/operator/settlements/waiting\.csv\?reserved=[^"]+)"', page)
    return page, operator.get(address).text


def test_an_account_is_stated_by_an_owner_confirmed_and_settled_by_two_operators(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    deposit(services, operator_context(example_client.id), 70_000)
    owner, ann, bob = visit("owner"), operator("ann"), operator("bob")
    assert "No bank account yet" in owner.get("/bank-account").text
    state(owner)
    assert "waits for the operator" in owner.get("/bank-account").text
    assert "1 bank account</a> to confirm" in ann.get("/operator").text
    page = ann.get("/operator/settlements").text
    assert "&lt;b&gt;ACME&lt;/b&gt; Ltd" in page
    assert "No client is due anything" in page
    confirm = f"/operator/settlements/{example_client.id}/confirm"
    digest = services.bank_accounts.list(operator_context())[0].digest
    state(owner, number="666")
    assert ann.post(confirm, digest=digest).status_code == 400
    state(owner)
    ann.get("/operator/settlements")
    assert ann.post(confirm, digest=digest).status_code == 303
    assert "70,000" in ann.get("/operator/settlements").text
    page, file = reserve(ann)
    assert "UGX 70,000" in page.partition("Reserved just now")[2].partition("</section>")[0]
    assert "UGX 70,000" in owner.get("/bank-account").text
    assert "wait for the bank" in ann.get("/operator/settlements").text
    assert ann.get("/operator/settlements/waiting.csv").text == file
    ann.get("/operator/settlements")
    assert ann.post("/operator/settlements/reserve").headers["Location"] == "/console/operator/settlements"
    assert "'<b>" not in file
    completed = file.rstrip().removesuffix(",") + ",FT77"
    ann.get("/operator/settlements")
    sent = ann.post("/operator/settlements/file", file=(io.BytesIO(completed.encode()), "due.csv"))
    assert sent.status_code == 303, sent.text
    page = bob.get("/operator/proposals").text
    assert "FT77" in page
    path, digest = confirmation(page)
    deposit(services, operator_context(example_client.id), 500, "while it is confirmed")
    assert bob.post(path, digest=digest).status_code == 303
    assert "FT77" in ann.get("/operator/settlements").text
    (settled,) = services.bank_settlements.list(operator_context())
    assert settled.amount_cents == 70_000_00


def test_two_operators_record_what_the_bank_has_paid_to_an_account_that_was_changed(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    deposit(services, operator_context(example_client.id), 70_000)
    owner, ann, bob = visit("owner"), operator("ann"), operator("bob")
    state(owner)
    ann.get("/operator/settlements")
    digest = services.bank_accounts.list(operator_context())[0].digest
    ann.post(f"/operator/settlements/{example_client.id}/confirm", digest=digest)
    completed = reserve(ann)[1].rstrip().removesuffix(",") + ",FT77"
    state(owner, number="666")

    def send(**choice: str) -> int:
        ann.get("/operator/settlements")
        file = (io.BytesIO(completed.encode()), "due.csv")
        return ann.post("/operator/settlements/file", file=file, **choice).status_code

    assert send() == 400
    assert send(is_paid="yes") == 303
    page = bob.get("/operator/proposals").text
    assert "created. The client has another bank account by now" in page
    path, digest = confirmation(page)
    assert bob.post(path, digest=digest).status_code == 303
    (settled,) = services.bank_settlements.list(operator_context())
    assert (settled.status, settled.bank_reference) == ("succeeded", "FT77")


def test_only_an_owner_has_the_form_and_a_file_with_a_bad_line_proposes_nothing(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    admin, ann = visit("admin"), operator("ann")
    assert "Save" not in admin.get("/bank-account").text
    assert admin.post("/bank-account", **ACCOUNT).status_code == 403
    assert admin.get("/operator/settlements").status_code == 404
    ann.get("/operator/settlements")
    refused = ann.post("/operator/settlements/file", file=(io.BytesIO(b"client_id,amount\n1,2\n"), "due.csv"))
    assert (refused.status_code, "No row has the headings" in refused.text or "bank" in refused.text) == (400, True)
    assert services.proposals.list_open(operator_context()) == ()
