"""The pages of payment codes and of held payments."""

from __future__ import annotations

import re

import pytest

from tests.conftest import MovableClock
from tests.console.conftest import Operators, Visit, confirmation
from tests.services.incoming.test_held import not_ours
from tests.services.incoming.till import Till
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.example_client import ExampleClient
from tests.support.money import balances, request, work
from tests.support.money import operator as operator_of
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import ListMovements

CODE = {"code": "sch 1042", "description": "<b>Fees</b>", "amount": "5,000", "expires_at": "2099-01-01T08:00"}


@pytest.fixture
def prefix(services: Services, example_client: ExampleClient) -> str:
    return services.payment_codes.set_prefix(SetPrefix(example_client.id, "SCH"), operator_of()).prefix


def test_a_code_is_made_shown_as_a_sheet_with_a_qr_code_changed_and_deleted(visit: Visit, prefix: str) -> None:
    person = visit("developer")
    assert "Codes begin with SCH" in person.get("/payment-codes").text
    person.get("/payment-codes/new")
    made = person.post("/payment-codes/new", **CODE)
    assert (made.status_code, made.headers["Location"]) == (303, "/console/payment-codes/SCH1042")
    sheet = person.get("/payment-codes/SCH1042").text
    assert "&lt;b&gt;Fees&lt;/b&gt;" in sheet
    assert "data:image/svg+xml" in sheet
    assert "UGX 5,000" in sheet
    form = person.get("/payment-codes/SCH1042/edit").text
    assert 'value="5000"' in form
    assert 'value="2099-01-01T08:00"' in form
    changed = person.post("/payment-codes/SCH1042/edit", description="Meals", min_amount="100", single_use="yes")
    assert changed.status_code == 303
    assert "at least UGX 100" in person.get("/payment-codes").text
    assert person.post("/payment-codes/SCH1042/delete").status_code == 303
    assert person.get("/payment-codes/SCH1042").status_code == 404


def test_a_form_with_a_mistake_is_shown_again_and_a_viewer_has_none(visit: Visit, prefix: str) -> None:
    person, viewer = visit("owner"), visit("viewer")
    person.get("/payment-codes/new")
    for mistake in ({"code": "TEA1"}, {"description": ""}, {"amount": "5", "min_amount": "1"}, {"account": "savings"}):
        refused = person.post("/payment-codes/new", **CODE | mistake)
        assert (refused.status_code, 'role="alert"' in refused.text) == (400, True)
    assert "New payment code" not in viewer.get("/payment-codes").text
    assert viewer.get("/payment-codes/new").status_code == 403


def test_a_held_payment_is_assigned_by_two_operators(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient, prefix: str
) -> None:
    person, ann, bob = visit("owner"), operator("ann"), operator("bob")
    person.get("/payment-codes/new")
    person.post("/payment-codes/new", **CODE)
    Till(services).pay("SCH1043", name="<i>Achieng</i>")
    assert "1 movement</a> to explain" in ann.get("/operator").text
    listed = ann.get("/operator/movements").text
    assert "<title>(1) Unexplained money" in listed
    assert "SCH1042" in listed
    page = ann.get(_first(listed)).text
    assert "&lt;i&gt;Achieng&lt;/i&gt;" in page
    assign = _first(listed).replace("movements", "propose/movement.assign")
    assert ann.post(assign, code="SCH9").status_code == 404
    assert ann.post(assign, code="SCH1042").status_code == 303
    assert "waits for another operator" in ann.get(_first(listed)).text
    assert ">proposed</span>" in bob.get("/operator/movements").text
    shown = bob.get("/operator/proposals").text
    assert "Typed: SCH1043" in shown
    assert "sandbox R1" in shown
    path, digest = confirmation(shown)
    assert bob.post(path, digest=digest).status_code == 303
    assert balances(example_client.id)["main"] == (5000_00, 0)
    page = person.get(_of_transaction(person.get("/transactions").text)).text
    assert "the payer, with a payment code" in page
    assert "Our reference at" not in page
    assert "Not sent yet" not in page
    assert person.get("/operator/movements").status_code == 404


def test_the_page_of_a_line_that_moved_money_leads_to_the_movement_which_is_marked_for_return(
    operator: Operators, services: Services, prefix: str
) -> None:
    ann, bob = operator("ann"), operator("bob")
    held = not_ours(services)
    assert held.line is not None
    assert held.line.file_name in ann.get(f"/operator/movements/{held.movement_id}").text
    page = ann.get(f"/operator/differences/{held.line.difference_id}").text
    assert f"/operator/movements/{held.movement_id}" in page
    assert "End the review" not in page
    assert ann.post(f"/operator/differences/{held.line.difference_id}/end", reason="Known").status_code == 400
    assert ann.post(f"/operator/propose/movement.return/{held.movement_id}", reason="").status_code == 400
    assert ann.post(f"/operator/propose/movement.return/{held.movement_id}", reason="A mistake").status_code == 303
    path, digest = confirmation(bob.get("/operator/proposals").text)
    assert bob.post(path, digest=digest).status_code == 303
    assert "to be given back" in ann.get(f"/operator/movements/{held.movement_id}").text
    listed = ann.get("/operator/movements").text
    assert "to be given back: A mistake" in listed
    assert "1 movement</a> to explain" in ann.get("/operator").text


