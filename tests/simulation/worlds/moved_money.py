"""Providers at which money moves otherwise than they tell: the list of what moved is theirs alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from simulators.layouts import AIRTEL_LAYOUTS, IN, MTN_LAYOUTS, OUT, REVERSAL, MovedLine, with_balances
from simulators.statements import StatementForm, write_statement
from tests.simulation.worlds.money_plan import AMOUNTS
from tests.simulation.worlds.provider import Entry, SimulatedProvider, drawn
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.providers.airtel.access import AIRTEL_SCHEDULE
from ussd_server.providers.messages import Outcome, PaymentOrder, ProviderAnswer

# In parts of a hundred; the rest moves as it was asked for and is told at once.
_FATES = {
    "failed": 10,
    "silent": 10,
    "never told": 8,
    "another amount": 8,
    "another amount untold": 5,
    "never moved": 5,
    "late": 9,
    "given back": 14,
}
_WITHOUT_RECEIPT = 0.3
_SIGNS = {"collection": 1, "disbursement": -1, "refund": -1}
_LAYOUTS = {"mtn": ("mtn", "mtn-signed"), "airtel": ("airtel", "airtel-merchant")}


@dataclass
class Move:
    """Money that moved once. `client` is the place of the client whose it is, None for nobody's."""

    receipt: str
    sign: int
    cents: int
    phone: str
    at: float
    client: int | None
    kind: str
    reference: str = ""
    """Our name for it, if it is ours."""
    code: str | None = None
    """The payment code that its payer meant."""
    is_payers: bool = False
    of: Move | None = None
    """What it gives back."""


class MovedMoney(SimulatedProvider):
    """One account. `moves` is what moves there, also what is still to come."""

    def __init__(self, name: str, clients: dict[str, int], *given: Any) -> None:
        super().__init__(*given)
        self.name = self.connection = self.account = name
        if name == "airtel":
            self.schedule, self.refunds_in_full_only = AIRTEL_SCHEDULE, True
        self.moves: list[Move] = []
        self._clients = clients
        self._told: dict[str, tuple[str | None, int | None]] = {}
        self._layout = (MTN_LAYOUTS | AIRTEL_LAYOUTS)[Random(f"{self._seed}/{name}").choice(_LAYOUTS[name])]

    def place(self, direction: Any) -> str:
        return f"simulated {self.name}"

    def move(self, sign: int, cents: int, phone: str, at: float, client: int | None, kind: str, **more: Any) -> Move:
        """Move money, now or later."""
        made = Move(f"{len(self.moves) + 1}{self.name[0].upper()}7", sign, cents, phone, at, client, kind, **more)
        self.moves.append(made)
        return made

    def give_back(self, move: Move, at: float, names_original: bool) -> None:
        """Take a payment back that moved before."""
        named = names_original or move.sign < 0
        reference = move.reference if named else ""
        self.move(-move.sign, move.cents, move.phone, at, move.client, REVERSAL, reference=reference, of=move)

    def moved(self) -> list[Move]:
        """What has moved by now, the first first."""
        return sorted((move for move in self.moves if move.at <= TIME.now), key=lambda move: (move.at, move.receipt))

    def find(self, receipt: str, sign: int) -> Move | None:
        """What has moved under a receipt."""
        return next((move for move in self.moved() if (move.receipt, move.sign) == (receipt, sign)), None)

    def status_of(self, reference: str) -> str:
        """What the provider says of a payment of ours."""
        return self.book[reference].status(TIME.now)

    def of_reference(self, reference: str | None) -> Move | None:
        """What has moved under a name of ours, not what gave it back."""
        named = (move for move in self.moved() if move.reference == reference and move.of is None)
        return next(named, None) if reference else None

    def file(self, since: float, wrong: str | None, rng: Random) -> bytes | None:
        """The statement since a moment; None without a line. A wrong one lacks a line or has another amount."""
        lines = [self._line(move) for move in self.moved() if move.at >= since]
        if lines and wrong == "lacks a line":
            lines.pop(rng.randrange(len(lines)))
        elif lines and wrong is not None:
            place = rng.randrange(len(lines))
            lines[place] = replace(lines[place], cents=2 * lines[place].cents)
        return write_statement(with_balances(lines), StatementForm(), self._layout) if lines else None

    def _line(self, move: Move) -> MovedLine:
        return MovedLine(
            receipt=move.receipt,
            reference=move.reference,
            at=(STARTED_AT + timedelta(seconds=move.at)).timestamp(),
            kind=move.kind,
            status="Successful",
            cents=move.sign * move.cents,
            party=move.phone.removeprefix("+"),
            has_moved=True,
        )

    def _draw_fate(self, entry: Entry, rng: Random) -> str:
        at = TIME.now + rng.choice((0.0, 2.0, 30.0, 200.0)) * rng.random()
        late = at + rng.choice((20.0, 400.0, 3000.0)) * (0.2 + rng.random())
        fate = "success" if self._is_prompt(rng) else drawn(rng, _FATES, "success")
        first = {"failed": "failed", "silent": "failed", "late": "failed", "never told": "unknown"}
        entry.steps = [(at, first.get(fate, "succeeded"))]
        if fate == "late":
            entry.steps.append((late, "succeeded"))
        cents = rng.choice(AMOUNTS) if fate.startswith("another amount") else entry.cents
        has_moved = fate not in ("failed", "never moved") and (fate != "never told" or rng.random() < 0.5)
        receipt = None if rng.random() < _WITHOUT_RECEIPT else f"X{entry.number}"
        if has_moved:
            client, sign = self._clients[entry.phone], _SIGNS[entry.direction]
            kind = {"collection": IN, "disbursement": OUT, "refund": REVERSAL}[entry.direction]
            moved_at = late if fate == "late" else at
            move = self.move(sign, cents, entry.phone, moved_at, client, kind, reference=entry.reference)
            if self.name == "airtel" and (original := self.of_reference(entry.original)) is not None:
                # As Airtel does.
                move.receipt = original.receipt
            receipt = receipt and move.receipt
            if fate == "given back":
                self.give_back(move, at + rng.choice((60.0, 4000.0, 90_000.0)) * rng.random(), rng.random() < 0.6)
        self._told[entry.reference] = receipt, None if fate == "another amount untold" else cents
        return fate

    def _answer(self, entry: Entry, payment: PaymentOrder) -> ProviderAnswer:
        if entry.status(TIME.now) == "unknown":
            return ProviderAnswer(Outcome.UNKNOWN, is_unclear=True)
        answer = super()._answer(entry, payment)
        if answer.outcome is not Outcome.SUCCEEDED:
            return answer
        receipt, cents = self._told[entry.reference]
        return ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id=receipt, amount_cents=cents)
