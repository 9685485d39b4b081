"""What two operators say of a held movement: whose it is, that it is to be given back, or that it is known already."""

from __future__ import annotations

from datetime import datetime

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import IN, OUT, TO_BE_GIVEN_BACK, Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.likeness import WITH_TWO_RECEIPTS
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.gates.movements import decide_again
from ussd_server.services.gates.own_movements import own_of, take_movement
from ussd_server.services.gates.receipts import direction_of, lock_movements
from ussd_server.services.gates.uses import merge, use
from ussd_server.services.incoming import booking
from ussd_server.services.incoming.messages import PaymentCodeView
from ussd_server.services.movements.messages import (
    AssignMovement,
    EndMovement,
    MovementView,
    SameMovement,
)
from ussd_server.services.movements.movements import (
    find_movement,
    held_movement,
    refusal,
    sign_last_use,
    told_of,
    view_of_movement,
)
from ussd_server.services.operator_names import require_two_names, require_two_people
from ussd_server.services.pages import require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import Origin, Source
from ussd_server.wire import view_of_row


class MovementUseService:
    """Ends held movements, for operators only."""

    def __init__(self, runtime: Runtime, book: booking.IncomingBook) -> None:
        self._clock, self._vault = runtime.clock, runtime.vault
        self._book = book

    def assign(self, request: AssignMovement, context: RequestContext) -> MovementView:
        """Book a held movement under a payment code, whatever amount and time the code says; the audit trail shows it.

        NOT_FOUND for an unknown movement or code. INVALID_REQUEST for one that is not held or went out, while a payment
        of ours decides about it, for a receipt that a payment of ours has, and unless two different people are named.
        """
        context.require_operator()
        decided_by = ", ".join(require_two_names(request.by, request.second))
        with unit_of_work():
            movement, code = _assignable(request.movement_id, request.code)
            self._book.book(movement, code, Source.OPERATOR, context, decided_by)
            sign_last_use(self._vault, movement.id)
            reason = f"Receipt {movement.receipt}, assigned to {code.code}"
            booking.write_movement_event("transaction.assigned", movement, context, reason, code.client_id, decided_by)
        return view_of_movement(movement)

    def require_assignable(
        self, movement_id: str, code: str, context: RequestContext
    ) -> tuple[MovementView, PaymentCodeView, str]:
        """A held movement, the code that it can be booked under now, and the code's client. Raises as `assign`."""
        context.require_operator()
        movement, code_row = _assignable(movement_id, code)
        return view_of_movement(movement), view_of_row(PaymentCodeView, code_row), code_row.client_id

    def take_as_same(self, request: SameMovement, context: RequestContext) -> MovementView:
        """Let a held movement be money that is known: another movement, or a payment that lacks a receipt.

        A movement without a receipt may also be a payment that has them. NOT_FOUND. INVALID_REQUEST for a movement that
        is not held, for other money of another amount or direction, where both have a receipt, for a payment that did
        not succeed, and unless two different people are named.
        """
        context.require_operator()
        decided_by, now = ", ".join(require_two_names(request.by, request.second)), self._clock.now()
        with unit_of_work():
            other_id = request.other_id or _only_one_beside(find_movement(request.movement_id))
            payment = Transaction.get_or_none(Transaction.id == other_id)
            # A payment of ours before the movements, a payer's after them, as the gates lock them.
            if payment is not None and payment.origin != Origin.PAYER:
                payment = lock_row(Transaction, payment.id)
            first = find_movement(other_id) if payment is None else own_of(payment)
            locked = {each.id: each for each in lock_movements([find_movement(request.movement_id), first])}
            if payment is not None and payment.origin == Origin.PAYER:
                payment = lock_row(Transaction, payment.id)
            movement = held_movement(request.movement_id, may_have_payment=True)
            action, reason, client_id = "movement.same", "It is the money of the payment", None
            if payment is None:
                first = locked[other_id]
                if not _may_be_one(movement, first):
                    raise refusal("The other movement is of another account, direction or amount")
                merge(movement, first, now, decided_by)
                reason = f"It is movement {first.id}"
            else:
                receipt, client_id = movement.receipt or "", payment.client_id
                is_another = bool(receipt) and not _may_have_another_receipt(payment)
                if is_another or not take_movement(payment, movement, receipt, WayIn.SAME_PAYMENT, now, decided_by):
                    raise refusal("It waits for no payment of its amount that succeeded without a receipt")
                decide_again(payment.id)
                if receipt:
                    action, reason = "transaction.receipt_given", f"Receipt {receipt} is that of the payment"
            sign_last_use(self._vault, movement.id)
            booking.write_movement_event(action, movement, context, reason, client_id, decided_by)
        return view_of_movement(movement)

    def mark_returned(self, request: EndMovement, context: RequestContext) -> MovementView:
        """Mark a held movement for return: it is given back at the provider, outside of this service.

        It stays unexplained until `other_id` is named, at once or later: the held movement of the same amount in the
        other direction that gives it back. NOT_FOUND, and INVALID_REQUEST for a movement that is not held, while a
        payment of ours decides about it, for another account or amount, and unless two different people are named with
        a reason.
        """
        names, now = _require_operators(request, context), self._clock.now()
        with unit_of_work():
            first, second = _returnable(request)
            if first.use_kind is None:
                self._use(first, UseKind.RETURNED, now, names, request.reason, context)
            if second is not None:
                self._use(second, UseKind.RETURNED, now, names, request.reason, context, other_id=first.id)
        return view_of_movement(find_movement(request.movement_id))

    def preview_return(self, request: EndMovement, context: RequestContext) -> tuple[MovementView, MovementView | None]:
        """What is to be given back, and what gives it back; changes nothing. Raises as `mark_returned`."""
        context.require_operator()
        with unit_of_work():
            first, second = _returnable(request)
            return view_of_movement(first), None if second is None else view_of_movement(second)

    def take_as_own(self, request: EndMovement, context: RequestContext) -> MovementView:
        """Call a held movement the operator's own: the float filled up or drawn, or charges.

        NOT_FOUND, and INVALID_REQUEST for a movement that is not held, while a payment of ours decides about it, and
        unless two different people are named with a reason.
        """
        names, now = _require_operators(request, context), self._clock.now()
        with unit_of_work():
            movement = held_movement(request.movement_id, may_have_payment=True)
            self._use(movement, UseKind.OWN, now, names, request.reason, context)
        return view_of_movement(movement)

    def require_held(self, movement_id: str, context: RequestContext) -> MovementView:
        """A held movement, locked. Raises NOT_FOUND, and INVALID_REQUEST for one that is not held."""
        context.require_operator()
        return view_of_movement(held_movement(movement_id, may_have_payment=True))

    def _use(
        self,
        movement: Movement,
        kind: UseKind,
        now: datetime,
        names: str,
        reason: str,
        context: RequestContext,
        other_id: str | None = None,
    ) -> None:
        """Use a held movement otherwise than by a transaction, signed and with its audit event."""
        use(movement, kind, now, decided_by=names, reason=reason.strip(), other_id=other_id)
        sign_last_use(self._vault, movement.id)
        audited = reason.strip() if other_id is None else f"It gives back movement {other_id}: {reason.strip()}"
        booking.write_movement_event(f"movement.{kind}", movement, context, audited, None, names)


