"""The page of one phone number."""

from __future__ import annotations

from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from tests.support.money import request
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context


def test_a_person_sees_what_happened_with_a_number_and_what_may_be_double(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    for reference in ("<b>1</b>", "2"):
        services.transactions.create(request(reference=reference), operator_context(example_client.id))
    viewer = visit("viewer")
    page = viewer.get("/subscribers/+256770000000").text
    assert page.count("possible double</span>") == 2
    assert "&lt;b&gt;1&lt;/b&gt;" in page
    assert "Copy an answer" in page
    assert "Nothing is known" in viewer.get("/subscribers/+256770000001").text
    assert viewer.get("/subscribers/nobody").status_code == 400


def test_a_payment_leads_to_the_history_of_its_number(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    made = services.transactions.create(request(), operator_context(example_client.id)).transaction
    page = visit("viewer").get(f"/transactions/{made.transaction_id}").text
    assert 'href="/console/subscribers/+256770000000"' in page
