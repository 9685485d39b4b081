"""Receipts: written once with the success of a payment, in the language and with the values of its subscriber."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.services.incoming.till import Till
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator, request, work
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.sending import Sms
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberLanguage
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.transactions.messages import Source

PHONE = "+256770000000"
TEXTS = {"en": "Got UGX {{amount|ugx}} for {{reference|upper}}. Yours: {{balance|ugx}}.", "lg": "Tufunye {{amount}}"}


@pytest.fixture
def client(services: Services) -> ExampleClient:
    return ExampleClient(services)


@pytest.fixture
def call(services: Services, client: ExampleClient, web: FlaskClient) -> RequestContext:
    """A caller of a client with receipts for collections and transfers."""
    receipts = {"collection": TEXTS, "transfer": {"sw": "Umetuma {{amount|ugx}}, baki {{balance|ugx}}"}}
    assert settings(client, web, {"receipts": receipts}) == (200, receipts)
    return operator_context(client.id)


def settings(client: ExampleClient, web: FlaskClient, body: object, role: str = "owner") -> tuple[int, object]:
    """Change the client's settings as one of its people; gives the status and the receipts, or the message."""
    reply = client.browser(web, role).ask("PATCH", "settings", body)
    return reply.status_code, reply.json["data"]["receipts"] if reply.json["data"] else reply.json["message"]


def pay(services: Services, call: RequestContext, reference: str = "order-7", **more: object) -> str:
    made = services.transactions.create(request(reference=reference, **more), call)  # type: ignore[arg-type]
    return made.transaction.transaction_id


def texts() -> list[str]:
    return [row.text for row in Sms.select().order_by(Sms.id)]


def test_a_payment_that_succeeded_has_one_receipt(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    paid = pay(services, call)
    assert texts() == [], "nothing is final yet"
    work(services, clock, 5)
    work(services, clock, 5)
    (receipt,) = Sms.select()
    assert (receipt.text, receipt.phone_number) == ("Got UGX 5,000 for ORDER-7. Yours: 0.", PHONE)
    assert (receipt.transaction_id, receipt.reference) == (paid, f"receipt/{paid}")
    assert check_everything() == []


@pytest.mark.parametrize("till_knows", [PHONE, None])
def test_money_that_a_till_reported_first_has_one_receipt_at_the_phone_that_is_known(
    services: Services, call: RequestContext, clock: MovableClock, till_knows: str | None
) -> None:
    services.payment_codes.set_prefix(SetPrefix(str(call.client_id), "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees"), call)
    paid = Till(services).pay("SCH1", 5000, "R1", number=till_knows).transaction_id
    asked = pay(services, call)
    answer = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id="R1", amount_cents=5000_00)
    schedule = next(iter(services.runtime.providers)).schedule
    services.processing.apply_answer(asked, schedule, answer, Source.POLL, clock.now())
    assert Transaction.get_by_id(asked).same_money_as == paid
    assert [row.phone_number for row in Sms.select()] == [PHONE]


def test_a_failed_payment_and_a_type_without_texts_have_none(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    deposit(services, call, 10_000)
    pay(services, call, number="+256770000002")
    pay(services, call, kind="disbursement", reference="wage")
    work(services, clock, 5)
    assert {row.status for row in Transaction.select().where(Transaction.type != "deposit")} == {"failed", "succeeded"}
    assert texts() == []


def test_a_receipt_is_in_the_language_of_the_subscriber(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    for number, language in ((PHONE, "lg"), ("+256770000042", "fr")):
        SubscriberLanguage.create(client_id=call.client_id, phone_number=number, language=language)
        pay(services, call, number, number=number, shillings=6000)
    work(services, clock, 5)
    assert sorted(texts()) == ["Got UGX 6,000 for +256770000042. Yours: 0.", "Tufunye 6000"]


def test_a_transfer_has_its_receipt_at_once_with_the_balance_of_the_payer(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    pay(services, call, "saving", account=PHONE)
    work(services, clock, 5)
    Sms.delete().execute()
    for _ in range(2):
        pay(services, call, "gift", kind="transfer", shillings=1500, to_phone_number="+256770000042")
    assert texts() == ["Umetuma 1,500, baki 3,500"]
    assert check_everything() == []


def test_a_service_without_a_sender_writes_no_receipt(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    silent = Services(other_runtime(services, sms_sender=None))
    pay(silent, call)
    work(silent, clock, 5)
    assert texts() == []


@pytest.mark.parametrize(
    "text", ["{{name}}", "{{vars.amount}}", "{{amount|shout}}", "}}", "{{item}}", "a" * 460, "{{reference}}" * 8]
)
def test_a_text_that_cannot_be_read_or_is_too_long_is_refused(
    client: ExampleClient, web: FlaskClient, text: str
) -> None:
    status, message = settings(client, web, {"receipts": {"collection": {"en": text}}})
    assert status == 400
    assert "receipts.collection.en: " in str(message)


@pytest.mark.parametrize("receipts", [{"deposit": {}}, {"refund": {"English": "Hi"}}, {"refund": {"en": ""}}, [], None])
def test_settings_of_another_form_are_refused(client: ExampleClient, web: FlaskClient, receipts: object) -> None:
    assert settings(client, web, {"receipts": receipts})[0] == 400


def test_owners_change_receipts_type_by_type_and_others_read_them(
    client: ExampleClient, call: RequestContext, web: FlaskClient
) -> None:
    assert settings(client, web, {"receipts": {}}, "developer") == (403, "Insufficient permissions")
    status, left = settings(client, web, {"receipts": {"transfer": {}}})
    assert (status, left) == (200, {"collection": TEXTS})
    reply = client.browser(web, "viewer").ask("GET", "settings")
    assert reply.json["data"] == {
        "receipts": {"collection": TEXTS},
        "approval_rules": [{"above": 0, "approvals": 1}],
        "proposed_approval_rules": None,
    }