def _require_operators(request: EndMovement, context: RequestContext) -> str:
    """The names of the two operators who decide."""
    context.require_operator()
    return ", ".join(require_two_people(request.by, request.second, request.reason))


def _returnable(request: EndMovement) -> tuple[Movement, Movement | None]:
    """A movement that is to be given back, and the one that gives it back, if it is named; both locked."""
    if request.other_id is None:
        return held_movement(request.movement_id, may_have_payment=True), None
    unlocked = [find_movement(request.movement_id), find_movement(request.other_id)]
    by_id = {each.id: each for each in lock_movements(unlocked)}
    first, second = (by_id[each.id] for each in unlocked)
    if second.state == TO_BE_GIVEN_BACK:
        first, second = second, first
    if first.state != TO_BE_GIVEN_BACK:
        first = held_movement(first.id, may_have_payment=True)
    second = held_movement(second.id, may_have_payment=True)
    if (first.account, first.amount_cents) != (second.account, second.amount_cents):
        raise refusal("The other movement is of another account or amount")
    if first.direction == second.direction:
        raise refusal("The other movement is of the same direction")
    return first, second


def _assignable(movement_id: str, typed: str) -> tuple[Movement, PaymentCode]:
    movement = held_movement(movement_id)
    if movement.direction != IN:
        raise refusal("Only money that came in is booked for a payment code")
    if (paid := told_of(movement)) is not None and direction_of(paid) == OUT:
        raise refusal(f"The provider took transaction {paid.id} back: correct an account by it")
    return movement, require_row(booking.find_code(typed, locked=True), "Payment code")


def _only_one_beside(movement: Movement) -> str:
    """The one payment or movement that may be the same money. INVALID_REQUEST for none or several."""
    names = [each.get("transaction_id") or each["movement_id"] for each in movement.beside]
    if len(names) != 1:
        raise refusal("It waits for no payment that succeeded without a receipt; name the other money")
    return str(names[0])


def _may_have_another_receipt(payment: Transaction) -> bool:
    """Whether a payment has no receipt, or one where its provider gives two."""
    if payment.provider_transaction_id is None:
        return True
    return payment.provider in WITH_TWO_RECEIPTS and payment.provider_receipt is None


def _may_be_one(movement: Movement, first: Movement) -> bool:
    """Whether a movement can be the same as another one: of one amount, perhaps of the second that it was told with."""
    has_amount = first.amount_cents in (movement.amount_cents, movement.other_amount_cents)
    is_there = first.id != movement.id and first.same_as is None and bool(first.told)
    return is_there and has_amount and (first.account, first.direction) == (movement.account, movement.direction)
