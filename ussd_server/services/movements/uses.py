"""What two operators say of a held movement: whose it is, that it is to be given back, or that it is known already."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import IN, OUT, Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.gates.movements import Told, decide_again, find_or_make, take_movement
from ussd_server.services.gates.receipts import LONGEST_RECEIPT
from ussd_server.services.gates.uses import merge, use
from ussd_server.services.incoming import booking
from ussd_server.services.incoming.messages import PaymentCodeView
from ussd_server.services.movements.messages import (
    AssignMovement,
    EndMovement,
    HoldDifference,
    MovementView,
    SameMovement,
)
from ussd_server.services.movements.movements import (
    find_movement,
    held_movement,
    refusal,
    sign_last_use,
    view_of_movement,
)
from ussd_server.services.operator_names import require_name, require_two_names, require_two_people
from ussd_server.services.pages import require_row
from ussd_server.services.reconciliation.cell_values import phone_number_in
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.imports import lock_imports
from ussd_server.services.reconciliation.messages import DifferenceView, EndDifference, Verdict
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import SUCCESSFUL, Source
from ussd_server.values import canonical_receipt, written_amount
from ussd_server.wire import view_of_row


class MovementUseService:
    """Ends held movements, for operators only."""

    def __init__(self, runtime: Runtime, book: booking.IncomingBook, differences: DifferenceService) -> None:
        self._clock, self._vault = runtime.clock, runtime.vault
        self._book = book
        self._differences = differences

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
        """Let a held movement be money that is known: another movement, or a payment of ours that has no receipt.

        NOT_FOUND. INVALID_REQUEST for a movement that is not held, for other money of another amount or direction, for
        a payment that has a receipt or did not succeed, and unless two different people are named.
        """
        context.require_operator()
        decided_by, now = ", ".join(require_two_names(request.by, request.second)), self._clock.now()
        with unit_of_work():
            other_id = request.other_id or _only_one_beside(find_movement(request.movement_id))
            # Before the receipt and the movement, as the processing of payments locks them.
            payment = Transaction.get_or_none(Transaction.id == other_id)
            payment = payment and lock_row(Transaction, payment.id)
            movement = held_movement(request.movement_id, may_have_payment=True)
            receipt = movement.receipt or ""
            if payment is None:
                first = find_movement(other_id, locked=True)
                if _what_moved(first) != _what_moved(movement) or first.id == movement.id or first.same_as is not None:
                    raise refusal("The other movement is of another account, direction or amount")
                merge(movement, first, now)
                booking.write_movement_event(
                    "movement.same", movement, context, f"It is movement {first.id}", None, decided_by
                )
            else:
                if not take_movement(payment, movement, receipt, WayIn.SAME_PAYMENT, now, decided_by):
                    raise refusal("It waits for no payment of its amount that succeeded without a receipt")
                sign_last_use(self._vault, movement.id)
                decide_again(payment.id)
                reason = f"Receipt {receipt} is that of the payment"
                action = "transaction.receipt_given"
                booking.write_movement_event(action, movement, context, reason, payment.client_id, decided_by)
        return view_of_movement(movement)

    def mark_returned(self, request: EndMovement, context: RequestContext) -> MovementView:
        """Mark a held movement for return: the operator gives it back at the provider, outside of this service.

        NOT_FOUND, and INVALID_REQUEST for a movement that is not held, while a payment of ours decides about it, for a
        receipt that a payment of ours has, and unless two different people are named with a reason.
        """
        return self._end(request, UseKind.RETURNED, "movement.returned", context)

    def take_as_own(self, request: EndMovement, context: RequestContext) -> MovementView:
        """Call a held movement the operator's own: the float filled up or drawn, or charges. As `mark_returned`."""
        return self._end(request, UseKind.OWN, "movement.own", context)

    def require_held(self, movement_id: str, context: RequestContext) -> MovementView:
        """A held movement, locked. Raises NOT_FOUND, and INVALID_REQUEST for one that is not held."""
        context.require_operator()
        return view_of_movement(held_movement(movement_id, may_have_payment=True))

    def hold(self, request: HoldDifference, context: RequestContext) -> MovementView:
        """Hold what moved by a statement's line and belongs to nothing, and end the review of the difference.

        A receipt that the provider reported by now stays as it is. NOT_FOUND, and INVALID_REQUEST for a difference
        that moved no such money, that has no receipt or that has ended, and where the provider reported another amount.
        """
        context.require_operator()
        by, now = require_name(request.by), self._clock.now()
        with unit_of_work():
            # Before the receipt, as for payments that are set to succeeded from a statement.
            lock_imports()
            difference = self._differences.show(request.difference_id, context)
            receipt, cents = _money_of(difference)
            amount_cents = abs(cents)
            number = phone_number_in(difference.party or "")
            money = find_or_make(
                Told(WayIn.STATEMENT, difference.provider, IN if cents > 0 else OUT, amount_cents, receipt, number),
                now,
                held_because=f"The provider did not report it; it is a line of {difference.file_name}",
                difference_id=difference.difference_id,
            )
            told_cents = (money.payment or money.movement).amount_cents  # type: ignore[union-attr]
            if told_cents != amount_cents:
                reported, stated = written_amount(told_cents), written_amount(amount_cents)
                raise refusal(f"The provider reported {reported} under this receipt, and the statement has {stated}")
            if money.movement is None:
                raise refusal(f"A payment that was asked for has this receipt: transaction {money.used_by}")
            money.movement.save()
            self._differences.end(EndDifference(difference.difference_id, f"Movement {money.movement.id}", by), context)
        return view_of_movement(money.movement)

    def _end(self, request: EndMovement, kind: UseKind, action: str, context: RequestContext) -> MovementView:
        context.require_operator()
        decided_by = ", ".join(require_two_people(request.by, request.second, request.reason))
        reason, now = request.reason.strip(), self._clock.now()
        with unit_of_work():
            movement = held_movement(request.movement_id, may_have_payment=True)
            use(movement, kind, now, decided_by=decided_by, reason=reason)
            sign_last_use(self._vault, movement.id)
            booking.write_movement_event(action, movement, context, reason, None, decided_by)
        return view_of_movement(movement)


