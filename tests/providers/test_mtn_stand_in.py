"""Our MTN adapter agrees with the stand-in, which was written from MTN's documents, not from the adapter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.meetings import LONG_SECONDS, Meeting, meet_mtn, payment_of
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, Registration


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    with meet_mtn() as met:
        yield met


def payment(
    number: str = "+256772123456", direction: Direction = Direction.COLLECTION, original: str | None = None
) -> PaymentOrder:
    return payment_of(number, 500_000, direction, original)


PAYERS = {
    "450": FailureCode.PROVIDER_ERROR, "451": FailureCode.PAYER_DECLINED, "452": FailureCode.PAYER_TIMEOUT,
    "455": FailureCode.PAYER_NOT_FOUND, "456": FailureCode.PROVIDER_CONFIG, "457": FailureCode.PROVIDER_CONFIG,
    "458": FailureCode.PROVIDER_CONFIG, "459": FailureCode.PROVIDER_CONFIG, "460": FailureCode.PROVIDER_CONFIG,
    "461": FailureCode.PROVIDER_ERROR, "462": FailureCode.PROVIDER_UNAVAILABLE, "463": FailureCode.PAYER_TIMEOUT,
    "464": FailureCode.PROVIDER_CONFIG,
}  # fmt: skip
PAYEES = {
    "450": FailureCode.PROVIDER_ERROR, "451": FailureCode.PAYER_DECLINED, "452": FailureCode.PAYER_TIMEOUT,
    "455": FailureCode.CLIENT_FLOAT_LOW, "456": FailureCode.CLIENT_FLOAT_LOW, "457": FailureCode.PAYEE_NOT_FOUND,
    "458": FailureCode.PROVIDER_CONFIG, "459": FailureCode.PROVIDER_CONFIG, "460": FailureCode.PROVIDER_CONFIG,
    "461": FailureCode.PROVIDER_CONFIG, "462": FailureCode.PROVIDER_ERROR, "463": FailureCode.PROVIDER_UNAVAILABLE,
}  # fmt: skip
FAILING = [(Direction.COLLECTION, digits, code) for digits, code in PAYERS.items()] + [
    (Direction.DISBURSEMENT, digits, code) for digits, code in PAYEES.items()
]


@pytest.mark.parametrize(("direction", "digits", "code"), FAILING)
@pytest.mark.parametrize("as_object", [False, True])
def test_every_magic_number_that_fails_is_understood(
    meeting: Meeting, direction: Direction, digits: str, code: FailureCode, as_object: bool
) -> None:
    meeting.flick(reason_as_object=as_object)
    request = payment(f"+46733123{digits}", direction)
    assert meeting.send(request).outcome is Outcome.PENDING
    reported = meeting.query_status(request)
    assert (reported.outcome, reported.failure) == (Outcome.FAILED, code)


@pytest.mark.parametrize("direction", [Direction.COLLECTION, Direction.DISBURSEMENT])
def test_any_other_number_succeeds_with_its_amount(meeting: Meeting, direction: Direction) -> None:
    request = payment(direction=direction)
    assert meeting.send(request).outcome is Outcome.PENDING
    reported = meeting.query_status(request)
    assert (reported.outcome, reported.amount_cents) == (Outcome.SUCCEEDED, 500_000)
    assert reported.provider_transaction_id


def test_ongoing_succeeds_later_and_delayed_never_ends(meeting: Meeting) -> None:
    ongoing, delayed = payment("+46733123453"), payment("+46733123454")
    for request in (ongoing, delayed):
        meeting.send(request)
        assert meeting.query_status(request).outcome is Outcome.PENDING
    meeting.stand_in.advance(30)
    assert meeting.query_status(ongoing).outcome is Outcome.SUCCEEDED
    assert meeting.query_status(delayed).outcome is Outcome.PENDING


@pytest.mark.parametrize(("direction", "digits", "code"), FAILING)
def test_a_permanent_refusal_at_once_is_definite_and_a_passing_one_is_not(
    meeting: Meeting, direction: Direction, digits: str, code: FailureCode
) -> None:
    meeting.flick(refuse_at_once=True)
    request = payment(f"+46733123{digits}", direction)
    asked = meeting.send(request)
    if meeting.known(request):
        assert asked.outcome is Outcome.PENDING
    elif code in (FailureCode.PROVIDER_ERROR, FailureCode.PROVIDER_UNAVAILABLE):
        assert asked.outcome is Outcome.UNKNOWN
    else:
        assert (asked.outcome, asked.failure) == (Outcome.FAILED, code)


def test_a_refund_gives_a_collection_back_once(meeting: Meeting) -> None:
    collected = payment()
    meeting.send(collected)
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
        refund = payment(direction=Direction.REFUND, original=collected.provider_reference)
        assert meeting.send(refund).outcome is Outcome.PENDING
        assert meeting.query_status(refund).outcome is outcome


def test_a_payment_that_the_payer_began_is_given_back_by_a_transfer(meeting: Meeting) -> None:
    refund = payment(direction=Direction.REFUND)
    assert meeting.send(refund).outcome is Outcome.PENDING
    assert meeting.query_status(refund).outcome is Outcome.SUCCEEDED
    assert meeting.stand_in.book.find(refund.provider_reference).kind == "transfer"


def test_a_repeated_request_takes_money_once(meeting: Meeting) -> None:
    request = payment()
    assert meeting.send(request).outcome is Outcome.PENDING
    assert meeting.send(request).outcome is Outcome.SUCCEEDED
    assert meeting.stand_in.book.paid_cents(("requesttopay",), None) == 500_000


def test_an_expired_token_is_renewed(meeting: Meeting) -> None:
    meeting.send(payment())
    meeting.stand_in.advance(3600)
    assert meeting.send(payment()).outcome is Outcome.PENDING


def test_float_and_name_are_read(meeting: Meeting) -> None:
    meeting.send(payment(direction=Direction.DISBURSEMENT))
    assert meeting.provider.balance_cents(Direction.COLLECTION, LONG_SECONDS) == 0
    assert meeting.provider.balance_cents(Direction.DISBURSEMENT, LONG_SECONDS) == 100_000_000_00 - 500_000
    assert meeting.provider.look_up("+256772123456", LONG_SECONDS) == Registration("Sand Box", True)
    assert meeting.provider.look_up("+46733123450", LONG_SECONDS) == Registration(None, False)
