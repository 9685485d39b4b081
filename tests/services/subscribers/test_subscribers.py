"""What is known about one phone number: its time line, its export, and what an erasure removes and keeps."""

from __future__ import annotations

from functools import partial

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator, request, work
from tests.support.shop import CODE, Shop
from tests.support.tracing import count_queries
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.database.tables import Table
from ussd_server.models.clients import AuditEvent
from ussd_server.models.keys import ApiRequest
from ussd_server.models.movements import MovementReceipt
from ussd_server.models.payouts import PayoutItem
from ussd_server.models.providers import ProviderAccount
from ussd_server.models.statements import (
    ClosedDay,
    DayProof,
    ProviderStatement,
    StatementCoverage,
    StatementDifference,
)
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberLanguage, UssdSession
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.search.messages import Search
from ussd_server.services.sms.outbox import queue_sms
from ussd_server.services.subscribers.messages import ErasePersonalData, GetHistory, HistoryEntry
from ussd_server.services.subscribers.personal_data import _KEPT, _REMOVED
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.status import Code, ServiceError

NUMBER = "+256770000000"
BY = {"by": "Mary Akello", "second": "John Okot", "reason": "asked by letter of 20 November"}


@pytest.fixture
def client(services: Services) -> ExampleClient:
    client = ExampleClient(services)
    Shop(services, client_id=client.id)
    deposit(services, operator_context(client.id), 100_000)
    return client


@pytest.fixture
def call(client: ExampleClient) -> RequestContext:
    return operator_context(client.id)


def history(services: Services, call: RequestContext, limit: int = 50) -> list[HistoryEntry]:
    entries, cursor = list[HistoryEntry](), None
    while True:
        page = services.subscriber_history.get(GetHistory(NUMBER, limit=limit, cursor=cursor), call)
        entries += page.items
        if (cursor := page.next_cursor) is None:
            return entries


def pay(services: Services, call: RequestContext, reference: str, shillings: int = 5000, number: str = NUMBER) -> str:
    made = services.transactions.create(request(number=number, shillings=shillings, reference=reference), call)
    return made.transaction.transaction_id


def test_the_history_of_all_clients_takes_as_many_queries_as_that_of_one(
    services: Services, call: RequestContext
) -> None:
    of_all = partial(services.subscriber_history.of_all_clients, GetHistory(NUMBER), operator_context())
    first = pay(services, call, "R-1")
    queries = count_queries(of_all)
    for number in range(3):
        ExampleClient(services, f"Other {number}")
    assert [(client_id, entry.id) for client_id, entry in of_all()] == [(call.client_id, first)]
    assert count_queries(of_all) == queries


