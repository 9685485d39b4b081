"""The switches that make a stand-in misbehave while it runs, and its clock, which can be moved forward by hand."""

import math
import threading
import time
import types
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

CALLS = ("provisioning", "token", "submit", "status", "account")


@dataclass(frozen=True, slots=True)
class Switches:
    """One setting of every switch; a field's comment is its documentation.

    Only one of the five faults (two silences, an error, garbage, an endless body) can be on at a time; `slow_seconds`
    and `drip_seconds` combine with any of them.
    """

    # The calls that the faults below affect, out of CALLS; empty means all, for the two silences "submit" alone.
    calls: tuple[str, ...] = ()
    # How many more calls the faults affect; null means until they are switched off.
    times: int | None = None
    # The connection is accepted, the call is not carried out, and no response is ever sent.
    silent_before_accept: bool = False
    # The call is carried out (the payment is in the book), and no response is ever sent.
    silent_after_accept: bool = False
    # Respond with this status, 400 to 599, in the provider's own error format; 0 is off.
    error_status: int = 0
    # The provider's code in that error; empty takes the usual one for the status.
    error_code: str = ""
    # Respond with a proxy's HTML page, status `error_status` or else 502.
    html_error: bool = False
    # Respond 200 with bytes that are neither JSON nor UTF-8 under a JSON content type.
    garbage: bool = False
    # Respond 200 with a body that never ends.
    endless: bool = False
    # Whether a call that ends in an error, garbage or an endless body is carried out.
    carried_out: bool = True
    # Real seconds before the response starts; the call itself is carried out first.
    slow_seconds: float = 0.0
    # Real seconds between two bytes of the response.
    drip_seconds: float = 0.0

    # Seconds on the stand-in's clock until a payer approves, or a payout settles.
    approve_delay_seconds: float = 0.0
    # Payers decline.
    declined: bool = False
    # A payment that would succeed is first reported failed, and succeeds `second_thought_seconds` later.
    success_after_failure: bool = False
    # A payment that would succeed is reported so, and failed `second_thought_seconds` later.
    failure_after_success: bool = False
    second_thought_seconds: float = 60.0
    # Status requests do not find a payment until it is this old.
    hidden_seconds: float = 0.0
    # The provider's float for payouts when the book is empty, in whole units of its currency.
    opening_balance: int = 100_000_000
    # MTN: magic numbers that select a refusal refuse the submission with 500 instead of failing the payment later.
    refuse_at_once: bool = False
    # MTN: the round amounts of the sandbox's amount table select an outcome.
    amount_scenarios: bool = False
    # MTN: `reason` is an object {code, message} instead of a string.
    reason_as_object: bool = False
    # Airtel: the response to a payment push has `"id": false`.
    id_false: bool = False
    # Airtel: the response to a disbursement is "in progress"; it settles after the approve delay.
    disbursements_pending: bool = False

    # Whether callbacks are sent, decided when one is due.
    callbacks: bool = True
    # PUT or POST; empty takes the provider's own.
    callback_method: str = ""
    # Seconds on the stand-in's clock between the outcome and its callback, decided when the payment is accepted.
    callback_delay_seconds: float = 0.0
    # How often each callback is sent.
    callback_copies: int = 1
    # Callbacks are sent in pairs, the later one first; a single one waits for another, or until this is off.
    reorder_callbacks: bool = False
    # The amount in the callback is one unit of currency too high.
    wrong_callback_amount: bool = False
    # Airtel: the callback has its `hash`.
    callback_hash: bool = False

    def affects(self, call: str) -> bool:
        """Whether a fault affects calls of this kind."""
        if self.silent:
            return call in (self.calls or ("submit",))
        faults = self._replaces_response or self.slow_seconds or self.drip_seconds
        return bool(faults) and call in (self.calls or CALLS)

    @property
    def silent(self) -> bool:
        """Whether no response is sent."""
        return self.silent_before_accept or self.silent_after_accept

    @property
    def carries_out(self) -> bool:
        """Whether an affected call is carried out."""
        return not self.silent_before_accept and (self.carried_out or not self._replaces_response)

    @property
    def _replaces_response(self) -> bool:
        return bool(self.error_status or self.html_error or self.garbage or self.endless)


class CurrentSwitches:
    """The current switches, shared by all threads of a stand-in."""

    def __init__(self, initial: Switches) -> None:
        self._lock = threading.Lock()
        self._initial = initial
        self._now = initial

    @property
    def now(self) -> Switches:
        """The current setting, which is immutable."""
        return self._now

    def change(self, changes: object) -> Switches:
        """Set the switches named in a JSON object; raises ValueError for an unknown switch or a wrong value."""
        with self._lock:
            self._now = _changed(self._now, changes)
            return self._now

    def restore(self) -> Switches:
        """Restore the switches of the start."""
        with self._lock:
            self._now = self._initial
            return self._now

    def fault(self, call: str) -> Switches | None:
        """Returns the switches if they affect this call, and uses up one of `times`; else None."""
        with self._lock:
            current = self._now
            if not current.affects(call) or current.times == 0:
                return None
            if current.times is not None:
                self._now = replace(current, times=current.times - 1)
            return current


def _changed(current: Switches, body: object) -> Switches:
    if not isinstance(body, dict):
        raise ValueError("The switches are a JSON object.")
    kinds = {field.name: field.type for field in fields(Switches)}
    changes: dict[str, Any] = {}
    for name, value in body.items():
        if name not in kinds:
            raise ValueError(f"There is no switch {name!r}.")
        if not _fits(kinds[name], value):
            raise ValueError(f"The switch {name!r} does not take this value.")
        changes[name] = tuple(value) if name == "calls" else value
    changed = replace(current, **changes)
    _refuse_contradictions(changed)
    return changed


def _fits(kind: type | types.UnionType | str, value: object) -> bool:
    if kind in (bool, str):
        return isinstance(value, kind)
    if kind is float:
        return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value) and value >= 0
    if kind == tuple[str, ...]:
        return isinstance(value, list) and all(call in CALLS for call in value)
    if value is None:
        return kind == int | None
    return type(value) is int and value >= 0


def _refuse_contradictions(switches: Switches) -> None:
    if switches.error_status and not 400 <= switches.error_status <= 599:
        raise ValueError("error_status is 0 or 400 to 599.")
    if switches.callback_method not in ("", "PUT", "POST"):
        raise ValueError("callback_method is PUT or POST.")
    exclusive = (
        switches.silent_before_accept,
        switches.silent_after_accept,
        bool(switches.error_status) or switches.html_error,
        switches.garbage,
        switches.endless,
    )
    if sum(exclusive) > 1:
        raise ValueError("Only one fault can be on at a time.")
    if switches.success_after_failure and switches.failure_after_success:
        raise ValueError("Only one second thought can be on at a time.")


class StandInClock:
    """The only clock a stand-in reads: tokens, approvals, expiry and due callbacks follow it."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self._lock = threading.Lock()
        self.offset_seconds = offset_seconds

    def now(self) -> float:
        """Returns seconds since 1970 in UTC, plus all seconds the clock was moved by."""
        return time.time() + self.offset_seconds

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`; every reader sees it at once."""
        with self._lock:
            self.offset_seconds += seconds


def iso_time(at: float) -> str:
    """Format seconds since 1970 as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
