"""The sandbox provider keeps the wire contract, number by number and second by second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, Provider, ProviderAnswer
from ussd_server.providers.sandbox.adapter import SandboxProvider

ASKED_AT = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
REFERENCE = "0b3c8a50-9a44-4c1e-8a44-0d5b6a3f9f10"

PENDING = (Outcome.PENDING, None)
UNKNOWN = (Outcome.UNKNOWN, None)
SUCCEEDED = (Outcome.SUCCEEDED, None)
NOT_FOUND = (Outcome.NOT_FOUND, None)


def failed(code: FailureCode) -> tuple[Outcome, FailureCode]:
    return Outcome.FAILED, code


OUTCOMES = [
    # digits, what asking answers, then what enquiring answers so many seconds after asking
    ("00", SUCCEEDED, {0: SUCCEEDED, 100: SUCCEEDED}),
    ("01", failed(FailureCode.INSUFFICIENT_BALANCE), {0: failed(FailureCode.INSUFFICIENT_BALANCE)}),
    ("02", failed(FailureCode.PAYER_DECLINED), {0: failed(FailureCode.PAYER_DECLINED)}),
    ("03", PENDING, {0: PENDING, 4.9: PENDING, 5: failed(FailureCode.PAYER_TIMEOUT)}),
    ("04", PENDING, {0: PENDING, 2.9: PENDING, 3: SUCCEEDED}),
    ("05", PENDING, {0: PENDING, 2.9: PENDING, 3: failed(FailureCode.PROVIDER_ERROR)}),
    ("06", UNKNOWN, {0: UNKNOWN, 1.9: UNKNOWN, 2: SUCCEEDED}),
    ("07", UNKNOWN, {0: NOT_FOUND, 5: NOT_FOUND, 100_000: NOT_FOUND}),
    ("08", failed(FailureCode.PAYER_NOT_FOUND), {0: NOT_FOUND, 100: NOT_FOUND}),
    (
        "09",
        PENDING,
        {0.9: PENDING, 1: failed(FailureCode.PROVIDER_ERROR), 2.9: failed(FailureCode.PROVIDER_ERROR), 3: SUCCEEDED},
    ),
    ("10", PENDING, {0: PENDING, 0.9: PENDING, 1: SUCCEEDED}),
    ("99", PENDING, {0: PENDING, 1: SUCCEEDED}),
]


def payment(
    digits: str = "00", direction: Direction = Direction.COLLECTION, asked_at: datetime | None = ASKED_AT
) -> PaymentOrder:
    return PaymentOrder("t-1", REFERENCE, direction, f"+2567700000{digits}", 12_345, "UGX", asked_at=asked_at)


def sandbox(seconds_later: float = 0) -> Provider:
    return SandboxProvider(lambda: ASKED_AT + timedelta(seconds=seconds_later))


def essence(answer: ProviderAnswer) -> tuple[Outcome, FailureCode | None]:
    return answer.outcome, answer.failure


@pytest.mark.parametrize(("digits", "asked", "later"), OUTCOMES, ids=[digits for digits, _, _ in OUTCOMES])
def test_every_number_has_its_own_outcome(
    digits: str, asked: tuple[Outcome, FailureCode | None], later: dict[float, tuple[Outcome, FailureCode | None]]
) -> None:
    assert essence(sandbox().send(payment(digits), 5)) == asked
    for seconds, expected in later.items():
        assert essence(sandbox(seconds).query_status(payment(digits), 5)) == expected, seconds


@pytest.mark.parametrize(
    ("digits", "code"),
    [("01", FailureCode.CLIENT_FLOAT_LOW), ("02", FailureCode.PAYEE_BLOCKED), ("08", FailureCode.PAYEE_NOT_FOUND)],
)
@pytest.mark.parametrize("direction", [Direction.DISBURSEMENT, Direction.REFUND])
def test_money_that_goes_out_fails_for_reasons_of_the_payee_or_of_our_float(
    digits: str, code: FailureCode, direction: Direction
) -> None:
    assert sandbox().send(payment(digits, direction), 5).failure is code


def test_a_number_outside_the_list_succeeds_after_a_second() -> None:
    other = PaymentOrder("t-1", REFERENCE, Direction.COLLECTION, "+256771234500", 100, "UGX", asked_at=ASKED_AT)
    assert sandbox().send(other, 5).outcome is Outcome.PENDING
    assert sandbox(1).query_status(other, 5).outcome is Outcome.SUCCEEDED


def test_a_success_names_its_amount_and_the_same_transaction_every_time() -> None:
    asked, enquired = sandbox().send(payment(), 5), sandbox(9).query_status(payment(), 5)
    assert asked == enquired
    assert asked.amount_cents == 12_345
    assert asked.provider_transaction_id == "SBX0B3C8A509A44"


def test_a_payment_that_was_never_asked_is_not_found() -> None:
    assert sandbox().query_status(payment(asked_at=None), 5).outcome is Outcome.NOT_FOUND


def test_a_clock_that_jumps_back_does_not_break_an_enquiry() -> None:
    assert sandbox(-3600).query_status(payment("04"), 5).outcome is Outcome.PENDING


def test_a_success_after_a_failure_is_found_by_the_late_check() -> None:
    schedule = sandbox().schedule
    assert essence(sandbox(1 + schedule.late_check_after).query_status(payment("09"), 5)) == SUCCEEDED


def test_a_name_and_a_float_are_known() -> None:
    assert sandbox().look_up("+256770000042", 5).name == "SANDBOX SUBSCRIBER 42"
    assert sandbox().look_up("+256772123456", 5).name == "SANDBOX SUBSCRIBER"
    assert sandbox().balance_cents(Direction.COLLECTION, 5) == 100_000_000_000


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        (b'{"reference": "' + REFERENCE.encode() + b'"}', REFERENCE),
        (b'{"reference": 5}', None),
        (b'{"reference": "x"}', None),
        (b"[]", None),
        (b"", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_callback_is_read_for_its_reference_only(body: bytes, reference: str | None) -> None:
    assert sandbox().reference_in(body) == reference
