"""The switches that make a stand-in misbehave while it runs."""

import math
import threading
import types
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

CALLS = ("provisioning", "token", "submit", "status", "account")


@dataclass(frozen=True, slots=True)
class Switches:
    """One setting of every switch; a field's comment is its documentation.

    Only one of the five ways to spoil an answer (two silences, an error, garbage, an endless body) can be on at a time;
    `slow_seconds` and `drip_seconds` go with any of them.
    """

    # Which calls the trouble below touches, out of CALLS; none named means all, for the silences "submit" alone.
    calls: tuple[str, ...] = ()
    # How many more calls the trouble touches before it is over; null means until it is switched off.
    times: int | None = None
    # The connection is accepted, the call is not carried out, and no answer ever comes.
    silent_before_accept: bool = False
    # The call is carried out (the payment is in the book), and no answer ever comes.
    silent_after_accept: bool = False
    # Answer with this status, 400 to 599, in the company's own error format; 0 is off.
    error_status: int = 0
    # The company's code in that error; empty takes the usual one for the status.
    error_code: str = ""
    # Answer with a proxy's HTML page, status `error_status` or else 502.
    html_error: bool = False
    # Answer 200 with bytes that are neither JSON nor UTF-8 under a JSON content type.
    garbage: bool = False
    # Answer 200 with a body that never ends.
    endless: bool = False
    # Whether a call that ends in an error, garbage or an endless body was carried out all the same.
    carried_out: bool = True
    # Real seconds before the answer starts; the call itself is carried out first.
    slow_seconds: float = 0.0
    # Real seconds between two bytes of the answer.
    drip_seconds: float = 0.0

    # Seconds on the stand-in's clock until a payer approves, or a payout settles.
    approve_delay_seconds: float = 0.0
    # A payment that would succeed is first reported failed, and succeeds `second_thought_seconds` later.
    success_after_failure: bool = False
    # A payment that would succeed is reported so, and failed `second_thought_seconds` later.
    failure_after_success: bool = False
    second_thought_seconds: float = 60.0
    # A payment is not found by status questions until it is this old.
    hidden_seconds: float = 0.0
    # The company's float for payouts when the book is empty, in whole units of its currency.
    opening_balance: int = 100_000_000
    # MTN: magic numbers that name a refusal answer the submission with 500 instead of failing later.
    refuse_at_once: bool = False
    # MTN: the round amounts of the sandbox's amount table select an outcome.
    amount_scenarios: bool = False
    # MTN: `reason` is an object {code, message} instead of a string.
    reason_as_object: bool = False
    # Airtel: the answer to a payment push carries `"id": false`.
    id_false: bool = False
    # Airtel: disbursements are answered "in progress" and settle after the approve delay.
    disbursements_pending: bool = False

    # Whether callbacks are sent at all, decided when one falls due.
    callbacks: bool = True
    # PUT or POST; empty takes the company's usual one.
    callback_method: str = ""
    # Seconds on the stand-in's clock between the outcome and its callback, decided when the payment is accepted.
    callback_delay_seconds: float = 0.0
    # How often each callback is sent.
    callback_copies: int = 1
    # Callbacks leave in pairs, the later one first; an odd one waits for its partner or for this switch to go off.
    reorder_callbacks: bool = False
    # The callback names one unit of money more than was paid.
    wrong_callback_amount: bool = False
    # Airtel: the callback carries its `hash`.
    callback_hash: bool = False

    def touches(self, call: str) -> bool:
        """Whether there is trouble on the wire for a call of this kind."""
        if self.silent:
            return call in (self.calls or ("submit",))
        spoiled = self.error_status or self.html_error or self.garbage or self.endless
        return bool(spoiled or self.slow_seconds or self.drip_seconds) and call in (self.calls or CALLS)

    @property
    def silent(self) -> bool:
        """Whether no answer comes, with the call carried out or without."""
        return self.silent_before_accept or self.silent_after_accept

    @property
    def carries_out(self) -> bool:
        """Whether a touched call has its effect."""
        spoiled = self.error_status or self.html_error or self.garbage or self.endless
        return not self.silent_before_accept and (self.carried_out or not spoiled)


class SwitchBoard:
    """The switches as they stand now, shared by all threads of a stand-in."""

    def __init__(self, initial: Switches) -> None:
        self._lock = threading.Lock()
        self._initial = initial
        self._now = initial

    @property
    def now(self) -> Switches:
        """The present setting; it does not change under the reader."""
        return self._now

    def flick(self, wish: object) -> Switches:
        """Set the named switches and leave the others; ValueError names what is wrong with the wish."""
        with self._lock:
            self._now = _changed(self._now, wish)
            return self._now

    def restore(self) -> Switches:
        """Put every switch back to where it stood at the start."""
        with self._lock:
            self._now = self._initial
            return self._now

    def trouble(self, call: str) -> Switches | None:
        """The switches if they spoil this call, which uses up one of `times`; else None."""
        with self._lock:
            current = self._now
            if not current.touches(call) or current.times == 0:
                return None
            if current.times is not None:
                self._now = replace(current, times=current.times - 1)
            return current


def shown(switches: Switches) -> dict[str, Any]:
    """The switches as JSON shows them."""
    return asdict(switches)


def _changed(current: Switches, wish: object) -> Switches:
    if not isinstance(wish, dict):
        raise ValueError("The switches are a JSON object.")
    kinds = {field.name: field.type for field in fields(Switches)}
    changes: dict[str, Any] = {}
    for name, value in wish.items():
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
    ways = (
        switches.silent_before_accept,
        switches.silent_after_accept,
        bool(switches.error_status) or switches.html_error,
        switches.garbage,
        switches.endless,
    )
    if sum(ways) > 1:
        raise ValueError("Only one way to spoil an answer can be on at a time.")
    if switches.success_after_failure and switches.failure_after_success:
        raise ValueError("Only one second thought can be on at a time.")
