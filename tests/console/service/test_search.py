"""The search box."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from tests.conftest import MovableClock
from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from tests.support.money import a_client, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context


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
    for number in ("+256770000000", "0770000000", "0770 000 000"):
        page = visitor.get(f"/search?q={quote(number)}").text
        assert page.count('class="card"') == 2, number
        assert "arrived in the main account" in page
        assert f'href="{path}"' in page
        assert "&lt;b&gt;order&lt;/b&gt; &amp; 1" in page
        assert foreign.transaction_id not in page
    assert len(visitor.get("/search?q=0770000000&format=csv").text.splitlines()) == 3
    assert "Nothing has exactly this value" in visitor.get("/search?q=theirs").text
    for text in ("", "ab", "x" * 65):
        assert visitor.get(f"/search?q={text}").status_code == 200
    assert 'id="search"' in visitor.get("/api-keys").text
