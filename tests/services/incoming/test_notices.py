"""Payments that payers make by themselves: booked once under an exact code, and held otherwise."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import PAYER, Till
from tests.support.books import check_everything
from tests.support.crowd import at_once
from tests.support.example_client import ExampleClient
from tests.support.money import agree_fee, balances, operator, request, work
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.clients import Client
from ussd_server.models.sending import Event, Receipt, Sms
from ussd_server.models.transactions import Transaction
from ussd_server.senders.sandbox import SandboxSender
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.incoming.booking import IncomingBook, find_code, misfit_of
from ussd_server.services.incoming.messages import CheckPayment, PutPaymentCode, SetPrefix
from ussd_server.services.incoming.notices import NoticeService
from ussd_server.services.movements.messages import ListMovements
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.messages import CreateRefund, GetTransaction, TransactionType
from ussd_server.status import Code, ServiceError


def put(services: Services, client: ExampleClient, code: str, **more: object) -> None:
    services.payment_codes.put(PutPaymentCode(code, "Fees", **more), operator_context(client.id))  # type: ignore[arg-type]


def why_held(services: Services) -> list[str | None]:
    return [each.held_because for each in services.movements.list(ListMovements(is_held=True), operator()).items]


@pytest.mark.parametrize("typed", ["SCH1042", "sch 1042", " s-c-h–10 42 "])
def test_a_payment_is_booked_under_its_code_without_regard_to_case_spaces_and_hyphens(
    services: Services, school: ExampleClient, till: Till, typed: str
) -> None:
    agree_fee(FeeTerms(school.id, TransactionType.COLLECTION, 100_00, 0))
    paid = till.pay(typed, name="Achieng Sarah")
    assert paid.status == "booked"
    seen = services.transactions.get(GetTransaction(paid.transaction_id or ""), operator_context(school.id))
    assert (seen.type, seen.status, seen.origin, seen.reference) == ("collection", "succeeded", "payer", "in/R1")
    assert (seen.provider, seen.provider_transaction_id, seen.phone_number) == ("sandbox", "R1", PAYER)
    assert (seen.amount_cents, seen.fee_cents, seen.metadata) == (5000_00, 100_00, {"payment_code": "SCH1042"})
    assert [(each.status, each.source) for each in seen.events] == [("created", "callback"), ("succeeded", "callback")]
    events = Event.select().where(Event.object_id == paid.transaction_id).order_by(Event.id)
    assert [each.type for each in events] == ["transaction.created", "transaction.succeeded"]
    held = balances(school.id)
    assert (held["main"], held["fees"], held["provider:sandbox"]) == ((4900_00, 0), (100_00, 0), (-5000_00, 0))
    assert check_everything() == []


def test_a_repeated_notice_books_nothing_again(services: Services, school: ExampleClient, till: Till) -> None:
    first = till.pay("SCH1042")
    assert [till.pay("SCH1042"), till.pay("SCH9999"), till.pay("SCH1042", receipt=" r\u200b-1 ")] == [first] * 3
    assert balances(school.id)["main"] == (5000_00, 0)


def test_a_notice_of_a_booked_receipt_with_another_amount_is_shown_to_operators(
    services: Services, school: ExampleClient, till: Till
) -> None:
    first = till.pay("SCH1042")
    for _ in range(2):
        contradiction = till.pay("SCH1042", 9999)
        assert (contradiction.status, contradiction.transaction_id) == ("held", None)
    (review,) = services.reviews.list(operator())
    assert review.transaction.transaction_id == first.transaction_id
    assert review.reason == "the provider reported its receipt again with UGX 9,999"
    assert till.pay("SCH1042") == first
    assert balances(school.id)["main"] == (5000_00, 0)
    assert check_everything() == []


def test_the_same_notice_at_once_is_booked_once(services: Services, school: ExampleClient, till: Till) -> None:
    answers = at_once([lambda: till.pay("SCH1042")] * 4)
    assert len(set(answers)) == 1
    assert answers[0].status == "booked"
    assert balances(school.id)["main"] == (5000_00, 0)


def test_two_providers_may_use_the_same_receipt(services: Services, school: ExampleClient, till: Till) -> None:
    first, second = till.pay("SCH1042"), till.pay("SCH1042", 700, provider="airtel")
    rows = [Transaction.get_by_id(each.transaction_id) for each in (first, second)]
    assert [row.reference for row in rows] == ["in/R1", "in/R1/2"]
    assert balances(school.id)["main"] == (5700_00, 0)


@pytest.mark.parametrize("typed", ["SCH1043", "SCH104", "SCHI042", "", "SCH1042X", "ŚCH1042", "TEA1"])
def test_a_payment_whose_code_is_not_exact_is_held(
    services: Services, school: ExampleClient, till: Till, typed: str
) -> None:
    assert (till.pay(typed).transaction_id, till.pay(typed).status) == (None, "held")
    assert why_held(services) == ["This code is not known"]
    assert "main" not in balances(school.id)


def test_a_code_takes_its_amount_alone_and_only_while_it_may(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    put(services, school, "SCH1", amount_cents=5000_00)
    put(services, school, "SCH2", min_amount_cents=1000_00, max_amount_cents=2000_00)
    put(services, school, "SCH3", expires_at=clock.now() + timedelta(hours=1))
    put(services, school, "SCH4", single_use=True)
    takes = [("SCH1", 5000), ("SCH2", 1000), ("SCH2", 2000), ("SCH3", 1), ("SCH4", 1)]
    assert {till.pay(code, shillings, f"{code} {shillings}").status for code, shillings in takes} == {"booked"}
    clock.advance(3600)
    refuses = [("SCH1", 4999), ("SCH2", 999), ("SCH2", 2001), ("SCH3", 2), ("SCH4", 2)]
    assert {till.pay(code, shillings, f"{code} {shillings}").status for code, shillings in refuses} == {"held"}
    assert list(reversed(why_held(services))) == [
        "This code takes UGX 5,000",
        "This code takes at least UGX 1,000 and at most UGX 2,000",
        "This code takes at least UGX 1,000 and at most UGX 2,000",
        "This code has expired",
        "This code was for one payment, which has been made",
    ]


def test_a_payment_that_was_told_with_two_amounts_stays_held(
    services: Services, school: ExampleClient, till: Till
) -> None:
    assert till.pay("SCH77").status == "held"
    put(services, school, "SCH77")
    assert till.pay("SCH77", 9).status == "held"
    assert why_held(services) == ["It was told with two amounts"]
    assert till.pay("SCH77").status == "held", "a repeat with the first amount does not forget the second"
    assert why_held(services) == ["It was told with two amounts"]


def test_money_for_a_disabled_client_or_a_deleted_code_is_held(
    services: Services, school: ExampleClient, till: Till
) -> None:
    Client.update(is_active=False).where(Client.id == school.id).execute()
    assert till.pay("SCH1042", receipt="A").status == "held"
    Client.update(is_active=True).where(Client.id == school.id).execute()
    services.payment_codes.delete("SCH1042", operator_context(school.id))
    assert till.pay("SCH1042", receipt="B").status == "held"


def test_a_notice_about_a_payment_that_was_asked_for_books_nothing(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    made = services.transactions.create(request(), operator_context(school.id)).transaction
    work(services, clock, 2)
    receipt = Transaction.get_by_id(made.transaction_id).provider_transaction_id
    assert till.pay("SCH1042", 5000, receipt).transaction_id == made.transaction_id
    assert balances(school.id)["main"] == (5000_00, 0)
    assert check_everything() == []


def test_a_notice_of_our_receipt_with_another_amount_opens_a_review(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    made = services.transactions.create(request(), operator_context(school.id)).transaction
    work(services, clock, 2)
    receipt = Transaction.get_by_id(made.transaction_id).provider_transaction_id
    assert till.pay("SCH1042", 4999, receipt).status == "held"
    assert why_held(services) == []
    (review,) = services.reviews.list(operator())
    assert review.reason == "the provider reported its receipt again with UGX 4,999"
    assert balances(school.id)["main"] == (5000_00, 0)


def test_a_code_credits_its_own_account_and_the_fee_is_paid_from_there(
    services: Services, school: ExampleClient, till: Till
) -> None:
    agree_fee(FeeTerms(school.id, TransactionType.COLLECTION, 100_00, 0))
    put(services, school, "SCH5", account="+256772000005")
    paid = till.pay("SCH5")
    assert Transaction.get_by_id(paid.transaction_id).account == "+256772000005"
    assert balances(school.id)["+256772000005"] == (4900_00, 0)
    assert "main" not in balances(school.id)


def test_a_code_takes_nothing_from_the_moment_of_its_expiry(
    services: Services, school: ExampleClient, clock: MovableClock
) -> None:
    put(services, school, "SCH6", expires_at=clock.now() + timedelta(seconds=60))
    code = find_code("SCH6")
    assert code is not None
    assert misfit_of(code, 1, code.expires_at) == "This code has expired"
    assert misfit_of(code, 1, code.expires_at - timedelta(milliseconds=1)) is None


@pytest.mark.parametrize("typed", ["\u017fCH1042", "\uff33\uff23\uff281042"])
def test_letters_of_other_scripts_are_not_those_of_a_code(
    services: Services, school: ExampleClient, till: Till, typed: str
) -> None:
    assert typed.upper() != typed or not typed.isascii()
    assert till.pay(typed).status == "held"


def test_a_check_says_who_is_paid_or_why_the_payment_would_be_held(services: Services, school: ExampleClient) -> None:
    put(services, school, "SCH1", amount_cents=5000_00)
    check = services.notices.check
    seen = check(CheckPayment("sch-1042"))
    assert (seen.accepted, seen.name, seen.message) == (True, "school", "Fees of Achieng")
    assert check(CheckPayment("SCH1")).accepted
    refused = check(CheckPayment("SCH1", 4000_00))
    assert (refused.accepted, refused.name, refused.message) == (False, None, "This code takes UGX 5,000.")
    assert check(CheckPayment("SCH1043")).message == "This code is not known."


def test_while_money_is_held_a_notice_is_refused_and_can_be_repeated(
    services: Services, school: ExampleClient, till: Till
) -> None:
    runtime = other_runtime(services, hold_money=True)
    closed = NoticeService(runtime, IncomingBook(runtime, TransactionCreator(runtime)))
    with pytest.raises(ServiceError) as refused:
        Till(services, closed).pay("SCH1042")
    assert refused.value.code is Code.SERVICE_UNAVAILABLE
    assert why_held(services) == []
    assert till.pay("SCH1042").status == "booked"


def test_of_two_payments_at_once_a_code_for_single_use_takes_one(
    services: Services, school: ExampleClient, till: Till
) -> None:
    put(services, school, "SCH4", single_use=True)
    answers = at_once([lambda receipt=receipt: till.pay("SCH4", receipt=receipt) for receipt in "ABCD"])  # type: ignore[misc]
    assert sorted(answer.status for answer in answers) == ["booked", "held", "held", "held"]
    assert balances(school.id)["main"] == (5000_00, 0)


def test_a_payer_gets_one_receipt_however_often_the_payment_is_reported(
    services: Services, school: ExampleClient
) -> None:
    till = Till(Services(other_runtime(services, sms_sender=SandboxSender())))
    Receipt.insert(client_id=school.id, type="collection", texts={"en": "UGX {{amount|ugx}}, {{reference}}"}).execute()
    paid = [till.pay("SCH1042") for _ in range(2)]
    (receipt,) = Sms.select()
    assert (receipt.phone_number, receipt.text) == (PAYER, "UGX 5,000, in/R1")
    assert receipt.transaction_id == paid[0].transaction_id


def test_a_payment_above_the_bound_of_amounts_is_given_back_in_one_piece(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    booked = till.pay("SCH1042", 2_500_000, number="+256770000000")
    refund = services.refunds.create(
        CreateRefund(booked.transaction_id or "", "back", reason="Too much"), school.at_console()
    )
    work(services, clock)
    given = Transaction.get_by_id(refund.transaction.transaction_id)
    assert (given.status, given.amount_cents) == ("succeeded", 250_000_000)
    assert Transaction.get_by_id(booked.transaction_id).status == "reversed"
    assert check_everything() == []


def test_what_was_paid_before_a_code_was_anothers_is_not_booked_to_the_new_owner(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    paid_at, shop = clock.now(), ExampleClient(services, "shop")
    clock.advance(3600)
    services.payment_codes.delete("SCH1042", operator_context(school.id))
    services.payment_codes.set_prefix(SetPrefix(school.id, "EDU"), operator())
    services.payment_codes.set_prefix(SetPrefix(shop.id, "SCH"), operator())
    put(services, shop, "SCH1042")
    clock.advance(60)
    assert till.pay("SCH1042", receipt="R1", at=paid_at).status == "held"
    assert till.pay("SCH1042", receipt="R2", at=clock.now() - timedelta(seconds=90)).status == "booked"
    assert balances(shop.id)["main"] == (5000_00, 0)


def test_what_was_paid_before_a_code_got_another_account_is_held(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    clock.advance(3600)
    put(services, school, "SCH1042")
    assert till.pay("SCH1042", receipt="R1", at=clock.now() - timedelta(minutes=5)).status == "booked"
    put(services, school, "SCH1042", account=PAYER)
    assert till.pay("SCH1042", receipt="R2", at=clock.now() - timedelta(minutes=5)).status == "held"
    assert till.pay("SCH1042", receipt="R3").status == "booked"


def test_an_open_request_of_another_client_decides_nothing_where_a_code_does(
    services: Services, school: ExampleClient, till: Till
) -> None:
    other = ExampleClient(services, "tea")
    services.transactions.create(request(number="+256770000006"), operator_context(other.id))
    assert till.pay("SCH1042", receipt="R1", number="+256770000006").status == "booked"
    assert till.pay("SCH9", receipt="R2", number="+256770000006").status == "held"
    assert why_held(services)[0].startswith("It may be what transaction")