def test_what_gives_a_returned_movement_back_is_suggested_named_and_released(
    operator: Operators, services: Services, prefix: str
) -> None:
    ann, bob = operator("ann"), operator("bob")
    came = not_ours(services).movement_id
    left = not_ours(services, "-7,000.00", receipt="S2").movement_id
    pages = f"/operator/movements/{came}", f"/operator/movements/{left}"

    def decide(action: str, **form: str) -> str:
        path = f"/operator/propose/movement.{action}/{came}"
        assert ann.post(path, reason="A mistake", **form).status_code == 303
        shown = bob.get("/operator/proposals").text
        path, digest = confirmation(shown)
        assert bob.post(path, digest=digest).status_code == 303
        return shown

    assert f'<option value="{left}">' in ann.get(pages[0]).text
    itself = ann.post(f"/operator/propose/movement.return/{came}", reason="A mistake", other=came)
    assert itself.status_code == 400
    assert "to be given back; the operator gives it back" in decide("return")
    assert f'value="{left}"' in ann.get(pages[0]).text
    assert f"given back by movement {left}, mtn S2" in decide("return", other=left)
    assert "All money is explained" in ann.get("/operator/movements").text
    assert "Given back by" in ann.get(pages[0]).text
    assert "Gives back" in ann.get(pages[1]).text
    assert f"movement {left} is held too" in decide("release")
    assert all("Mark it for return" in ann.get(page).text for page in pages)


def test_money_that_left_by_a_statement_is_assigned_to_no_code(operator: Operators, services: Services) -> None:
    held = not_ours(services, "-7,000.00")
    assert 'name="code"' not in operator("ann").get(f"/operator/movements/{held.movement_id}").text


def test_two_operators_say_that_a_success_with_another_amount_never_moved(
    operator: Operators, services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    made = services.transactions.create(request(), operator_context(example_client.id)).transaction
    work(services, clock, 2)
    row = Transaction.get_by_id(made.transaction_id)
    reconcile(services, [mtn_row(row, Amount="3,000.00")])
    (held,) = services.movements.list(ListMovements(is_held=True), operator_of()).items
    assert held.line is not None
    ann, bob = operator("ann"), operator("bob")
    pages = f"/operator/differences/{held.line.difference_id}", f"/operator/transactions/{row.id}"
    assert all("It never moved" in ann.get(page).text for page in pages)
    unmoved = f"/operator/propose/transaction.unmoved/{row.id}"
    assert ann.post(unmoved, reason="").status_code == 400
    assert ann.post(unmoved, reason="MTN moved 3,000").status_code == 303
    assert not any("It never moved" in ann.get(page).text for page in pages)
    assert "Say that a payment never moved" in bob.get("/operator/proposals").text
    path, digest = confirmation(bob.get("/operator/proposals").text)
    assert bob.post(path, digest=digest).status_code == 303
    assert Transaction.get_by_id(row.id).status == "reversed"


def test_an_account_is_corrected_by_two_operators_and_the_correction_taken_back(
    operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    Till(services).pay("no code")
    (held,) = services.movements.list(ListMovements(is_held=True), operator_of()).items
    ann, bob = operator("ann"), operator("bob")
    page = f"/operator/movements/{held.movement_id}"
    correct = f"/operator/propose/movement.correct/{held.movement_id}"
    refused = ann.post(correct, client="nobody", reason="Case 17")
    assert refused.status_code == 400
    assert refused.text.count('role="alert"') == 1
    assert re.search(f'<details class="confirm" open>.{{,200}}action="/console{correct}"', refused.text, re.DOTALL)
    assert 'name="client" value="nobody"' in refused.text
    assert 'name="reason" value="Case 17"' in refused.text
    client = example_client.id
    assert ann.post(correct, client=client, reason="Case 17", account="+256770000001").status_code == 400
    assert ann.post(correct, client=client, reason="Case 17").status_code == 303
    assert "added to the account main as a correction" in bob.get("/operator/proposals").text
    path, digest = confirmation(bob.get("/operator/proposals").text)
    assert bob.post(path, digest=digest).status_code == 303
    assert balances(client)["main"] == (5000_00, 0)
    assert ann.post(correct.replace("correct", "release"), reason="Another client was meant").status_code == 303
    path, digest = confirmation(bob.get("/operator/proposals").text)
    assert bob.post(path, digest=digest).status_code == 303
    assert balances(client)["main"] == (0, 0)
    assert "Operators released it: Another client was meant" in ann.get(page).text


def _first(page: str) -> str:
    found = re.search(r'href="/console(/operator/movements/[0-9a-f-]{36})"', page)
    assert found
    return found[1]


def _of_transaction(page: str) -> str:
    found = re.search(r'href="/console(/transactions/[0-9a-f-]{36})"', page)
    assert found
    return found[1]


def test_a_client_sees_held_payments_that_look_like_its_own_codes(
    visit: Visit, services: Services, prefix: str, example_client: ExampleClient
) -> None:
    services.payment_codes.put(PutPaymentCode("SCH1042", "Fees"), operator_context(example_client.id))
    services.payment_codes.set_prefix(SetPrefix(ExampleClient(services, "other").id, "SHOP"), operator_of())
    till = Till(services)
    for number, typed in enumerate(("SCH1O42", "SHC1042", "SHOP7", "rent", "SCH99")):
        till.pay(typed, receipt=f"WRONG{number}")
    page = visit("owner").get("/payment-codes").text
    assert "Held payments that look like yours" in page
    assert [f"WRONG{number}" in page for number in range(5)] == [True, True, False, False, True]
    assert page.count("SCH1042") == 4, "linked in the list, and meant by two"
    assert "+256772123456" not in page
