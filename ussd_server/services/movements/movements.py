"""Movements that are told otherwise than by our own payments: listed, shown and counted, for operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import (
    TO_BE_GIVEN_BACK,
    Movement,
    MovementReceipt,
    MovementUse,
    counts,
    is_held,
    is_unexplained,
)
from ussd_server.models.statements import (
    ClosedDay,
    ProviderStatement,
    StatementDifference,
    is_in_stored_statement,
)
from ussd_server.models.transactions import Transaction
from ussd_server.security.key_ring import Vault
from ussd_server.services.gates.given_back import counts_elsewhere
from ussd_server.services.gates.likeness import named_by
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.gates.receipts import BANK, lock_movement
from ussd_server.services.incoming.codes import canonical, prefix_of
from ussd_server.services.incoming.suggestions import similar_codes, with_one_slip
from ussd_server.services.movements.messages import (
    Beside,
    HeldLikeOwn,
    ListMovements,
    MovementHistory,
    MovementUseView,
    MovementView,
    StatementPlace,
    Telling,
)
from ussd_server.services.movements.own_payments import own_payments, views_of_own
from ussd_server.services.pages import count_rows, find_by_id, page_of, require_row
from ussd_server.services.providers.accounts import provider_of
from ussd_server.services.reconciliation.messages import Verdict
from ussd_server.services.runtime import Runtime
from ussd_server.services.signatures import sign_row
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    UNFINISHED,
    Origin,
    TransactionStatus,
    TransactionType,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import bounds_of_day, is_id, kampala_day
from ussd_server.wire import Page, view_of_row

_MOST_COMPARED = 500
_MOST_SUGGESTED = 5
_STATES: dict[str, str] = {
    UseKind.PAYMENT: "booked",
    UseKind.CORRECTION: "booked as a correction",
    UseKind.OWN: "the operator's own",
}


class MovementService:
    """Lists and shows movements, for operators; and to a client those that resemble its payment codes."""

    def __init__(self, runtime: Runtime) -> None:
        self._tokens, self._providers = runtime.tokens, runtime.providers

    def list(self, request: ListMovements, context: RequestContext) -> Page[MovementView]:
        """A page of movements, newest first, with the payments of ours that are their own.

        INVALID_REQUEST for a cursor of another list.
        """
        context.require_operator()
        rows = Movement.select().where(counts())
        if request.is_held:
            rows = rows.where(is_unexplained())
        if request.account is not None:
            if request.account != BANK:
                provider_of(request.account, self._providers)
            rows = rows.where(Movement.account == request.account)
        if request.day is not None:
            begin, end = bounds_of_day(request.day)
            rows = rows.where(Movement.at >= begin, Movement.at < end)
        own = () if request.is_held else ((own_payments(request), Transaction),)
        return page_of(rows, Movement, request, self._tokens, _views_of_both, beside=own)

    def list_alike(self, context: RequestContext) -> tuple[HeldLikeOwn, ...]:
        """The newest held movements whose code begins with the client's prefix, or is a slip from a code of theirs."""
        context.require("collection:read")
        prefix = prefix_of(context.client_id)
        if prefix is None:
            return ()
        beginnings = (prefix, *with_one_slip(prefix))
        held = Movement.select().where(is_held(), Movement.code.is_null(False))
        views = []
        for row in held.order_by(Movement.id.desc()).limit(_MOST_COMPARED):
            typed = canonical(row.code or "")
            if not typed.startswith(beginnings):
                continue
            own = PaymentCode.client_id == context.client_id
            meant = tuple(each.code for each in similar_codes(typed, row.amount_cents, own))
            if meant or typed.startswith(prefix):
                views.append(
                    view_of_row(HeldLikeOwn, row, provider=provider_of(row.account, self._providers), meant=meant)
                )
        return tuple(views)

    def count_held(self, context: RequestContext) -> int:
        """How many movements are held or to be given back, 10,000 at most."""
        context.require_operator()
        return count_rows(Movement.select().where(is_unexplained()))

    def show(self, movement_id: str, context: RequestContext) -> MovementHistory:
        """One movement, by its id or that of the payment that uses it, with its uses. NOT_FOUND."""
        context.require_operator()
        row = _movement_or_own(movement_id)
        (view,) = _views_of_both([row])
        uses = MovementUse.select().where(MovementUse.movement_id == row.id).order_by(MovementUse.number)
        history = tuple(map(_use_view, uses)) or tuple(each for each in (view.use,) if each is not None)
        may_give_back = _may_give_back(row) if isinstance(row, Movement) else ()
        values = {field.name: getattr(view, field.name) for field in fields(view)}
        return MovementHistory(**values, history=history, may_give_back=may_give_back)

    def of_payment(self, transaction_id: str, context: RequestContext) -> MovementView | None:
        """The movement that a payment uses; None where the payment is its own."""
        context.require_operator()
        row = Movement.get_or_none(Movement.transaction_id == transaction_id)
        return None if row is None else view_of_movement(row)


