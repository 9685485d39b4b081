"""Operators who decide about money by what providers and payers say, err at times, and take it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from tests.simulation.history import receipt_in
from tests.simulation.worlds.callers import Callers
from tests.simulation.worlds.database import SqliteWorld
from tests.simulation.worlds.moved_money import Move, MovedMoney
from tests.simulation.worlds.payer_plan import CODES
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    ListMovements,
    MovementView,
    SameMovement,
    UndonePayment,
)
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.reconciliation.messages import (
    ConcludeFromStatement,
    DifferenceView,
    EndDifference,
    ListDifferences,
    UndoImport,
    Verdict,
)
from ussd_server.status import ServiceError

_WHY, _TWO = "as the provider says", ("Ann", "Ben")
_PAGE = 200
_MOST_ROUNDS = 5
_MISTAKEN = 0.3
_OURS = ("collection", "disbursement", "refund")
_FINAL = ("succeeded", "reversed", "failed")
_PAYMENT = "SELECT id, client_id, status, amount_cents, released_at, provider_reference, provider_transaction_id, "
_PAYMENT += "contested_id, type, origin FROM transactions WHERE "
_COLUMNS = _PAYMENT.removeprefix("SELECT ").partition(" FROM")[0].split(", ")

Decision = Callable[[], object]


@dataclass
class Desk:
    """Two operators. `accounts` are the providers; what moved there is what they see, once it has moved."""

    accounts: dict[str, MovedMoney]
    callers: Callers
    database: SqliteWorld
    note: Callable[..., None]
    seed: str
    give_back: Callable[[Move, MovedMoney], None]
    is_calm: bool = False
    wrong_files: list[str] = field(default_factory=list)
    """Statements that were imported and are known to be wrong."""
    _erred: set[str] = field(default_factory=set)

    def work(self, services: Services) -> None:
        """Decide about everything that is open, until nothing changes."""
        # As the worker does each second.
        services.notices.decide_waiting()
        for _ in range(_MOST_ROUNDS):
            if not sum([self._try(*each) for each in self._decisions(services)]):
                break
        if self.is_calm:
            for view in self._movements(services, is_held=True):
                self._end_strange(services, view)

    def _movements(self, services: Services, **wanted: Any) -> tuple[MovementView, ...]:
        listed = ListMovements(limit=_PAGE, **wanted)
        return tuple(services.movements.list(listed, operator_context()).items)

    def _end_strange(self, services: Services, view: MovementView) -> None:
        """End what a wrong file told that cannot be undone any more, and that never moved.

        Not what an undone file alone told, which counts nowhere by itself.
        """
        move = self._found(services, view)
        is_told = view.line is not None or any(each.way is WayIn.NOTICE for each in view.told)
        if is_told and (move is None or move.cents != view.amount_cents):
            end = EndMovement(view.movement_id, _WHY, *_TWO)
            self._try("own", view.movement_id, lambda: services.movement_uses.take_as_own(end, operator_context()))

    def _try(self, name: str, about: str, decision: Decision) -> bool:
        try:
            decision()
        except ServiceError as refusal:
            self.note("refused decision", name=name, about=about, why=str(refusal))
            return False
        self.note("decision", name=name, about=about)
        return True

    def _decisions(self, services: Services) -> Iterator[tuple[str, str, Decision]]:
        operator = operator_context()
        for statement_id in list(self.wrong_files) if self.is_calm else ():
            yield "undo", statement_id, partial(self._undo, services, statement_id)
        for payment in self._payments("review_opened_at IS NOT NULL AND review_closed_at IS NULL ORDER BY id"):
            yield from self._of_review(services, payment)
        for each in services.differences.list(ListDifferences(limit=_PAGE), operator).items:
            yield from self._of_difference(services, each)
        for is_held in (False, True):
            for view in self._movements(services, is_held=is_held):
                for name, decision in self._of_movement(services, view):
                    yield name, view.movement_id, decision

    def _undo(self, services: Services, statement_id: str) -> None:
        services.provider_statements.undo(UndoImport(statement_id, *_TWO), operator_context())
        self.wrong_files.remove(statement_id)
        self.note("undone", statement=statement_id)

    def _payments(self, condition: str) -> list[dict[str, Any]]:
        return [dict(zip(_COLUMNS, row, strict=True)) for row in self.database.rows(_PAYMENT + condition)]

    def _payment_of(self, move: Move) -> dict[str, Any] | None:
        """Our last payment of what moved under a name of ours, or the payer's payment that was booked of it."""
        found = self._payments(f"provider_reference = '{move.reference}' ORDER BY id") if move.reference else []
        if not found:
            payers = self._payments("origin = 'payer' AND released_at IS NULL ORDER BY id")
            found = [each for each in payers if receipt_in(each["provider_transaction_id"]) == move.receipt]
        return found[-1] if found else None

    def _is_booked(self, move: Move) -> bool:
        booked = self._payments("origin = 'payer' AND released_at IS NULL ORDER BY id")
        return move.receipt in {receipt_in(each["provider_transaction_id"]) for each in booked}

    def _client(self, place: int | None) -> str:
        assert place is not None
        return self.callers.contexts[place].client_id

    def _move_of(self, payment: dict[str, Any]) -> tuple[str | None, Move | None]:
        """What the provider's book says of a payment, and what moved of it."""
        reference = payment["provider_reference"]
        for account in self.accounts.values():
            if reference in account.book:
                return account.status_of(reference), account.of_reference(reference)
        return None, None

    def _of_review(self, services: Services, payment: dict[str, Any]) -> Iterator[tuple[str, str, Decision]]:
        status, move = self._move_of(payment)
        if payment["status"] in ("succeeded", "reversed"):
            decision = None
        elif move is not None and move.cents != payment["amount_cents"] and not self._is_booked(move):
            # What moved is corrected, which ends the payment.
            return
        elif move is None and status in ("pending", "succeeded") and not self.is_calm:
            return
        else:
            # What was booked of its payer is the same money.
            decision = move is not None and not self._is_booked(move)
            if payment["status"] == "failed" and not decision:
                decision = None
        receipt = move.receipt if decision and move and payment["provider_transaction_id"] is None else None
        end = EndReview(payment["id"], _WHY, *_TWO, has_succeeded=decision, receipt=receipt)
        yield f"review {decision}", payment["id"], lambda: services.reviews.end(end, operator_context())

    def _of_difference(self, services: Services, each: DifferenceView) -> Iterator[tuple[str, str, Decision]]:
        operator, about = operator_context(), each.difference_id
        payment = next(iter(self._payments(f"id = '{each.transaction_id}'")), {"status": None})
        counts = payment["status"] in ("succeeded", "reversed")
        if each.verdict is Verdict.STATUS_DIFFERS and each.theirs == "succeeded" and not counts:
            conclude = ConcludeFromStatement(about, _WHY, *_TWO)
            yield "conclude", about, lambda: services.differences.conclude(conclude, operator)
            if not self.is_calm:
                return
        end = EndDifference(about, _WHY, _TWO[0])
        if each.verdict is Verdict.NOT_THEIRS and payment.get("type") in _OURS and payment["origin"] != "payer":
            _, move = self._move_of(payment)
            is_there = move is not None
            if counts and payment["released_at"] is None and (not is_there or self._errs(about, 2)):
                unmoved = UndonePayment(each.transaction_id, _WHY, *_TWO)
                yield "unmoved", each.transaction_id, lambda: services.releases.end_unmoved(unmoved, operator)
                return
            if is_there and not self.is_calm:
                return
        yield "end", about, lambda: services.differences.end(end, operator)

    def _errs(self, about: str, share: int = 1) -> bool:
        """Whether the operators make a mistake about something, once at most."""
        if self.is_calm or about in self._erred:
            return False
        self._erred.add(about)
        return Random(f"{self.seed}/mistake/{about}").random() < share * _MISTAKEN

    def _found(self, services: Services, view: MovementView) -> Move | None:
        """What moved of a movement: by its receipt, or by that of its line."""
        account, sign = self.accounts[view.account], 1 if view.direction == "in" else -1
        receipts = list(view.receipts)
        if not receipts and view.line is not None:
            shown = services.differences.show(view.line.difference_id, operator_context())
            receipts = [shown.provider_id or ""]
        return next((move for each in receipts if (move := account.find(receipt_in(each), sign))), None)

    def _of_movement(self, services: Services, view: MovementView) -> Iterator[tuple[str, Decision]]:
        operator, move = operator_context(), self._found(services, view)
        end = EndMovement(view.movement_id, _WHY, *_TWO)
        if view.use is not None:
            if self._is_wrong(view, move):
                yield from self._releases(services, view, end)
        elif move is None:
            return
        elif view.amount_cents != move.cents:
            if (other := self._same(services, move, view)) is not None:
                same = SameMovement(view.movement_id, *_TWO, other.movement_id)
                yield "same", lambda: services.movement_uses.take_as_same(same, operator)
        elif view.waits_for is None or self._is_in_review(view.waits_for):
            yield from self._of_held(services, view, move, end)

    def _releases(self, services: Services, view: MovementView, end: EndMovement) -> Iterator[tuple[str, Decision]]:
        """Take a use back; first what was booked as given back of it."""
        assert view.use is not None
        stands = f"refund_of = '{view.use.transaction_id}' AND type = 'correction' AND status = 'succeeded'"
        for each in self._payments(stands):
            given_back = services.movements.show(each["id"], operator_context())
            first = EndMovement(given_back.movement_id, _WHY, *_TWO)
            yield "release first", partial(services.releases.release, first, operator_context())
        yield "release", partial(services.releases.release, end, operator_context())

    def _is_in_review(self, transaction_id: str) -> bool:
        return bool(self._payments(f"id = '{transaction_id}' AND review_opened_at IS NOT NULL"))

    def _same(self, services: Services, move: Move, view: MovementView) -> MovementView | None:
        """The movement of the amount that moved, where another one has been told with the same receipt."""
        known = self._movements(services, account=view.account)
        fitting = (each for each in known if each.amount_cents == move.cents and each.told)
        others = (each for each in fitting if each.movement_id != view.movement_id)
        return next((each for each in others if self._found(services, each) is move), None)

    def _of_held(
        self, services: Services, view: MovementView, move: Move, end: EndMovement
    ) -> Iterator[tuple[str, Decision]]:
        operator = operator_context()
        if move.sign > 0 and self._errs(view.movement_id):
            code = Random(view.movement_id).choice(list(CODES))
            yield "mistaken assign", lambda: self._assign(services, view, code)
        elif self._errs(f"own {view.movement_id}"):
            yield "mistaken own", lambda: services.movement_uses.take_as_own(end, operator)
        elif move.client is None and move.is_payers:
            yield "return", lambda: self._return(services, end, move, view.account)
        elif move.client is None:
            yield "own", lambda: services.movement_uses.take_as_own(end, operator)
        elif move.code is not None:
            yield "assign", lambda: self._assign(services, view, str(move.code))
        else:
            yield from self._of_payment(services, view, move)

    def _of_payment(self, services: Services, view: MovementView, move: Move) -> Iterator[tuple[str, Decision]]:
        """Decide about what moved for a payment of ours, or back from one."""
        operator, payment = operator_context(), self._payment_of(move.of or move)
        counts = payment is not None and payment["status"] in ("succeeded", "reversed") and not payment["released_at"]
        if payment is not None and move.of is None:
            if payment["status"] not in _FINAL and not self._is_in_review(payment["id"]):
                return
            if counts and payment["amount_cents"] == move.cents:
                same = SameMovement(view.movement_id, *_TWO, payment["id"])
                yield "same payment", lambda: services.movement_uses.take_as_same(same, operator)
                return
            if counts:
                unmoved = UndonePayment(payment["id"], _WHY, *_TWO)
                yield "unmoved", lambda: services.releases.end_unmoved(unmoved, operator)
                return
        if move.of is not None and not counts and not self.is_calm:
            return
        names_it = payment is not None and (move.of is None or counts)
        client = self._client(move.client)
        if self._errs(f"correct {view.movement_id}"):
            client, names_it = self._client(1 - (move.client or 0)), False
        correct = CorrectMovement(
            view.movement_id, client, _WHY, *_TWO, payment=payment["id"] if payment and names_it else None
        )
        yield "correct", lambda: services.corrections.correct(correct, operator)

    def _assign(self, services: Services, view: MovementView, code: str) -> None:
        services.movement_uses.assign(AssignMovement(view.movement_id, code, *_TWO), operator_context())

    def _return(self, services: Services, end: EndMovement, move: Move, account: str) -> None:
        services.movement_uses.mark_returned(end, operator_context())
        self.give_back(move, self.accounts[account])

    def _is_wrong(self, view: MovementView, move: Move | None) -> bool:
        """Whether the use of a movement is another one than it should have."""
        assert view.use is not None
        if move is None:
            return self.is_calm and view.use.kind is not UseKind.OWN
        if view.amount_cents != move.cents and view.use.kind is not UseKind.OWN:
            return view.use.kind is not UseKind.PAYMENT or self._is_payers(view)
        if view.use.kind is UseKind.OWN:
            return move.client is not None and view.amount_cents == move.cents
        if view.use.kind is UseKind.RETURNED:
            return move.client is not None or not move.is_payers
        (payment,) = self._payments(f"id = '{view.use.transaction_id}'")
        if self._is_payers(view) and move.reference is not None and move.of is None:
            ours = self._payments(f"provider_reference = '{move.reference}' AND released_at IS NULL")
            if any(each["status"] in ("succeeded", "reversed") for each in ours):
                return True
        is_theirs = move.client is not None and payment["client_id"] == self._client(move.client)
        return not is_theirs and (view.use.kind is UseKind.CORRECTION or self._is_payers(view))

    def _is_payers(self, view: MovementView) -> bool:
        assert view.use is not None
        return self._payments(f"id = '{view.use.transaction_id}'")[0]["origin"] == "payer"
