"""A provider with a book of its own, and with moods: its calls are slow, lost, doubled or denied, its outcomes late."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from simulators.layouts import IN, MTN_LAYOUTS, OUT, REVERSAL, MovedLine, with_balances
from simulators.statements import StatementForm, write_statement
from tests.simulation.worlds.scheduler import Process, Scheduler
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import (
    MOST_CENTS,
    Bounds,
    Direction,
    Outcome,
    PaymentOrder,
    ProviderAnswer,
    Registration,
)
from ussd_server.providers.mtn.adapter import MTN_SCHEDULE

_KINDS = {"collection": IN, "disbursement": OUT, "refund": REVERSAL}
# The agent's report has no references of ours.
_LAYOUTS = ("mtn", "mtn-signed")
# How likely a mood is on a bad day, in parts of a hundred; the rest is prompt.
_ASK_MOODS = {"slow": 8, "lost before": 9, "lost after": 12, "straggler": 6, "refused": 4, "not sent": 6, "twice": 5}
_ENQUIRY_MOODS = {"slow": 8, "silent": 14, "denied": 6, "not sent": 4}
_FATES = {"success": 62, "failure": 16, "late success": 12, "taken back": 3, "under way for long": 7}
_DENIED_SECONDS = 50.0


@dataclass
class Entry:
    """A payment in the book: `steps` are its statuses, each from a moment on, in seconds."""

    number: int
    reference: str
    direction: str
    phone: str
    cents: int
    original: str | None
    began_at: float
    steps: list[tuple[float, str]] = field(default_factory=list)
    typed: str | None = None
    """The payment code of a payer who pays by himself; None for what the service requested."""

    def status(self, at: float) -> str:
        """What the book says at a moment."""
        return next((status for since, status in reversed(self.steps) if since <= at), "pending")

    @property
    def moved_at(self) -> float | None:
        """When its money moved first, None for never. What is to come counts only once it is past."""
        return next((since for since, status in self.steps if status == "succeeded" and since <= TIME.now), None)

    @property
    def failed_at(self) -> float | None:
        """When the book first said that it failed, None for never."""
        return next((since for since, status in self.steps if status == "failed" and since <= TIME.now), None)


class SimulatedProvider:
    """MTN's place in the simulation, behind the protocol of all adapters."""

    name = connection = account = "mtn"
    draining = False
    schedule = MTN_SCHEDULE
    moves_whole_shillings_only = True
    refunds_in_full_only = False
    plain_references = False
    shows_balance = False
    sends_callbacks = True
    available = True
    refusal = ""
    refused_in_a_row = 0
    # Every amount that the API takes.
    bounds = dict.fromkeys(Direction, Bounds(True, 100, MOST_CENTS))
    moods, fates = _ASK_MOODS, _FATES

    def place(self, direction: Direction) -> str:
        return "simulated"

    def __init__(self, scheduler: Scheduler, seed: str, note: Callable[..., None]) -> None:
        self.book: dict[str, Entry] = {}
        self.is_honest = False
        """Whether it answers at once and truly: after the bad days."""
        self.trouble = 1.0
        """The share of calls and payments that may get a mood or a fate."""
        self.call_back: Callable[[str], None] = lambda reference: None
        self.when_taken: Callable[[Entry], None] = lambda entry: None
        self.network = Process("network")
        self._scheduler, self._seed, self._note = scheduler, seed, note
        self._calls: Counter[tuple[str, str]] = Counter()

    def send(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Take a payment, or lose it."""
        rng, mood = self._mood("ask", payment, self.moods)
        self._scheduler.point("before the payment is sent")
        wait = rng.uniform(0.05, 1.0)
        if mood == "not sent":
            answer = ProviderAnswer(Outcome.NOT_SENT)
        elif mood == "lost before":
            wait, answer = timeout_seconds, ProviderAnswer(Outcome.UNKNOWN)
        elif mood == "refused" and payment.provider_reference not in self.book:
            self._note("refused", reference=payment.provider_reference)
            answer = ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_NOT_FOUND)
        elif mood == "straggler":
            later, wait, answer = timeout_seconds + rng.uniform(1, 60), timeout_seconds, ProviderAnswer(Outcome.UNKNOWN)
            self._scheduler.spawn(self.network, "straggler", lambda: self._take(payment, rng), later)
        else:
            is_known = payment.provider_reference in self.book
            entry = self._take(payment, rng)
            if mood == "twice":
                self._take(payment, rng)
            if mood == "lost after":
                wait, answer = timeout_seconds, ProviderAnswer(Outcome.UNKNOWN)
            else:
                wait = rng.uniform(2, timeout_seconds) if mood == "slow" else wait
                answer = self._answer_to_repeat(entry, payment) if is_known else ProviderAnswer(Outcome.PENDING)
        self._scheduler.pause(wait)
        self._scheduler.point("after the payment is sent")
        return answer

    def query_status(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """What the book says, or silence."""
        rng, mood = self._mood("enquiry", payment, _ENQUIRY_MOODS)
        self._scheduler.point("before the enquiry")
        entry = self.book.get(payment.provider_reference)
        wait = rng.uniform(2, timeout_seconds) if mood == "slow" else rng.uniform(0.05, 1.0)
        if mood == "silent":
            wait, answer = timeout_seconds, ProviderAnswer(Outcome.UNKNOWN)
        elif mood == "not sent":
            answer = ProviderAnswer(Outcome.NOT_SENT)
        elif entry is None or (mood == "denied" and TIME.now - entry.began_at < _DENIED_SECONDS):
            answer = ProviderAnswer(Outcome.NOT_FOUND)
        else:
            answer = self._answer(entry, payment)
        self._scheduler.pause(wait)
        self._scheduler.point("after the enquiry")
        return answer

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """It does not show its float."""
        return None

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        """No names."""
        return Registration()

    def reference_in(self, callback: bytes) -> str | None:
        """The reference that a callback of its own names."""
        return str(json.loads(callback)["reference"])

    def close(self) -> None:
        """It has no connections."""

    def pay_in(self, phone: str, cents: int, typed: str) -> str:
        """Enter what a payer pays by himself; return the receipt."""
        entry = Entry(
            len(self.book) + 1,
            f"payer {phone}",
            "collection",
            phone,
            cents,
            None,
            TIME.now,
            [(TIME.now, "succeeded")],
            typed,
        )
        self.book[entry.reference] = entry
        return str(entry.number)

    def statement(self, until: float = float("inf"), ahead: float = 0.0, part: slice = slice(None)) -> bytes:
        """What it moved before a moment, or a part of it, as its own statement shows it, with dates so far ahead."""
        moved = [(entry.moved_at, entry) for entry in self.book.values() if entry.status(TIME.now) == "succeeded"]
        moved = [pair for pair in moved if pair[0] < until]
        movements = [
            MovedLine(
                receipt=str(entry.number),
                reference="" if entry.typed is not None else entry.reference,
                at=(STARTED_AT + timedelta(seconds=at + ahead)).timestamp(),
                kind=_KINDS[entry.direction],
                status="Successful",
                cents=entry.cents if entry.direction == "collection" else -entry.cents,
                party=entry.phone.removeprefix("+"),
                has_moved=True,
            )
            for at, entry in sorted(moved, key=lambda each: (each[0], each[1].number))
        ]
        layout = Random(f"{self._seed}/layout").choice(_LAYOUTS)
        return write_statement(with_balances(movements)[part], StatementForm(), MTN_LAYOUTS[layout])

    def _mood(self, kind: str, payment: PaymentOrder, moods: dict[str, int]) -> tuple[Random, str]:
        key = kind, payment.provider_reference
        self._calls[key] += 1
        rng = Random(f"{self._seed}/{kind}/{payment.phone_number}/{payment.amount_cents}/{self._calls[key]}")
        mood = "prompt" if self._is_prompt(rng) else drawn(rng, moods, "prompt")
        step = self._scheduler.current.step if self._scheduler.current else ""
        self._scheduler.faults_at[f"provider: {mood}", f"{step}, {kind}"] += 1
        self._note("called", kind=kind, mood=mood, reference=payment.provider_reference, phone=payment.phone_number)
        return rng, mood

    def _is_prompt(self, rng: Random) -> bool:
        return self.is_honest or (self.trouble < 1 and rng.random() >= self.trouble)

    def _take(self, payment: PaymentOrder, rng: Random) -> Entry:
        """Enter a payment, once under its name."""
        if (known := self.book.get(payment.provider_reference)) is not None:
            return known
        now = TIME.now
        entry = Entry(
            len(self.book) + 1,
            payment.provider_reference,
            payment.direction.value,
            payment.phone_number,
            payment.amount_cents,
            payment.original_provider_reference,
            now,
        )
        self.book[entry.reference] = entry
        fate = self._draw_fate(entry, rng)
        self._note("taken", reference=entry.reference, phone=entry.phone, cents=entry.cents, fate=fate)
        self.when_taken(entry)
        for since, _ in entry.steps:
            for _ in range(rng.choice((0, 1, 1, 2))):
                after = since - now + rng.choice((0.1, 1.0, 60.0)) * rng.random()
                self._scheduler.spawn(self.network, "callback", lambda: self.call_back(entry.reference), after)
        return entry

    def _draw_fate(self, entry: Entry, rng: Random) -> str:
        """Set the steps of a new payment; return what will become of it."""
        at = TIME.now + rng.choice((0.0, 2.0, 30.0, 200.0)) * rng.random()
        fate = "success" if self._is_prompt(rng) else drawn(rng, self.fates, "success")
        late = at + rng.choice((20.0, 400.0, 3000.0)) * (0.2 + rng.random())
        entry.steps = {
            "success": [(at, "succeeded")],
            "failure": [(at, "failed")],
            "late success": [(at, "failed"), (late, "succeeded")],
            "taken back": [(at, "succeeded"), (late, "failed")],
            "under way for long": [(at + 12_000 * rng.random(), rng.choice(("succeeded", "failed")))],
        }[fate]
        return fate

    def _answer_to_repeat(self, entry: Entry, payment: PaymentOrder) -> ProviderAnswer:
        answer = self._answer(entry, payment)
        is_final = answer.outcome in (Outcome.SUCCEEDED, Outcome.FAILED) or answer.is_about_another
        return answer if is_final else ProviderAnswer(Outcome.PENDING)

    def _answer(self, entry: Entry, payment: PaymentOrder) -> ProviderAnswer:
        if entry.phone != payment.phone_number:
            return ProviderAnswer(Outcome.UNKNOWN, is_about_another=True)
        status = entry.status(TIME.now)
        if status == "succeeded":
            return ProviderAnswer(
                Outcome.SUCCEEDED, provider_transaction_id=str(entry.number), amount_cents=entry.cents
            )
        if status == "failed":
            return ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_DECLINED, amount_cents=entry.cents)
        return ProviderAnswer(Outcome.PENDING)


def drawn(rng: Random, shares: dict[str, int], otherwise: str) -> str:
    """One of some names, each with its parts of a hundred."""
    number = rng.randrange(100)
    for name, share in shares.items():
        if (number := number - share) < 0:
            return name
    return otherwise
