"""Our Airtel adapter agrees with the stand-in, which was written from Airtel's documents, not from the adapter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.providers.meetings import LONG_SECONDS, Meeting, meet_airtel, payment_of
from ussd_server.outbound.transport import Transport
from ussd_server.providers.airtel.adapter import AirtelProvider
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, Registration


@pytest.fixture(params=["v1", "v2"])
def meeting(request: pytest.FixtureRequest) -> Iterator[Meeting]:
    with meet_airtel(request.param) as met:
        yield met


@pytest.fixture
def unsigned() -> Iterator[Meeting]:
    with meet_airtel("v1") as met:
        yield met


def payment(number: str = "+256700123123", direction: Direction = Direction.COLLECTION) -> PaymentOrder:
    return payment_of(number, 50_000, direction)


PUSHES = {
    "02": FailureCode.WRONG_PIN, "03": FailureCode.PAYER_LIMIT_REACHED, "04": FailureCode.AMOUNT_OUT_OF_BOUNDS,
    "05": FailureCode.PAYER_TIMEOUT, "07": FailureCode.INSUFFICIENT_BALANCE, "08": FailureCode.PAYER_DECLINED,
    "09": FailureCode.PROVIDER_ERROR, "10": FailureCode.PAYER_BLOCKED, "29": FailureCode.PAYER_TIMEOUT,
}  # fmt: skip
PAYOUTS = {
    "03": FailureCode.PAYEE_LIMIT_REACHED, "04": FailureCode.AMOUNT_OUT_OF_BOUNDS, "05": FailureCode.PROVIDER_ERROR,
    "07": FailureCode.CLIENT_FLOAT_LOW, "09": FailureCode.PAYEE_NOT_FOUND, "10": FailureCode.PROVIDER_CONFIG,
    "12": FailureCode.PAYEE_NOT_FOUND, "13": FailureCode.PROVIDER_CONFIG, "18": FailureCode.PROVIDER_CONFIG,
}  # fmt: skip


@pytest.mark.parametrize(("digits", "code"), PUSHES.items())
def test_every_magic_push_that_fails_is_understood(meeting: Meeting, digits: str, code: FailureCode) -> None:
    request = payment(f"+2567500000{digits}")
    assert meeting.send(request).outcome is Outcome.PENDING
    reported = meeting.query_status(request)
    assert (reported.outcome, reported.failure) == (Outcome.FAILED, code)


@pytest.mark.parametrize(("digits", "code"), PAYOUTS.items())
def test_every_magic_payout_that_fails_is_understood_at_once_and_later(
    meeting: Meeting, digits: str, code: FailureCode
) -> None:
    request = payment(f"+2567500000{digits}", Direction.DISBURSEMENT)
    for reported in (meeting.send(request), meeting.query_status(request)):
        assert (reported.outcome, reported.failure) == (Outcome.FAILED, code)


@pytest.mark.parametrize("digits", ["00", "06"])
@pytest.mark.parametrize("direction", [Direction.COLLECTION, Direction.DISBURSEMENT])
def test_ambiguous_and_in_process_are_not_final_and_succeed_later(
    meeting: Meeting, digits: str, direction: Direction
) -> None:
    request = payment(f"+2567500000{digits}", direction)
    waiting = Outcome.UNKNOWN if digits == "00" else Outcome.PENDING
    assert meeting.send(request).outcome in (waiting, Outcome.PENDING)
    assert meeting.query_status(request).outcome is waiting
    meeting.stand_in.advance(180)
    assert meeting.query_status(request).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(("digits", "direction"), [("24", Direction.COLLECTION), ("14", Direction.DISBURSEMENT)])
def test_a_timeout_is_not_final_and_fails_later(meeting: Meeting, digits: str, direction: Direction) -> None:
    request = payment(f"+2567500000{digits}", direction)
    meeting.send(request)
    assert meeting.query_status(request).outcome is Outcome.UNKNOWN
    meeting.stand_in.advance(180)
    assert meeting.query_status(request).outcome is Outcome.FAILED


@pytest.mark.parametrize(("digits", "direction"), [("25", Direction.COLLECTION), ("15", Direction.DISBURSEMENT)])
def test_a_lost_request_is_unknown_then_not_found_then_taken_under_the_same_id(
    meeting: Meeting, digits: str, direction: Direction
) -> None:
    request = payment(f"+2567500000{digits}", direction)
    assert meeting.send(request).outcome is Outcome.UNKNOWN
    assert meeting.query_status(request).outcome is Outcome.NOT_FOUND
    meeting.send(request)
    assert meeting.query_status(request).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("direction", "code"),
    [(Direction.COLLECTION, FailureCode.PAYER_NOT_FOUND), (Direction.DISBURSEMENT, FailureCode.PAYEE_NOT_FOUND)],
)
def test_an_unknown_number_is_refused_at_once(meeting: Meeting, direction: Direction, code: FailureCode) -> None:
    request = payment("+256750000033", direction)
    assert meeting.send(request).failure is code
    assert not meeting.known(request)


def test_any_other_push_is_pending_and_then_paid(meeting: Meeting) -> None:
    request = payment()
    assert meeting.send(request).outcome is Outcome.PENDING
    reported = meeting.query_status(request)
    assert reported.outcome is Outcome.SUCCEEDED
    assert reported.provider_transaction_id


def test_any_other_payout_is_paid_at_once(meeting: Meeting) -> None:
    request = payment(direction=Direction.DISBURSEMENT)
    assert meeting.send(request).outcome is Outcome.SUCCEEDED
    assert meeting.query_status(request).outcome is Outcome.SUCCEEDED


def test_payouts_may_take_their_time(unsigned: Meeting) -> None:
    unsigned.flick(disbursements_pending=True, approve_delay_seconds=60)
    request = payment(direction=Direction.DISBURSEMENT)
    assert unsigned.send(request).outcome is Outcome.PENDING
    unsigned.stand_in.advance(60)
    assert unsigned.query_status(request).outcome is Outcome.SUCCEEDED


def test_a_push_under_a_false_id_is_pending(unsigned: Meeting) -> None:
    unsigned.flick(id_false=True)
    assert unsigned.send(payment()).outcome is Outcome.PENDING


def test_a_repeated_request_takes_money_once(meeting: Meeting) -> None:
    for direction, kind in ((Direction.COLLECTION, "payment"), (Direction.DISBURSEMENT, "disbursement")):
        request = payment(direction=direction)
        meeting.send(request)
        assert meeting.send(request).outcome is Outcome.PENDING
        assert meeting.query_status(request).outcome is Outcome.SUCCEEDED
        assert meeting.stand_in.book.paid_cents((kind,), None) == 50_000


def test_a_refund_gives_a_payment_back_whole_and_once(meeting: Meeting) -> None:
    collected = payment()
    meeting.send(collected)
    receipt = meeting.query_status(collected).provider_transaction_id
    refund = replace(payment(direction=Direction.REFUND), original_provider_transaction_id=receipt)
    assert meeting.send(refund).outcome is Outcome.SUCCEEDED
    again = meeting.send(refund)
    assert (again.outcome, again.provider_transaction_id) == (Outcome.SUCCEEDED, receipt)
    assert meeting.stand_in.book.paid_cents(("refund",), None) == 50_000


def test_a_token_lasts_three_minutes_and_is_renewed(meeting: Meeting) -> None:
    meeting.send(payment())
    meeting.stand_in.advance(181)
    assert meeting.send(payment()).outcome is Outcome.PENDING


def test_a_wrong_pin_of_ours_is_our_configuration(unsigned: Meeting) -> None:
    access = replace(unsigned.access, pin="9999")
    transport = Transport()
    got = AirtelProvider(access, transport).send(payment(direction=Direction.DISBURSEMENT), LONG_SECONDS)
    transport.close()
    assert (got.outcome, got.failure) == (Outcome.FAILED, FailureCode.PROVIDER_CONFIG)


def test_float_and_name_are_read(meeting: Meeting) -> None:
    meeting.send(payment())
    assert meeting.provider.balance_cents(Direction.COLLECTION, LONG_SECONDS) == 50_000
    assert meeting.provider.look_up("+256700123123", LONG_SECONDS) == Registration("Sand Box", True)
    assert meeting.provider.look_up("+256750000033", LONG_SECONDS) == Registration(None, False)