def test_payments_refunds_and_sessions_are_on_one_time_line(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    session = services.api_sessions.begin(BeginSession(NUMBER, CODE), call).session_id
    clock.advance(1)
    paid = pay(services, call, "R1")
    pay(services, call, "of another number", number="+256770000001")
    work(services, clock, 5)
    refund = services.refunds.create(CreateRefund(paid, "back", 1000_00), call).transaction.transaction_id
    for limit in (50, 1, 2):
        entries = history(services, call, limit)
        assert [(each.kind, each.id) for each in entries] == [
            ("refund", refund),
            ("payment", paid),
            ("session", session),
        ]
    assert [each.amount_cents for each in entries] == [1000_00, 5000_00, None]
    assert "UGX 5,000" in entries[1].sentence
    assert [each.status for each in entries] == ["created", "succeeded", "active"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_neither_a_history_nor_a_search_has_a_query_for_each_payment(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    def count() -> tuple[int, int]:
        work(services, clock, 5)
        return (
            count_queries(lambda: services.subscriber_history.get(GetHistory(NUMBER, limit=50), call)),
            count_queries(lambda: services.search.search(Search(NUMBER), call)),
        )

    pay(services, call, "R1")
    pay(services, call, "R2")
    few = count()
    for number in range(3, 13):
        pay(services, call, f"R{number}")
    assert count() == few


def test_payments_of_one_amount_within_ten_minutes_are_possible_doubles(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    pay(services, call, "first")
    clock.advance(9 * 60)
    pay(services, call, "second")
    pay(services, call, "of another amount", 4000)
    clock.advance(11 * 60)
    pay(services, call, "later")
    for limit in (50, 1):
        assert [each.possible_double for each in history(services, call, limit)] == [False, False, True, True]
    failed = Transaction.get(Transaction.reference == "first")
    Transaction.update(status="failed", failure_code="CANCELLED", completed_at=clock.now()).where(
        Transaction.id == failed.id
    ).execute()
    assert not any(each.possible_double for each in history(services, call)), "a failed payment doubles none"


def test_the_history_is_the_clients_own_and_needs_a_number(
    services: Services, call: RequestContext, client: ExampleClient, web: FlaskClient
) -> None:
    pay(services, operator_context(ExampleClient(services, "other").id), "R1")
    assert history(services, call) == []
    pay(services, call, "R2")
    services.api_sessions.begin(BeginSession(NUMBER, CODE), call)
    key = client.create_key("transactions:read")
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
    reply = web.get(f"/api/subscribers/{NUMBER}/history", headers=headers)
    assert reply.status_code == 200
    (item,) = reply.json["data"]["items"]
    assert {name: item[name] for name in ("kind", "amount", "possible_double")} == {
        "kind": "payment",
        "amount": 5000,
        "possible_double": False,
    }
    for written in ("12345", "0770000000", "256770000000"):
        refused = web.get(f"/api/subscribers/{written}/history", headers=headers)
        assert (refused.status_code, refused.json["error"]) == (400, "INVALID_PHONE_NUMBER")


def test_an_export_holds_all_rows_and_an_erasure_keeps_the_books(
    services: Services, call: RequestContext, client: ExampleClient, clock: MovableClock
) -> None:
    pay(services, call, "R1")
    work(services, clock, 5)
    session = services.api_sessions.begin(BeginSession(NUMBER, CODE), call).session_id
    other = services.api_sessions.begin(BeginSession("+256770000001", CODE), call).session_id
    SubscriberLanguage.create(client_id=client.id, phone_number=NUMBER, language="lg")
    for number in (NUMBER, "+256770000001"):
        queue_sms(client.id, number, "Your order is ready", f"order of {number}", clock.now())
    held = services.personal_data.export("0770000000", operator()).held
    assert {name: len(rows) for name, rows in held.items()} == {
        "ussd_sessions": 1,
        "messages": 1,
        "subscriber_languages": 1,
        "subscriber_names": 0,
        "subscriber_pins": 0,
        "transactions": 1,
        "accounts": 0,
        "payment_codes": 0,
        "movements": 0,
        "payout_items": 0,
        "audit_events": 0,
        "api_requests": 0,
    }
    assert held["ussd_sessions"][0]["turns"]
    with pytest.raises(ServiceError, match="is open"):
        services.personal_data.erase(ErasePersonalData(NUMBER, **BY), operator())
    services.api_sessions.end(session, call)
    erased = services.personal_data.erase(ErasePersonalData(NUMBER, **BY), operator())
    assert erased.removed == {
        "ussd_sessions": 1,
        "messages": 1,
        "subscriber_languages": 1,
        "subscriber_names": 0,
        "subscriber_pins": 0,
        "registered_names": 0,
        "names_of_payers": 0,
        "bodies_of_requests": 0,
    }
    assert erased.kept["transactions"] == 1
    assert [row.id for row in UssdSession.select()] == [other]
    assert SubscriberLanguage.select().count() == 0
    event = AuditEvent.get(AuditEvent.action == "subscriber.erased")
    assert (event.phone_number, event.decided_by) == (NUMBER, "Mary Akello, John Okot")
    assert check_everything() == []


def test_money_that_others_sent_to_a_number_is_in_its_history_its_export_and_the_search(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    services.payment_codes.set_prefix(SetPrefix(str(call.client_id), "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees of Achieng", account=NUMBER), call)
    mother = "+256770000100"
    for account in (NUMBER, mother):
        into = request(number=mother, account=account, reference=f"into {account}")
        services.transactions.create(into, call)
    work(services, clock, 5)
    services.transactions.create(request("transfer", mother, to_phone_number=NUMBER, reference="sent"), call)
    services.transactions.create(request(number="+256770000001", reference="of another number"), call)
    references = ["sent", f"into {NUMBER}"]
    for limit in (50, 1):
        shown = [Transaction.get_by_id(each.id).reference for each in history(services, call, limit)]
        assert shown == references
    hits = services.search.search(Search(NUMBER), call).items
    assert [Transaction.get_by_id(hit.id).reference for hit in hits if hit.kind == "transaction"] == references
    held = services.personal_data.export(NUMBER, operator()).held
    assert {row["reference"] for row in held["transactions"]} == set(references)
    assert [(row["name"], row["balance_cents"]) for row in held["accounts"]] == [(NUMBER, 10_000_00)]
    assert [row["code"] for row in held["payment_codes"]] == ["SCH1"]
    assert history(services, operator_context(ExampleClient(services, "other").id)) == []


@pytest.mark.parametrize("change", [{"second": "MARY AKELLO"}, {"reason": " "}])
def test_an_erasure_takes_two_people_and_a_reason(services: Services, change: dict[str, str]) -> None:
    with pytest.raises(ServiceError) as refused:
        services.personal_data.erase(ErasePersonalData(NUMBER, **{**BY, **change}), operator())
    assert refused.value.code is Code.INVALID_REQUEST


def test_every_table_with_phone_numbers_is_removed_or_kept() -> None:
    named = {"phone_number", "to_phone_number", "account"}
    # The account of a receipt, a float, a statement or a day is one at a provider.
    at_providers = {MovementReceipt, ProviderAccount, ProviderStatement, StatementDifference, StatementCoverage}
    known = {*_REMOVED.values(), *_KEPT.values(), *at_providers, ClosedDay, DayProof}
    forgotten = {
        table.__name__ for table in Table.__subclasses__() if named & table._meta.fields.keys() and table not in known
    }
    assert not forgotten, f"add {', '.join(forgotten)} to _REMOVED or _KEPT of services/subscribers/personal_data.py"


def test_an_erasure_removes_the_registered_name_of_payees_and_keeps_their_rows(
    services: Services, clock: MovableClock
) -> None:
    desk = PayoutDesk(services, clock)
    desk.draft(row("a", NUMBER, 100, name="Sarah"))
    PayoutItem.update(registered_name="SARAH NAMUBIRU").execute()
    erased = services.personal_data.erase(ErasePersonalData(NUMBER, **BY), operator())
    assert (erased.removed["registered_names"], erased.kept["payout_items"]) == (1, 1)
    assert PayoutItem.get().registered_name is None
    assert check_everything() == []


def test_an_erasure_removes_what_the_request_log_keeps_of_the_number(
    services: Services, client: ExampleClient, web: FlaskClient
) -> None:
    key = client.create_key()
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
    written = (NUMBER, "0770000000", "0770 000-000", "(0770) 000.000", "+256 770\u00a0000 000")
    for number in (*written, "+256770000001"):
        assert web.post("/api/transactions", json={"phone_number": number}, headers=headers).status_code == 400
    named = {"phone_number": NUMBER, "type": "collection", "amount": 1000, "reference": "R1", NUMBER: "a field"}
    refused = web.post("/api/transactions", json=named, headers=headers)
    assert NUMBER in refused.json["message"]
    assert web.delete(f"/api/subscribers/{NUMBER}/pin", headers=headers).status_code == 200
    services.runtime.request_recorder.write()
    held = services.personal_data.export(NUMBER, operator()).held
    assert len(held["api_requests"]) == len(written) + 2
    erased = services.personal_data.erase(ErasePersonalData(NUMBER, **BY), operator())
    assert erased.removed["bodies_of_requests"] == len(written) + 1
    assert not [row.id for row in ApiRequest.select() if NUMBER[-9:] in (row.message or "")]
    kept = [(row.body, row.object_id) for row in ApiRequest.select().order_by(ApiRequest.id)]
    assert kept == [(None, None)] * len(written) + [
        ('{"phone_number":"+256770000001"}', None),
        (None, None),
        (None, None),
    ]