def _assignable(movement_id: str, typed: str) -> tuple[Movement, PaymentCode]:
    movement = held_movement(movement_id)
    if movement.direction != IN:
        raise refusal("Only money that came in is booked for a payment code")
    return movement, require_row(booking.find_code(typed, locked=True), "Payment code")


def _only_one_beside(movement: Movement) -> str:
    """The one payment or movement that may be the same money. INVALID_REQUEST for none or several."""
    names = [each.get("transaction_id") or each["movement_id"] for each in movement.beside]
    if len(names) != 1:
        raise refusal("It waits for no payment that succeeded without a receipt; name the other money")
    return str(names[0])


def _what_moved(movement: Movement) -> tuple[str, str, int]:
    return movement.account, movement.direction, movement.amount_cents


def _money_of(difference: DifferenceView) -> tuple[str, int]:
    """Receipt and signed cents of what a line moved that belongs to no payment of ours that succeeded.

    INVALID_REQUEST for any other difference.
    """
    receipt, cents = difference.provider_id, difference.theirs
    is_named = receipt is not None and bool(canonical_receipt(receipt)) and len(receipt) <= LONGEST_RECEIPT
    is_moved = difference.verdict in (Verdict.NOT_OURS, Verdict.REVERSAL)
    if difference.verdict is Verdict.AMOUNT_DIFFERS and difference.transaction_id is not None:
        is_moved = find_row(Transaction, difference.transaction_id).status not in SUCCESSFUL
    if not (is_moved and is_named and isinstance(cents, int) and cents) or receipt is None:
        raise refusal("Only what a line moved, with a receipt, and what is not ours can be held")
    return receipt, cents
