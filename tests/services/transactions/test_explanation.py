# ruff: noqa: E501 - sentences are easier to compare on one line
"""What a transaction says of itself: its sentence, the cause of every change, and the entries in the ledger."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk
from tests.support.desk import FAILURE, NOT_SENT, PENDING, SUCCESS, UNKNOWN, Desk, FakeProvider
from tests.support.money import a_client, deposit, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FAILURES, FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.transactions.explanation import explain
from ussd_server.services.transactions.messages import (
    CreateRefund,
    Failure,
    GetTransaction,
    ListTransactions,
    TransactionStatus,
    TransactionType,
    TransactionView,
)

AT = datetime(2026, 11, 22, 11, 3, 12, tzinfo=UTC)
NEXT = datetime(2026, 11, 22, 11, 3, 42, tzinfo=UTC)
THEN, SOON = "at 14:03:12 on 22 Nov 2026 (Kampala)", "at 14:03:42 on 22 Nov 2026 (Kampala)"


def view(kind: str, status: str, **more: Any) -> TransactionView:
    code = more.pop("code", None)
    failure = Failure(code, FAILURES[code].message, FAILURES[code].fault, FAILURES[code].retry) if code else None
    known = {
        "transaction_id": "t",
        "reference": "r",
        "type": TransactionType(kind),
        "phone_number": "+256772123456",
        "to_phone_number": "+256772000001",
        "amount_cents": 500_000,
        "fee_cents": 0,
        "currency": "UGX",
        "account": "main",
        "provider": None if kind in ("transfer", "deposit") else "mtn",
        "status": TransactionStatus(status),
        "failure": failure,
        "late": False,
        "created_at": AT,
        "updated_at": AT,
        "refunded_amount_cents": 0,
    }
    return TransactionView(**(dict.fromkeys(each.name for each in fields(TransactionView)) | known | more))


@pytest.mark.parametrize(
    ("kind", "status", "more", "sentence"),
    [
        (
            "collection",
            "created",
            {},
            "UGX 5,000 is still with the payer and nothing was sent to MTN yet; it is sent as soon as MTN takes it.",
        ),
        (
            "collection",
            "submitted",
            {"next_check_at": NEXT},
            f"The request was sent to MTN {THEN} without an answer so far, and no money has arrived; MTN is asked again {SOON}.",
        ),
        (
            "collection",
            "pending",
            {"next_check_at": NEXT},
            f"MTN accepted the payment {THEN} and waits for the payer to approve it; UGX 5,000 is still with the payer; MTN is asked again {SOON}.",
        ),
        (
            "collection",
            "ambiguous",
            {"next_check_at": NEXT},
            f"MTN has not said whether it took UGX 5,000 from the payer, and none of it has arrived here; MTN is asked again {SOON}.",
        ),
        (
            "collection",
            "ambiguous",
            {"next_check_at": NEXT, "review": True},
            f"MTN has not said whether it took UGX 5,000 from the payer, and none of it has arrived here; an operator is finding out what happened, and MTN is asked again {SOON}.",
        ),
        (
            "collection",
            "succeeded",
            {"fee_cents": 7_550},
            f"UGX 5,000 arrived in the main account {THEN}, less a fee of UGX 75.50. Complete.",
        ),
        (
            "collection",
            "succeeded",
            {"account": "+256772000009"},
            f"UGX 5,000 arrived in the account of +256772000009 {THEN}. Complete.",
        ),
        (
            "collection",
            "succeeded",
            {"late": True, "review": True},
            f"UGX 5,000 arrived in the main account {THEN} although MTN had reported a failure before; an operator is finding out what happened.",
        ),
        (
            "collection",
            "succeeded",
            {"refunded_amount_cents": 200_000},
            f"UGX 5,000 arrived in the main account {THEN}; UGX 2,000 of it was refunded or is being refunded. Complete.",
        ),
        (
            "collection",
            "reversed",
            {"refunded_amount_cents": 500_000},
            "UGX 5,000 was collected and all of it was refunded to the payer. Complete.",
        ),
        (
            "collection",
            "reversed",
            {"refunded_amount_cents": 500_000, "taken_back": True},
            f"Operators took UGX 5,000 out of the books again {THEN}; its history says why. Complete.",
        ),
        (
            "collection",
            "failed",
            {"code": "PAYER_DECLINED", "next_check_at": NEXT},
            f"The payer declined the payment, so UGX 5,000 stayed with the payer; MTN is asked once more {SOON}, and a new payment can be made.",
        ),
        (
            "disbursement",
            "created",
            {},
            "UGX 5,000 is reserved in the main account and nothing was sent to MTN yet; it is sent as soon as MTN takes it.",
        ),
        (
            "disbursement",
            "submitted",
            {"next_check_at": NEXT},
            f"The request was sent to MTN {THEN} without an answer so far; UGX 5,000 stays reserved in the main account; MTN is asked again {SOON}.",
        ),
        (
            "disbursement",
            "pending",
            {"next_check_at": NEXT},
            f"MTN accepted the payment {THEN} and has not finished it; UGX 5,000 stays reserved in the main account; MTN is asked again {SOON}.",
        ),
        (
            "disbursement",
            "ambiguous",
            {"next_check_at": NEXT},
            f"MTN has not said whether the payee got UGX 5,000, which stays reserved in the main account until it does; MTN is asked again {SOON}.",
        ),
        (
            "disbursement",
            "succeeded",
            {},
            f"UGX 5,000 left the main account and reached the payee {THEN}. Complete.",
        ),
        (
            "disbursement",
            "succeeded",
            {"late": True},
            f"UGX 5,000 left the main account and reached the payee {THEN} although MTN had reported a failure before. Complete.",
        ),
        (
            "disbursement",
            "failed",
            {"code": "CLIENT_FLOAT_LOW"},
            "The float held with the provider is too low, so the payee got nothing and UGX 5,000 is available in the main account again; a new payment can be made later.",
        ),
        (
            "refund",
            "succeeded",
            {},
            f"UGX 5,000 left the main account and reached the payer {THEN}. Complete.",
        ),
        (
            "refund",
            "failed",
            {"code": "PAYEE_NOT_FOUND"},
            "The payee has no mobile money account, so the payer got nothing and UGX 5,000 is available in the main account again; the same payment would fail again.",
        ),
        (
            "transfer",
            "succeeded",
            {},
            f"UGX 5,000 moved from the main account to the account of +256772000001 {THEN}. Complete.",
        ),
        (
            "deposit",
            "succeeded",
            {},
            f"UGX 5,000 was credited to the main account by the operator {THEN}. Complete.",
        ),
    ],
)
def test_a_sentence_says_where_the_money_is_and_what_happens_next(
    kind: str, status: str, more: dict[str, Any], sentence: str
) -> None:
    known = {"is_in_review": more.pop("review", False), "is_taken_back": more.pop("taken_back", False)}
    assert explain(view(kind, status, **more), **known) == sentence


@pytest.mark.parametrize("code", FailureCode)
@pytest.mark.parametrize("kind", ["collection", "disbursement", "refund"])
def test_every_failure_is_explained_by_its_message_and_what_helps(kind: str, code: FailureCode) -> None:
    sentence = explain(view(kind, "failed", code=code), is_in_review=False)
    assert sentence.startswith(FAILURES[code].message)
    assert "payment" in sentence.rpartition("; ")[2]


@pytest.mark.parametrize("kind", TransactionType)
@pytest.mark.parametrize("status", TransactionStatus)
def test_no_type_and_status_is_without_a_sentence(kind: TransactionType, status: TransactionStatus) -> None:
    sentence = explain(view(kind, status), is_in_review=False)
    assert sentence.endswith(".")
    assert "None" not in sentence


def known(desk: Desk) -> list[tuple[str, dict[str, Any]]]:
    events = desk.services.transactions.get(GetTransaction(desk.id), desk.call).events
    details = [{name: value for name, value in asdict(event.detail).items() if value is not None} for event in events]
    return [
        (event.status.value, detail | ({"took_ms": 0} if "took_ms" in detail else {}))
        for event, detail in zip(events, details, strict=True)
    ]


def test_every_change_says_which_call_it_followed_and_what_was_answered(desk: Desk, provider: FakeProvider) -> None:
    provider.asked = [UNKNOWN]
    provider.enquired = [
        PENDING,
        ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_DECLINED, reason="APPROVAL_REJECTED"),
    ]
    desk.order()
    assert known(desk) == [("created", {"left_machine": False})]
    desk.work(60)
    query = {"attempt": 1, "sent": "status_query", "left_machine": True, "took_ms": 0}
    assert known(desk)[1:] == [
        ("submitted", {"attempt": 1, "sent": "payment"}),
        ("ambiguous", query | {"sent": "payment", "code": "UNKNOWN"}),
        ("pending", query | {"code": "PENDING"}),
        ("failed", query | {"code": "PAYER_DECLINED", "provider_code": "APPROVAL_REJECTED"}),
    ]


def test_a_payment_that_never_left_says_so(desk: Desk, provider: FakeProvider) -> None:
    provider.asked = [NOT_SENT]
    desk.order()
    desk.work(90)
    status, detail = known(desk)[-1]
    assert (status, detail["left_machine"], detail["code"]) == ("failed", False, "PROVIDER_UNAVAILABLE")


def entries(desk: Desk, transaction_id: str) -> dict[str, set[tuple[str, int, str]]]:
    events = desk.services.transactions.get(GetTransaction(transaction_id), desk.call).events
    return {
        event.status.value: {(entry.account, entry.amount_cents, entry.purpose) for entry in event.ledger}
        for event in events
        if event.ledger
    }


def test_every_change_lists_the_entries_that_it_made(desk: Desk, provider: FakeProvider) -> None:
    desk.order("disbursement")
    desk.work(0)
    reserved = {("main", -500_000, "amount_reserved")}
    assert entries(desk, desk.id) == {"created": reserved}
    provider.enquired = [SUCCESS]
    desk.work(60)
    moved = {("main", -500_000, "amount"), ("provider:sandbox", 500_000, "amount")}
    assert entries(desk, desk.id) == {"created": reserved, "succeeded": moved}
    provider.asked = [FAILURE]
    deposit(desk.services, desk.call, 5000, "again")
    failed = desk.services.transactions.create(request("disbursement", reference="2"), desk.call)
    desk.processing.advance(desk.processing.claim(1)[0])
    released = {("main", 500_000, "amount_released")}
    assert entries(desk, failed.transaction.transaction_id) == {"created": reserved, "failed": released}


def test_a_refund_names_its_collection_and_a_collection_what_was_refunded(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    transactions, refunds = services.transactions, services.refunds
    collected = transactions.create(request(), call).transaction
    work(services, clock, 3)
    made = refunds.create(CreateRefund(collected.transaction_id, "back", 150_000), call).transaction
    assert (made.refund_of, made.refunded_amount_cents) == (collected.transaction_id, 0)
    assert transactions.get(GetTransaction(collected.transaction_id), call).refunded_amount_cents == 150_000
    work(services, clock, 3)
    refunds.create(CreateRefund(collected.transaction_id, "rest"), call)
    work(services, clock, 3)
    listed = {item.reference: item for item in transactions.list(ListTransactions(), call).items}
    whole = listed[collected.reference]
    assert (whole.status, whole.refunded_amount_cents, whole.refund_of) == ("reversed", 500_000, None)
    assert services.reviews.show(whole.transaction_id, operator()).transaction.explanation == (
        "UGX 5,000 was collected and all of it was refunded to the payer. Complete."
    )


def test_transactions_are_found_by_the_providers_number_and_by_payout(services: Services, clock: MovableClock) -> None:
    desk, transactions = PayoutDesk(services, clock), services.transactions
    call = desk.maker
    single = transactions.create(request(reference="a"), call).transaction.transaction_id
    payout = desk.approve(desk.draft_of(1)).payout_id
    services.payout_sender.advance(payout)
    (of_payout,) = Transaction.select(Transaction.id).where(Transaction.payout_id == payout).scalars()
    work(services, clock, 3)
    receipt = transactions.get(GetTransaction(single), call).provider_transaction_id

    def found(**filters: str) -> list[str]:
        return [item.transaction_id for item in transactions.list(ListTransactions(**filters), call).items]  # type: ignore[arg-type]

    assert receipt is not None
    assert found(provider_transaction_id=receipt) == [single]
    assert found(payout_id=payout) == [of_payout]
    assert found(payout_id="no id") == found(provider_transaction_id="x") == []
    other = ListTransactions(provider_transaction_id=receipt)
    assert transactions.list(other, a_client("Other")).items == ()
