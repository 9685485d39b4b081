"""The search box."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest

from tests.conftest import MovableClock
from tests.console.conftest import Operators, Visit
from tests.support.example_client import ExampleClient
from tests.support.money import a_client, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.payouts.messages import CreatePayout
from ussd_server.values import kampala_day


def test_people_find_what_they_know_a_value_of(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    hostile = "<b>order</b> & 1"
    create, context = services.transactions.create, operator_context(example_client.id)
    asked = replace(context, request_id="call-of-today")
    paid = create(request(number="+256770000000", reference=hostile), asked).transaction
    create(request(number="+256770000000", reference="order-2", shillings=10), context)
    work(services, clock, 2)
    stranger = a_client("Other")
    foreign = create(request(number="+256770000000", reference="theirs"), stranger).transaction
    key = example_client.create_key()
    visitor, path = visit("developer"), f"/console/transactions/{paid.transaction_id}"
    receipt = visitor.get("/transactions?format=json").json["items"][1]["provider_transaction_id"]
    for text in (hostile, receipt, paid.transaction_id, f" {paid.transaction_id.upper()} ", "call-of-today"):
        assert visitor.get(f"/search?q={quote(text)}").location == path, text
    assert visitor.get(f"/search?q={key.apikey}").location == f"/console/api-keys/{key.id}"
    for number in ("+256770000000", "0770000000", "0770 000 000", "770000000", "00256 770-000-000"):
        page = visitor.get(f"/search?q={quote(number)}").text
        assert page.count('class="card"') == 2, number
        assert "arrived in the main account" in page
        assert f'href="{path}"' in page
        assert "&lt;b&gt;order&lt;/b&gt; &amp; 1" in page
        assert foreign.transaction_id not in page
    assert len(visitor.get("/search?q=0770000000&format=csv").text.splitlines()) == 3
    assert "Nothing was found" in visitor.get("/search?q=theirs").text
    # Receipts are hexadecimal, so any of them may have a part such as "ab".
    for text in ("", "zz", "x" * 65):
        assert visitor.get(f"/search?q={text}").status_code == 200
    assert 'id="search"' in visitor.get("/api-keys").text


def test_people_find_payments_by_amount_part_of_a_reference_and_payee(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    create, context = services.transactions.create, operator_context(example_client.id)
    old = create(request(number="+256770000000", reference="INV-2026-0001", shillings=5000), context).transaction
    clock.advance(2 * 86_400)
    paid = create(request(number="+256770000001", reference="INV-2026-0042", shillings=5000), context).transaction
    create(request(number="+256770000001", reference="INV-2026-0043", shillings=70), context)
    stranger = a_client("Other")
    foreign = create(request(number="+256770000000", reference="inv-2026-0042", shillings=5000), stranger).transaction
    rows = ({"phone_number": "+256770000002", "amount": 10, "reference": "E-1", "name": "Sarah Namubiru"},)
    made = services.payouts.create(CreatePayout("NOV", items=rows), example_client.call()).payout
    visitor, today = visit("developer"), kampala_day(clock.now())
    for text in ("5000 today", "UGX 5,000 today", f"5000 {today}", "2026-0042"):
        assert visitor.get(f"/search?q={quote(text)}").location == f"/console/transactions/{paid.transaction_id}", text
    both = visitor.get("/search?q=5,000&format=json").json["items"]
    assert [hit["id"] for hit in both] == [paid.transaction_id, old.transaction_id]
    assert visitor.get("/search?q=namubiru").location == f"/console/payouts/{made.payout_id}"
    assert len(visitor.get("/search?q=inv-2026&format=json").json["items"]) == 3
    of_day = visitor.get(f"/search?q=inv-2026&kind=transaction&day={today}&format=json").json["items"]
    assert len(of_day) == 2
    assert visitor.get("/search?q=inv-2026&kind=payout&format=json").json["items"] == []
    for part in ("2026-", "inv", "nv", "2026 inv"):
        assert len(visitor.get(f"/search?q={part}&format=json").json["items"]) == 3
    for nothing in ("nvv", "inv%2026", "5000 yesterday", "5000 2026-99-99", "0.001 today"):
        assert visitor.get(f"/search?q={quote(nothing)}&format=json").json["items"] == [], nothing
    assert foreign.transaction_id not in str(both)


def test_people_find_payments_by_the_short_name_of_a_payer_and_by_what_they_are_for(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    context = operator_context(example_client.id)
    named = replace(request(reference="one"), description="Fees of S1234", metadata={"name": "Sarah Namubiru"})
    paid = services.transactions.create(named, context).transaction
    services.transactions.create(request(reference="two"), context)
    visitor = visit("developer")
    for text in ("Sarah", "sarah", "S1234", "one"):
        assert visitor.get(f"/search?q={text}").location == f"/console/transactions/{paid.transaction_id}", text
    assert "<h1" in visitor.get("/search?q=Ann").text


def test_people_find_payments_by_the_last_digits_of_a_reference_a_receipt_and_a_phone_number(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    context = operator_context(example_client.id)
    paid = services.transactions.create(request(number="+256770000104", reference="order-043"), context).transaction
    services.transactions.create(request(number="+256770000000", reference="order-1"), context)
    work(services, clock, 2)
    visitor = visit("developer")
    found = visitor.get("/transactions?reference=order-043&format=json").json["items"][0]
    for text in ("043", "000104", found["provider_transaction_id"][-6:].lower()):
        assert visitor.get(f"/search?q={text}").location == f"/console/transactions/{paid.transaction_id}", text


def test_operators_read_that_nothing_was_found(operator: Operators) -> None:
    reply = operator("ann").get("/operator/search?q=theirs")
    assert reply.status_code == 200
    assert "Nothing was found" in reply.text


@pytest.mark.both_databases
def test_people_find_payments_by_parts_of_any_length_in_any_order(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    create, context = services.transactions.create, operator_context(example_client.id)
    named = replace(request(number="+256770000001", reference="one"), metadata={"name": "Nakato Mary"})
    paid = create(named, context).transaction
    create(request(number="+256770000204", reference="two", shillings=70), context)
    visitor, page = visit("developer"), f"/console/transactions/{paid.transaction_id}"
    for text in (
        "0000001", "70000001", "0000 01", "0770 000 001", "077000000 1", "Mary Nakato", "mary", "256 770 000001",
        "5000/=", "UGX 5,000/=", "Shs 5000", "ugx5000", "5,000/-",
    ):  # fmt: skip
        assert visitor.get(f"/search?q={quote(text)}").location == page, text
    for text in ("770000", "0770 000", "7", "+256"):
        assert len(visitor.get(f"/search?q={quote(text)}&format=json").json["items"]) == 2, text
    found = visitor.get("/search?q=000+001&format=json").json["items"]
    assert found[0]["id"] == paid.transaction_id
    assert visitor.get("/search?q=Mary+Namubiru&format=json").json["items"] == []


def test_an_exact_hit_stands_before_parts_and_amounts(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    create, context = services.transactions.create, operator_context(example_client.id)
    exact = create(request(reference="5000", shillings=70), context).transaction.transaction_id
    of_amount = create(request(reference="other", shillings=5000), context).transaction.transaction_id
    of_part = create(request(reference="a-5000", shillings=70), context).transaction.transaction_id
    found = visit("developer").get("/search?q=5000&format=json").json["items"]
    assert [hit["id"] for hit in found] == [exact, of_amount, of_part]


@pytest.mark.both_databases
def test_keys_payouts_menus_webhooks_and_people_are_found_by_a_part_of_their_names(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    owner = example_client.call()
    key = services.api_keys.create(CreateApiKey(None, name="Till of the shop"), owner)
    item = {"phone_number": "+256770000002", "amount": 10, "reference": "E-1"}
    payout = services.payouts.create(CreatePayout("NOV-shop", items=(item,)), owner).payout
    services.payouts.create(CreatePayout("OCT", items=(item,)), ExampleClient(services, "other").call())
    visitor = visit("owner")
    found = visitor.get("/search?q=shop&format=json").json["items"]
    assert [(hit["kind"], hit["id"]) for hit in found] == [("payout", payout.payout_id), ("key", key.id)]
    assert visitor.get("/search?q=shop+till").location == f"/console/api-keys/{key.id}"
    assert visitor.get("/search?q=OCT&format=json").json["items"] == []
    assert visit("viewer").get("/search?q=till+shop&format=json").json["items"] == []
    assert visitor.get("/search?q=viewer@acme&format=json").json["items"][0]["kind"] == "person"


def test_a_pasted_secret_leads_to_its_key_and_stands_in_no_address(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    other = ExampleClient(services, "other").create_key()
    visitor, ann = visit("owner"), operator("ann")
    assert visitor.post("/search", q=key.apisecret).location == f"/console/api-keys/{key.id}"
    assert "stop the key now" in visitor.get(f"/api-keys/{key.id}").text
    assert visitor.get(f"/search?q={key.apisecret}").location == f"/console/api-keys/{key.id}"
    assert visitor.post("/search", q=other.apisecret).location == "/console/search"
    assert ann.post("/operator/search", q=other.apisecret).location == f"/console/operator/api-keys/{other.id}"
    assert visit("viewer").post("/search", q=key.apisecret).location == "/console/search"
    assert visitor.post("/search", q="order 7").location == "/console/search?q=order+7"