def find_movement(movement_id: str) -> Movement:
    """A movement. Raises NOT_FOUND."""
    movement: Movement = find_by_id(Movement.select(), Movement, movement_id, "Movement")
    return movement


def _movement_or_own(row_id: str) -> Movement | Transaction:
    """A movement by its id or that of the payment that uses it, else a payment that is its own. Raises NOT_FOUND."""
    if not is_id(row_id):
        raise ServiceError(Code.NOT_FOUND, "Movement not found")
    movement: Movement | None = Movement.get_or_none((Movement.id == row_id) | (Movement.transaction_id == row_id))
    own: Transaction | None = own_payments(ListMovements()).where(Transaction.id == row_id).first()
    return movement or require_row(own, "Movement")


def held_movement(movement_id: str, *, may_have_payment: bool = False, decided: Transaction | None = None) -> Movement:
    """A held movement, locked after its receipt. NOT_FOUND, and INVALID_REQUEST for one that is not held.

    `may_have_payment`: a payment of ours may have its receipt and another amount, or have failed, which leaves
    operators to end it. `decided` is the payment, locked, about which the operators decide with it.
    """
    movement = lock_movement(find_movement(movement_id))
    if not movement.told:
        raise refusal("The import that told of it was undone")
    if movement.same_as is not None:
        raise refusal(f"It is the same money as movement {movement.same_as}")
    if movement.use_kind is not None:
        raise refusal(f"The movement is {_STATES.get(movement.use_kind, movement.state)}, no longer held")
    decided_id = None if decided is None else str(decided.id)
    waits_for = None if movement.waits_for in (None, decided_id) else find_row(Transaction, movement.waits_for)
    if waits_for is not None and waits_for.status in UNFINISHED:
        raise refusal(f"Transaction {movement.waits_for} decides about it, and is not final yet")
    if (counted := _counted_otherwise(movement)) is not None:
        raise refusal(f"Transaction {counted} counts, with another amount; say first that it never moved")
    named = named_by(movement)
    if named is not None and not may_have_payment and has_its_money(named, decided_id):
        raise refusal(f"A payment that was asked for has this receipt: transaction {named.id}")
    return movement


def told_of(movement: Movement) -> Transaction | None:
    """The payment of ours whose receipt a movement has, or that its statement's line names."""
    if (named := named_by(movement)) is not None:
        return named
    line = StatementDifference.get_or_none(
        StatementDifference.movement_id == movement.id, StatementDifference.transaction_id.is_null(False)
    )
    return find_row(Transaction, line.transaction_id) if line else None


def has_its_money(named: Transaction, decided_id: str | None = None) -> bool:
    """Whether a payment that has a movement's receipt counts, or may count unless operators decide about it now."""
    if named.status in SUCCESSFUL:
        return bool(named.released_at is None)
    return bool(named.status != TransactionStatus.FAILED and named.id != decided_id)


def _counted_otherwise(movement: Movement) -> str | None:
    """The success of ours that a movement's line is about, and that counts with another amount; None without.

    None too where the day of the line was closed, beside a newer statement that matches the payment.
    """
    lines = (
        StatementDifference.select(StatementDifference.transaction_id)
        .join(Transaction, on=(Transaction.id == StatementDifference.transaction_id))
        .where(StatementDifference.movement_id == movement.id, StatementDifference.verdict == Verdict.AMOUNT_DIFFERS)
        .where(Transaction.status.in_(SUCCESSFUL), ~counts_elsewhere())
    )
    counted = next((row.transaction_id for row in lines), None)
    if counted is None:
        return None
    of_day = (ClosedDay.account == movement.account) & (ClosedDay.day == kampala_day(movement.at))
    return None if ClosedDay.select().where(of_day).exists() else str(counted)


