"""The pages of transactions."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

from tests.conftest import MovableClock
from tests.console.clients.test_api_keys import assert_same
from tests.console.conftest import Operators, Visit
from tests.support.example_client import OPERATOR, ExampleClient
from tests.support.money import a_client, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.transactions.messages import CreateDeposit, TransactionView
from ussd_server.services.webhooks.messages import CreateWebhook


def pay(services: Services, client: ExampleClient, **more: object) -> TransactionView:
    """A payment of the client that a program requested."""
    return services.transactions.create(
        request(**more),  # type: ignore[arg-type]
        operator_context(client.id),
    ).transaction


def test_the_list_is_filtered_as_people_write_and_is_the_same_as_csv_and_json(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    visitor = visit("viewer")
    assert "No transaction yet" in visitor.get("/transactions").text
    hostile = "<script>alert(1)</script> ‮ =1+1"
    paid = pay(services, example_client, reference=hostile)
    failed = pay(services, example_client, number="+256770000001", reference="order-2", shillings=99)
    work(services, clock, 2)
    page = visitor.get("/transactions")
    assert "<script>alert" not in page.text
    assert f'<a class="opens" href="/console/transactions/{paid.transaction_id}">' in page.text
    assert '<th scope="col" class="text minor">Description</th>' in page.text
    assert "The payer&#39;s mobile money balance is too low" in page.text
    listed = visitor.get("/transactions?format=json").json["items"]
    assert [item["transaction_id"] for item in listed] == [failed.transaction_id, paid.transaction_id]
    assert (listed[0]["amount"], listed[1]["reference"], listed[1]["status"]) == (99, hostile, "succeeded")
    receipt = listed[1]["provider_transaction_id"]
    rows = list(csv.DictReader(io.StringIO(visitor.get("/transactions?format=csv").text)))
    assert [row["transaction_id"] for row in rows] == [item["transaction_id"] for item in listed]
    for query, expected in (
        ("status=failed", [failed]),
        ("status=succeeded&type=collection", [paid]),
        ("phone_number=0770+000+001", [failed]),
        ("phone_number=%2B256770000000", [paid]),
        ("phone_number=nonsense", []),
        ("reference=order-2", [failed]),
        ("amount=5,000", [paid]),
        (f"receipt={receipt}", [paid]),
        ("from=2020-01-01&to=2020-12-31", []),
        ("from=2020-01-01&to=2099-12-31", [failed, paid]),
        ("from=2099-01-01", []),
    ):
        found = visitor.get(f"/transactions?format=json&{query}").json["items"]
        assert [item["transaction_id"] for item in found] == [each.transaction_id for each in expected], query
    assert visitor.get("/transactions?from=yesterday").status_code == 400
    assert visitor.get("/transactions?to=9999-12-31").status_code == 400
    assert visitor.get("/transactions?amount=much").status_code == 400


def test_a_note_on_a_payment_is_read_by_everyone_who_sees_it(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    payment = pay(services, example_client).transaction_id
    admin, viewer, ann = visit("admin"), visit("viewer"), operator("ann")
    admin.get(f"/transactions/{payment}")
    assert admin.post(f"/transactions/{payment}/notes", note="<b>paid twice</b>").status_code == 303
    ann.get(f"/operator/transactions/{payment}")
    assert ann.post(f"/operator/transactions/{payment}/notes", note="asked MTN").status_code == 303
    viewer.get(f"/transactions/{payment}")
    assert viewer.post(f"/transactions/{payment}/notes", note="x").status_code == 403
    for page in (viewer.get(f"/transactions/{payment}"), ann.get(f"/operator/transactions/{payment}")):
        assert "&lt;b&gt;paid twice&lt;/b&gt;" in page.text
        assert "asked MTN" in page.text


def test_operators_see_by_which_connection_a_payment_was_sent(
    visit: Visit, operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    payment = pay(services, example_client).transaction_id
    ann = operator("ann")
    assert "Connection" not in ann.get(f"/operator/transactions/{payment}").text
    Transaction.update(sent_to="https://old.example.com mtnuganda user").execute()
    assert "https://old.example.com mtnuganda user" in ann.get(f"/operator/transactions/{payment}").text
    assert "old.example.com" not in visit("admin").get(f"/transactions/{payment}").text


def test_a_list_offers_the_usual_periods_and_keeps_its_other_filters(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    pay(services, example_client, reference="old")
    clock.advance(8 * 86_400)
    visitor = visit("viewer")
    pay(services, example_client, reference="new")
    for path, filters in (("/transactions", "status=created&"), ("/events", "")):
        page = unescape(visitor.get(f"{path}?{filters}").text)
        week, month = (
            re.findall(rf'href="/console({path}\?[^"]+)">Last {days} days', page)[0].replace("?", "?format=json&")
            for days in (7, 30)
        )
        assert filters in f"{week}&"
        assert len(visitor.get(month).json["items"]) == 2 * len(visitor.get(week).json["items"]) > 0
        shown = visitor.get(week.replace("format=json&", "")).text
        assert 'aria-current="true">Last 7 days' in shown
        (last,) = re.findall(rf'href="/console({path}\?[^"]+)">Last month', page)
        assert 'aria-current="true">Last month' in visitor.get(last).text
        assert "to=" not in week


def test_a_payment_is_explained_with_its_timeline_ledger_and_webhooks(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    services.webhooks.create(
        CreateWebhook("http://127.0.0.1:19999/hook", ("transaction.succeeded",)), operator_context(example_client.id)
    )
    made = pay(services, example_client, number="+256770000004", metadata={"note": "</pre><b>bold</b>"})
    path = f"/transactions/{made.transaction_id}"
    visitor = visit("viewer")
    services.processing.advance(*services.processing.claim(1))
    page = visitor.get(path)
    assert "waits for the payer to approve it" in page.text
    assert "Not sent: no webhook subscribes to this event" in page.text
    assert "&lt;/pre&gt;" in page.text
    live = re.search(r'hx-get="/console(/transactions/[^"]+\?open=1)"', page.text)
    assert live
    first = visitor.get(live[1], headers={"X-Console-Poll": "new"})
    seen = {"X-Console-Poll": first.headers["X-Console-Version"]}
    assert visitor.get(live[1], headers=seen).status_code == 204
    work(services, clock, 5)
    services.relay.run()
    final = visitor.get(live[1], headers=seen)
    assert (final.status_code, final.headers["HX-Refresh"]) == (200, "true")
    page = visitor.get(path)
    for expected in (
        "arrived in the main account",
        "we asked Sandbox",
        "Succeeded",
        "The main account: the amount",
        "http://127.0.0.1:19999",
    ):
        assert expected in page.text
    assert f'data-copy="http://localhost/console{path}"' in page.text
    assert "Refund …" not in page.text
    assert "HX-Refresh" not in visitor.get(path, headers=seen).headers


def test_an_admin_refunds_a_payment_and_both_are_linked(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    services.deposits.create(CreateDeposit(example_client.id, 900_000, "float"), OPERATOR)
    made = pay(services, example_client, reference="order-1")
    work(services, clock)
    path = f"/transactions/{made.transaction_id}"
    visitor = visit("admin")
    assert "order-1-refund" in visitor.get(path).text
    for fields in (
        {"amount": "1e3"}, {"amount": "0"}, {"amount": "5000.001"}, {"amount": "6000"}, {"reference": " "},
        {"reason": " "}, {"reason": "x" * 201},
    ):  # fmt: skip
        refused = visitor.post(f"{path}/refund", **({"reference": "order-1-refund", "reason": "late"} | fields))
        assert refused.status_code == 400
        assert 'class="confirm" open' in refused.text
    assert visit("developer").post(f"{path}/refund", reference="x").status_code == 403
    assert visitor.post(f"{path}/refund", amount="1,500", reference="order-1-refund").status_code == 400
    form = {"amount": "1,500", "reference": "order-1-refund", "reason": "came <b>late</b>"}
    made_refund = visitor.post(f"{path}/refund", **form)
    assert made_refund.status_code == 303
    assert visitor.post(f"{path}/refund", **form).location == made_refund.location
    trail = visitor.get("/audit").text
    for shown in ("came &lt;b&gt;late&lt;/b&gt;", "UGX 1,500", "+256770000000", "admin@acme.example"):
        assert shown in trail
    (refund,) = Transaction.select().where(Transaction.refund_of == made.transaction_id)
    assert (refund.amount_cents, refund.client_id) == (150_000, example_client.id)
    assert f'<a href="/console{path}"><bdi>order-1</bdi></a>' in visitor.get(made_refund.location[8:]).text
    page = visitor.get(path).text
    assert f'href="{made_refund.location}"' in page
    assert "order-1-refund-2" in page
    assert visitor.post(f"{path}/refund", amount="", reference="rest", reason="late").status_code == 303
    assert "Refund …" not in visitor.get(path).text


def test_a_payments_key_is_a_link_for_those_who_may_see_keys(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    caller = services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1").caller
    paid = services.transactions.create(request(), RequestContext(caller))
    page, link = f"/transactions/{paid.transaction.transaction_id}", f'href="/console/api-keys/{key.id}"'
    assert link in visit("developer").get(page).text
    assert key.id in visit("viewer").get(page).text
    assert link not in visit("viewer").get(page).text


def test_another_clients_transaction_answers_as_a_missing_one(visit: Visit, services: Services) -> None:
    stranger: RequestContext = a_client("Other")
    foreign = services.transactions.create(request(), stranger).transaction.transaction_id
    visitor, missing = visit(), "019e0000-0000-7000-8000-000000000000"
    for end in ("", "/everything"):
        assert_same(*(visitor.get(f"/transactions/{one}{end}") for one in (foreign, missing)))
    assert_same(*(visitor.post(f"/transactions/{one}/refund", reference="x") for one in (foreign, missing)))


def test_everything_about_a_payment_is_one_page_and_one_file(
    visit: Visit, services: Services, clock: MovableClock, example_client: ExampleClient
) -> None:
    services.deposits.create(CreateDeposit(example_client.id, 900_000, "float"), OPERATOR)
    visitor = visit("admin")
    form = {
        "phone_number": "0770000000",
        "amount": "5000",
        "name": "",
        "description": "<b>Fees</b>",
        "reference": "o-1",
    }
    made = visitor.post("/collect", **form).location.removeprefix("/console")
    work(services, clock, 2)
    assert visitor.post(f"{made}/refund", reference="back", reason="paid twice").status_code == 303
    page = visitor.get(f"{made}/everything").text
    for shown in (
        "asked for a payment", "refunded a payment", "paid twice", "admin@acme.example", "Events and webhooks",
        "The main account: the amount", "&lt;b&gt;Fees&lt;/b&gt;",
    ):  # fmt: skip
        assert shown in page, shown
    assert f'href="/console{made}/everything"' in visitor.get(made).text
    file = visitor.get(f"{made}/everything?format=json")
    assert file.headers["Content-Disposition"] == 'attachment; filename="payment-o-1.json"'
    assert list(file.json) == ["payment", "request", "refunds", "movement", "events", "messages", "audit"]
    assert [each["status"] for each in file.json["payment"]["events"]][-1] == "succeeded"
    assert [each["action"] for each in file.json["audit"]] == ["transaction.refunded", "transaction.asked"]
    assert file.json["refunds"][0]["reference"] == "back"
    viewer = visit("viewer")
    assert viewer.get(f"{made}/everything?format=json").json["audit"] == []
    trail = visitor.get(f"/audit?object_id={made.rpartition('/')[2]}&format=json").json["items"]
    assert [each["action"] for each in trail] == ["transaction.refunded", "transaction.asked"]


def test_operators_read_everything_about_a_payment_of_any_client(
    operator: Operators, services: Services, example_client: ExampleClient
) -> None:
    paid = pay(services, example_client)
    ann = operator("ann")
    page = ann.get(f"/operator/transactions/{paid.transaction_id}/everything")
    assert (page.status_code, "acme" in page.text) == (200, True)
    assert ann.get(f"/operator/transactions/{paid.transaction_id}/everything?format=json").json["movement"] is None
