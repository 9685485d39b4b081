"""Asking a payer for a payment, and paying one person, from the console."""

from __future__ import annotations

import re
from html import unescape

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Visit
from tests.services.payouts.desk import PayoutDesk
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.transactions import Transaction


def filled_in(visitor: ConsoleVisitor, path: str, **fields: str) -> dict[str, str]:
    """The fields of the form at `path`, with the reference that it suggests."""
    reference = unescape(re.search(r'name="reference" value="([^"]+)"', visitor.get(path).text)[1])  # type: ignore[index]
    return {
        "phone_number": "0770 000 000",
        "amount": "5,000",
        "name": "",
        "description": "Fees",
        "reference": reference,
    } | fields


def test_an_admin_asks_a_payer_for_a_payment_and_a_double_click_asks_once(
    visit: Visit, services: Services, clock: MovableClock
) -> None:
    visitor = visit("admin")
    assert 'href="/console/collect"' in visitor.get("/transactions").text
    form = filled_in(visitor, "/collect", name="Sarah Namubiru")
    asked = visitor.post("/collect", **form)
    assert asked.status_code == 303
    assert "The payer is asked to approve" in visitor.get(asked.location.removeprefix("/console")).text
    again = visitor.post("/collect", **form)
    assert again.location == asked.location
    assert "asked for before" in visitor.get(again.location.removeprefix("/console")).text
    (made,) = Transaction.select()
    assert (made.type, made.phone_number, made.amount_cents) == ("collection", "+256770000000", 500_000)
    assert (made.description, made.metadata) == ("Fees", {"name": "Sarah Namubiru"})
    work(services, clock, 2)
    assert Transaction.get().status == "succeeded"
    assert filled_in(visitor, "/collect")["reference"] != form["reference"]


def test_a_form_with_a_mistake_names_the_field_and_keeps_what_was_typed(visit: Visit) -> None:
    visitor = visit("admin")
    for path in ("/collect", "/pay"):
        form = filled_in(visitor, path)
        for wrong, shown in (
            ({"phone_number": "12"}, 'data-field="phone_number"'),
            ({"phone_number": ""}, "0772 123 456 or"),
            ({"amount": "1e3"}, 'data-field="amount"'),
            ({"amount": ""}, "such as 5000, below"),
            ({"amount": "1000000"}, 'data-field="amount"'),
            ({"reference": "x" * 65}, 'role="alert"'),
            ({"reference": "  "}, 'role="alert"'),
            ({"reference": "bank/1"}, 'role="alert"'),
            ({"name": "x" * 101}, "A name has at most"),
        ):
            refused = visitor.post(path, **(form | wrong))
            assert (refused.status_code, shown in refused.text) == (400, True), (path, wrong)
            assert 'name="description" value="Fees"' in refused.text
    assert Transaction.select().count() == Payout.select().count() == 0


def test_an_equal_payment_within_ten_minutes_is_made_only_if_it_is_meant(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    visitor = visit("admin")
    first = visitor.post("/collect", **filled_in(visitor, "/collect"))
    assert first.status_code == 303
    form = filled_in(visitor, "/collect")
    warned = visitor.post("/collect", **form)
    assert (warned.status_code, "This is another payment, and I mean it" in warned.text) == (200, True)
    assert f'href="{first.location}"' in warned.text
    assert Transaction.select().count() == 1
    assert visitor.post("/collect", **form, is_meant="yes").status_code == 303
    assert visitor.post("/collect", **filled_in(visitor, "/collect", amount="4,000")).status_code == 303
    page = visitor.get(first.location.removeprefix("/console")).text
    assert "possible double" in page
    assert visitor.get("/transactions").text.count("possible double") == 2
    assert visitor.get("/search?q=0770000000").text.count("possible double") == 2
    clock.advance(601)
    visitor = visit("owner")
    assert visitor.post("/collect", **filled_in(visitor, "/collect", reference="later")).status_code == 303
    deposit(services, operator_context(example_client.id), 100_000)
    assert services.transactions.create(request("disbursement"), operator_context(example_client.id))
    warned = visitor.post("/pay", **filled_in(visitor, "/pay"))
    assert (warned.status_code, "I mean it" in warned.text) == (200, True)


def test_the_forms_of_a_sandbox_show_what_its_numbers_do(visit: Visit) -> None:
    visitor = visit("admin")
    for path in ("/collect", "/pay"):
        page = visitor.get(path).text
        assert "<code>+256770000009</code>" in page
        assert "fails, then pays after all" in page
        assert '<option value="+256770000001">has no money' in page


def test_a_failed_payment_is_tried_again_from_its_page(visit: Visit, services: Services, clock: MovableClock) -> None:
    visitor = visit("admin")
    form = filled_in(visitor, "/collect", phone_number="0770000001", name="Sarah Namubiru")
    failed = visitor.post("/collect", **form).location.removeprefix("/console")
    work(services, clock, 2)
    (retry,) = re.findall(r'href="/console(/collect\?like=[^"]+)">Retry', visitor.get(failed).text)
    again = visitor.get(retry).text
    for typed in ("+256770000001", "5000", "Sarah Namubiru", "Fees"):
        assert f'value="{typed}"' in again
    assert form["reference"] not in again
    assert visitor.post("/collect", **filled_in(visitor, retry)).status_code == 303
    assert "Retry" not in visit("viewer").get(failed).text


def test_a_reference_of_another_payment_is_refused(visit: Visit) -> None:
    visitor = visit("admin")
    for path in ("/collect", "/pay"):
        form = filled_in(visitor, path)
        assert visitor.post(path, **form).status_code == 303
        refused = visitor.post(path, **(form | {"amount": "6000"}))
        assert refused.status_code in (400, 409)
        assert 'value="6000"' in refused.text


def test_a_payment_to_one_person_is_sent_once_another_person_has_approved_it(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    deposit(services, operator_context(example_client.id), 100_000)
    maker, approver = visit("developer"), visit("admin")
    assert 'href="/console/pay"' in maker.get("/payouts").text
    form = filled_in(maker, "/pay", name="Sarah")
    made = maker.post("/pay", **form)
    assert made.status_code == 303
    path = made.location.removeprefix("/console")
    assert "before another person approves it" in maker.get(path).text
    assert maker.post("/pay", **form).location == made.location
    assert Payout.select().count() == 1
    (item,) = PayoutItem.select()
    assert (item.phone_number, item.amount_cents, item.name, item.description) == (
        "+256770000000", 500_000, "Sarah", "Fees",
    )  # fmt: skip
    work(services, clock, 2)
    assert Transaction.select().where(Transaction.type == "disbursement").count() == 0
    approver.get(path)
    assert approver.post(f"{path}/approve").status_code == 303
    PayoutDesk(services, clock, 0).work(3)
    (sent,) = Transaction.select().where(Transaction.type == "disbursement")
    assert (sent.status, sent.amount_cents) == ("succeeded", 500_000)


def test_who_may_not_move_money_sees_neither_form(visit: Visit) -> None:
    viewer = visit("viewer")
    assert "/console/collect" not in viewer.get("/transactions").text
    assert "/console/pay" not in viewer.get("/payouts").text.replace("/console/payouts", "").replace(
        "/console/payment", ""
    )
    assert viewer.get("/collect").status_code == viewer.get("/pay").status_code == 403
    assert visit("developer").get("/collect").status_code == 403