def _may_give_back(row: Movement) -> tuple[str, ...]:
    """Movements of its amount in the other direction that may give an unexplained one back, those of its number first.

    Five at most, the newest of each; none of another number that is known.
    """
    unexplained = is_unexplained() & (Movement.account == row.account) & (Movement.direction != row.direction)
    if row.state == TO_BE_GIVEN_BACK:
        unexplained &= Movement.use_kind.is_null()
    elif row.state != "held":
        return ()
    others = Movement.select().where(unexplained, Movement.amount_cents == row.amount_cents)
    if row.phone_number is not None:
        others = others.where(Movement.phone_number.is_null() | (Movement.phone_number == row.phone_number))
    newest = others.order_by(Movement.phone_number.is_null(), Movement.id.desc())
    return tuple(each.id for each in newest.limit(_MOST_SUGGESTED))


def last_use(movement_id: str) -> MovementUse:
    """The last use or release of a movement that has one."""
    uses = MovementUse.select().where(MovementUse.movement_id == movement_id)
    last: MovementUse = uses.order_by(MovementUse.number.desc()).get()
    return last


def sign_last_use(vault: Vault, movement_id: str) -> None:
    """Sign the use of a movement that was just written."""
    sign_row(vault, MovementUse, last_use(movement_id).id)


def require_refunds_final(payment: Transaction) -> None:
    """INVALID_REQUEST while a refund of a collection is not final."""
    unfinished = Transaction.select().where(Transaction.refund_of == payment.id, Transaction.status.in_(UNFINISHED))
    if (refund := unfinished.first()) is not None:
        raise refusal(f"Refund {refund.id} of it decides about the money, and is not final yet")


def refusal(sentence: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, sentence)


def view_of_movement(row: Movement) -> MovementView:
    """A movement as operators see it."""
    (view,) = views_of_movements([row])
    return view


def _views_of_both(rows: Sequence[Movement | Transaction]) -> list[MovementView]:
    own = views_of_own([row for row in rows if isinstance(row, Transaction)])
    others = views_of_movements(row for row in rows if isinstance(row, Movement))
    views = {view.movement_id: view for view in (*own, *others)}
    return [views[row.id] for row in rows]


def views_of_movements(rows: Iterable[Movement]) -> Sequence[MovementView]:
    """Movements as operators see them: a few queries for all, and one for the suggestions of each held one."""
    movements = list(rows)
    ids = [row.id for row in movements]
    lines = _lines_of(ids)
    receipts: dict[str, list[str]] = defaultdict(list)
    for each in MovementReceipt.select().where(MovementReceipt.movement_id.in_(ids)):
        receipts[each.movement_id].append(each.written)
    used = [row.id for row in movements if row.use_kind is not None]
    uses = {
        use.movement_id: use
        for use in MovementUse.select().where(MovementUse.movement_id.in_(used)).order_by(MovementUse.number)
    }
    ours = Transaction.select(Transaction.id, Transaction.provider_reference).where(
        Transaction.id.in_([row.transaction_id for row in movements]),
        Transaction.origin != Origin.PAYER,
        Transaction.type != TransactionType.CORRECTION,
    )
    names = {row.id: row.provider_reference for row in ours}
    return [
        view_of_row(
            MovementView,
            row,
            movement_id=row.id,
            reference=names.get(row.transaction_id),
            receipts=tuple(receipts[row.id]),
            told=tuple(Telling(WayIn(each["way"]), datetime.fromisoformat(each["at"])) for each in row.told),
            beside=tuple(Beside(each.get("movement_id"), each.get("transaction_id")) for each in row.beside),
            line=lines.get(row.id),
            suggestions=_suggestions(row),
            use=_use_view(uses[row.id]) if row.id in uses else None,
        )
        for row in movements
    ]


def _lines_of(movement_ids: Sequence[str]) -> dict[str, StatementPlace]:
    """The lines that told of movements, of the first statement that has each; none of an import that is not stored."""
    rows: Any = (
        StatementDifference.select(
            StatementDifference.movement_id,
            ProviderStatement.id,
            ProviderStatement.file_name,
            StatementDifference.line,
            StatementDifference.id,
        )
        .join(ProviderStatement, on=(ProviderStatement.id == StatementDifference.statement_id))
        .where(StatementDifference.movement_id.in_(list(movement_ids)), is_in_stored_statement())
        .order_by(StatementDifference.id.desc())
    )
    return {movement_id: StatementPlace(*place) for movement_id, *place in rows.tuples()}


def _suggestions(row: Movement) -> tuple[str, ...]:
    if row.use_kind is not None or row.same_as is not None:
        return ()
    return tuple(code.code for code in similar_codes(canonical(row.code or ""), row.amount_cents))


def _use_view(use: MovementUse) -> MovementUseView:
    by, second, *_ = *(use.decided_by or "").split(", "), None, None
    return MovementUseView(
        UseKind(use.kind), use.transaction_id, use.other_id, by or None, second, use.reason, use.created_at
    )
