"""The sandbox: a provider without money, whose answers are chosen by the last digits of the phone number."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http.replies import parse, uuid_in
from ussd_server.providers.messages import (
    ANY_NAME,
    MOST_CENTS,
    Bounds,
    Direction,
    Outcome,
    PaymentOrder,
    PollingSchedule,
    ProviderAnswer,
    Registration,
)

_SCRIPTED_NUMBER = re.compile(r"\+2567700000([0-9]{2})")
_FLOAT_CENTS = 100_000_000_000

# The failure of a disbursement where a collection fails otherwise: our float is short, or the payee is refused.
_WHEN_PAYING_OUT = {
    FailureCode.INSUFFICIENT_BALANCE: FailureCode.CLIENT_FLOAT_LOW,
    FailureCode.PAYER_DECLINED: FailureCode.PAYEE_BLOCKED,
    FailureCode.PAYER_NOT_FOUND: FailureCode.PAYEE_NOT_FOUND,
}


@dataclass(frozen=True, slots=True)
class _Step:
    """The answer to queries from `from_seconds` after the payment was first sent."""

    from_seconds: float
    outcome: Outcome
    failure: FailureCode | None = None


@dataclass(frozen=True, slots=True)
class _Script:
    """The answer to the request, and the answers to later queries."""

    asked: _Step
    later: tuple[_Step, ...]


def _settled_at_once(outcome: Outcome, failure: FailureCode | None = None) -> _Script:
    return _Script(_Step(0, outcome, failure), (_Step(0, outcome, failure),))


def _pending_then(*later: _Step) -> _Script:
    pending = _Step(0, Outcome.PENDING)
    return _Script(pending, (pending, *later))


_SUCCESS_AFTER_A_SECOND = _pending_then(_Step(1, Outcome.SUCCEEDED))

_SCRIPTS = {
    "00": _settled_at_once(Outcome.SUCCEEDED),
    "01": _settled_at_once(Outcome.FAILED, FailureCode.INSUFFICIENT_BALANCE),
    "02": _settled_at_once(Outcome.FAILED, FailureCode.PAYER_DECLINED),
    "03": _pending_then(_Step(5, Outcome.FAILED, FailureCode.PAYER_TIMEOUT)),
    "04": _pending_then(_Step(3, Outcome.SUCCEEDED)),
    "05": _pending_then(_Step(3, Outcome.FAILED, FailureCode.PROVIDER_ERROR)),
    "06": _Script(_Step(0, Outcome.UNKNOWN), (_Step(0, Outcome.UNKNOWN), _Step(2, Outcome.SUCCEEDED))),
    "07": _Script(_Step(0, Outcome.UNKNOWN), (_Step(0, Outcome.NOT_FOUND),)),
    "08": _Script(_Step(0, Outcome.FAILED, FailureCode.PAYER_NOT_FOUND), (_Step(0, Outcome.NOT_FOUND),)),
    "09": _pending_then(_Step(1, Outcome.FAILED, FailureCode.PROVIDER_ERROR), _Step(3, Outcome.SUCCEEDED)),
}


class SandboxProvider:
    """Answers from the phone number, the time at which the payment was first sent, and the clock; it keeps no state.

    Any number of processes therefore agree, and a restart loses nothing. The numbers are those of the wire contract,
    section 9; every number outside that list succeeds after a second. `now` returns the time in UTC.
    """

    name = connection = account = "sandbox"
    draining = False
    moves_whole_shillings_only = False
    refunds_in_full_only = False
    plain_references = False
    shows_balance = True
    sends_callbacks = False
    available = True
    refusal = ""
    refused_in_a_row = 0
    # Every amount that the API takes.
    bounds = dict.fromkeys(Direction, Bounds(True, 1, MOST_CENTS + 99))
    schedule = PollingSchedule(
        delays=(0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0),
        not_found_means_lost_after=5.0,
        late_check_after=4.0,
        give_up_after=30.0,
        per_second=200.0,
    )

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def has_access_since(self, seconds: float) -> bool:
        return True

    def place(self, direction: Direction) -> str:
        return self.name

    def send(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """The answer to a request for this payment, however often it is repeated."""
        return self._answer(payment, _script(payment.phone_number).asked)

    def query_status(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """The status of this payment by now; a payment that was never sent is not found."""
        if payment.asked_at is None:
            return ProviderAnswer(Outcome.NOT_FOUND)
        elapsed_seconds = max(0.0, (self._now() - payment.asked_at).total_seconds())
        step = [step for step in _script(payment.phone_number).later if step.from_seconds <= elapsed_seconds][-1]
        return self._answer(payment, step)

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """A float that is never used up, in cents."""
        return _FLOAT_CENTS

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        """A name made from the last two digits of `+2567700000NN`; any name is that of other numbers."""
        scripted = _SCRIPTED_NUMBER.fullmatch(phone_number)
        return Registration(f"{ANY_NAME} {scripted[1]}" if scripted else ANY_NAME, is_registered=True)

    def reference_in(self, callback: bytes) -> str | None:
        """The sandbox sends no callbacks; a test sends `{"reference": "..."}`."""
        return uuid_in(parse(callback).get("reference"))

    def close(self) -> None:
        """It has no connections."""

    def _answer(self, payment: PaymentOrder, step: _Step) -> ProviderAnswer:
        if step.outcome is Outcome.SUCCEEDED:
            transaction_id = "SBX" + payment.provider_reference.replace("-", "")[:12].upper()
            return ProviderAnswer(
                step.outcome, provider_transaction_id=transaction_id, amount_cents=payment.amount_cents
            )
        if step.failure is None:
            return ProviderAnswer(step.outcome)
        failure = step.failure
        if payment.direction is not Direction.COLLECTION:
            failure = _WHEN_PAYING_OUT.get(failure, failure)
        return ProviderAnswer(step.outcome, failure, reason=failure.value)


def _script(phone_number: str) -> _Script:
    scripted = _SCRIPTED_NUMBER.fullmatch(phone_number)
    return _SCRIPTS.get(scripted[1], _SUCCESS_AFTER_A_SECOND) if scripted else _SUCCESS_AFTER_A_SECOND
