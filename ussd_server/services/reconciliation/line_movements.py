"""What lines of statements moved and belongs to nothing: a held movement at once, taken back with an undone import."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from peewee import chunked

from ussd_server.database.tables import CompiledQuery, find_row, param
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.movements import IN, OUT, Movement
from ussd_server.models.statements import (
    DifferenceInStatement,
    ProviderStatement,
    StatementDifference,
    is_in_stored_statement,
)
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.held import BOTH_AMOUNTS, ONLY_IN_STATEMENT, hold
from ussd_server.services.gates.likeness import WITH_TWO_RECEIPTS
from ussd_server.services.gates.messages import Told, WayIn
from ussd_server.services.gates.movements import find_or_make
from ussd_server.services.gates.receipts import Money, lock_movement, lock_receipts, lock_told, receipts_of
from ussd_server.services.gates.unknown import hold_unknown
from ussd_server.services.gates.uses import merge
from ussd_server.services.reconciliation.days.lines import statements_with
from ussd_server.services.reconciliation.messages import Verdict
from ussd_server.services.reconciliation.reading.cell_values import phone_number_in
from ussd_server.services.transactions.messages import UNFINISHED, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import LONGEST_RECEIPT, canonical_receipt, new_id, written_amount

_MOVED = (Verdict.NOT_OURS, Verdict.REVERSAL, Verdict.AMOUNT_DIFFERS)
# What operators decide about a movement tells nothing of it.
_STATEMENT_ALONE = {WayIn.STATEMENT, WayIn.ASSIGNMENT, WayIn.SAME_PAYMENT}
_LINK = CompiledQuery(
    lambda: StatementDifference.update({StatementDifference.movement_id: param(StatementDifference.movement_id)}).where(
        StatementDifference.id == param(StatementDifference.id, "difference_id")
    )
)
_MOST_NAMED = 5
_AT_ONCE = 500


class LineThatMoved(NamedTuple):
    """A line that moved money; `id` is its place in the statement, by which lines follow each other.

    `differing_id` is the payment of ours that it names, of another amount.
    """

    id: str
    difference_id: str
    told: Told
    differing_id: str | None


def moved_lines(statement: ProviderStatement, after: str | None, most: int) -> list[LineThatMoved]:
    """The next differences of a statement that moved money and have no movement yet, in the order of their places."""
    place = DifferenceInStatement
    rows: Any = (
        StatementDifference.select(StatementDifference, place.id.alias("place_id"), place.at)
        .join(place, on=(place.difference_id == StatementDifference.id))
        .where(place.statement_id == statement.id, place.id > after if after else True)
        .where(StatementDifference.movement_id.is_null(), StatementDifference.ended_at.is_null())
        .where(StatementDifference.moved_cents != 0, StatementDifference.verdict.in_(_MOVED))
        .order_by(place.id)
        .limit(most)
    )
    return [
        LineThatMoved(
            row.place_id,
            row.id,
            _told_by(row, row.at),
            row.transaction_id if row.verdict == Verdict.AMOUNT_DIFFERS else None,
        )
        for row in rows.objects()
    ]


def hold_unknown_lines(lines: Sequence[LineThatMoved], now: datetime) -> None:
    """Hold those of some lines that nothing here knows. Call in a unit of work that has locked the imports, alone."""
    may_be_unknown = [each for each in lines if each.differing_id is None]
    movements = hold_unknown(lines[0].told.account, [each.told for each in may_be_unknown], ONLY_IN_STATEMENT, now)
    for line, movement in zip(may_be_unknown, movements, strict=True):
        if movement is not None:
            _link(line, movement)


def hold_lines(lines: Sequence[LineThatMoved], now: datetime) -> None:
    """Find or make the movements of some lines. Call in a unit of work that has locked the imports and nothing else."""
    lock_told(lines[0].told.account, [each.told for each in lines])
    for line in lines:
        if (movement := _movement_of(line, now)) is not None:
            _link(line, movement)


def hold_difference(difference: StatementDifference, now: datetime) -> None:
    """Hold what the line of a difference moved beside its payment, which is locked, and whose outcome stays.

    Call in a unit of work that has locked the imports.
    """
    places = DifferenceInStatement.select().where(DifferenceInStatement.difference_id == difference.id)
    at = places.order_by(DifferenceInStatement.id).first().at
    hold_lines([LineThatMoved("", difference.id, _told_by(difference, at), difference.transaction_id)], now)


def take_back(statement: ProviderStatement, now: datetime, *, was_stored: bool) -> None:
    """Let a statement that is stored no more tell of its movements no more.

    INVALID_REQUEST, with their ids, while movements that it alone told of are used. Those of an import that never ended
    stay, and the same file finds them. Call in a unit of work that has locked the imports.
    """
    places = DifferenceInStatement.select(DifferenceInStatement.difference_id)
    lines = StatementDifference.select(StatementDifference.movement_id).where(
        StatementDifference.id.in_(places.where(DifferenceInStatement.statement_id == statement.id)),
        StatementDifference.movement_id.is_null(False),
    )
    used = forget_untold({row.movement_id for row in lines}, now)
    if was_stored and (alone := [row for row in used if not _is_matched(row, now)]):
        raise ServiceError(Code.INVALID_REQUEST, f"The import stays: it alone told of {_named(alone)}")


def forget_untold(movement_ids: Collection[str], now: datetime) -> list[Movement]:
    """Let those of some movements that nothing tells of any more count nowhere; another way tells them anew.

    Those that are used stay, and are returned. Call in a unit of work that has locked the imports.
    """
    told = StatementDifference.select(StatementDifference.movement_id).where(
        StatementDifference.movement_id.is_null(False), is_in_stored_statement()
    )
    used: list[Movement] = []
    for some in chunked(sorted(movement_ids), _AT_ONCE):
        heirs = _heirs_of(some)
        locked = Movement.id.in_([*some, *(each.id for each in heirs.values())])
        for_update(Movement.select(Movement.id).where(locked).order_by(Movement.id)).execute()
        rows = list(Movement.select().where(Movement.id.in_(some), Movement.id.not_in(told)))
        firsts, first_of = _untold(rows, told)
        used += [row for row in firsts.values() if row.use_kind is not None]
        ids = [each for each, first in first_of.items() if first in firsts and firsts[first].use_kind is None]
        untold = Movement.update(told=[], held_because=None, waits_for=None, beside=[], updated_at=now)
        untold.where(Movement.id.in_(ids)).execute()
        StatementDifference.update(movement_id=None).where(StatementDifference.movement_id.in_(ids)).execute()
        for each in heirs.keys() & set(ids):
            merge(Movement.get_by_id(each), Movement.get_by_id(heirs[each].id), now)
    return used


def _heirs_of(movement_ids: Sequence[str]) -> dict[str, Movement]:
    """What other lines tell under the receipts of some movements, of another amount; locks these receipts.

    It gets the receipt once nothing tells of the first amount any more: whatever tells of the receipt then finds it.
    """
    told_twice = Movement.select().where(
        Movement.id.in_(movement_ids), Movement.other_amount_cents.is_null(False), Movement.receipt.is_null(False)
    )
    heirs = {}
    for row in told_twice.order_by(Movement.account, Movement.direction, Movement.receipt):
        lock_receipts(row.account, row.direction, [row.receipt])
        told = Told(WayIn.STATEMENT, row.account, row.direction, row.other_amount_cents, row.receipt)
        if (heir := _told_beside(told)) is not None and heir.same_as is None:
            heirs[row.id] = heir
    return heirs


def _is_matched(row: Movement, now: datetime) -> bool:
    """Whether a stored statement matches what uses a movement; the movement's line is one of that statement then."""
    if row.transaction_id is None or row.at is None:
        return False
    statement = next(statements_with(row.transaction_id, row.account, row.amount_cents, row.at, row.at), None)
    if statement is not None:
        line = StatementDifference.get(StatementDifference.movement_id == row.id)
        place = {"statement_id": statement.id, "difference_id": line.id, "at": row.at}
        DifferenceInStatement.create(id=new_id(now), **place)
    return statement is not None


def _untold(rows: Sequence[Movement], told: Any) -> tuple[dict[str, Movement], dict[str, str]]:
    """Those of some movements, or what they proved to be, that nothing tells of, by their ids.

    `told` are the movements that stored statements tell of. What proved to be the same money is told of together: the
    second value has what each movement proved to be.
    """
    firsts = {row.id: row for row in rows}
    while merged := {row.id: row.same_as for row in firsts.values() if row.same_as is not None}:
        firsts = {key: row for key, row in firsts.items() if key not in merged}
        firsts |= {row.id: row for row in Movement.select().where(Movement.id.in_(set(merged.values())))}
    first_of, parts = {key: key for key in firsts}, list(firsts.values())
    while parts:
        for row in parts:
            if not {each["way"] for each in row.told} <= _STATEMENT_ALONE:
                firsts.pop(first_of[row.id], None)
        parts = list(Movement.select().where(Movement.same_as.in_([row.id for row in parts])))
        first_of |= {row.id: first_of[row.same_as] for row in parts}
    for row in Movement.select(Movement.id).where(Movement.id.in_(list(first_of)), Movement.id.in_(told)):
        firsts.pop(first_of[row.id], None)
    return firsts, first_of


def _link(line: LineThatMoved, movement: Movement) -> None:
    _LINK.run(difference_id=line.difference_id, movement_id=movement.id)


def _told_by(difference: StatementDifference, at: datetime) -> Told:
    receipt = difference.provider_id or ""
    return Told(
        WayIn.STATEMENT,
        difference.account,
        IN if difference.moved_cents > 0 else OUT,
        abs(difference.moved_cents),
        receipt if canonical_receipt(receipt) and len(receipt) <= LONGEST_RECEIPT else "",
        phone_number_in(difference.party or ""),
        at,
    )


def _movement_of(line: LineThatMoved, now: datetime) -> Movement | None:
    """The movement of a line; None where its receipt is that of a payment of ours, which another line matches."""
    money, amount_cents = find_or_make(line.told, now), line.told.amount_cents
    named = None if line.differing_id is None else find_row(Transaction, line.differing_id)
    if (payment := money.payment) is not None and (payment.amount_cents != amount_cents or _has_other_lines(payment)):
        money, named = _of_other_money(line.told, now), payment
    elif (first := money.movement) is not None and first.amount_cents != amount_cents:
        # The statement shows what moved. The receipt stays with what was told of it first.
        first.other_amount_cents = amount_cents
        first.held_because = BOTH_AMOUNTS if first.use_kind is None else None
        first.save()
        money = _of_other_money(line.told, now)
    if (movement := money.movement) is None:
        return None
    movement.at = movement.at or line.told.at
    if movement.state != "held" or movement.held_because:
        movement.save()
        return movement
    hold(movement, ONLY_IN_STATEMENT, now)
    if named is not None:
        _put_beside(movement, named)
        movement.save()
    return movement


def _has_other_lines(payment: Transaction) -> bool:
    """Whether a line of a receipt of a payment, which another line matches, is other money.

    Airtel gives all refunds of a collection its receipt. A payment of a provider that gives one receipt has two where
    statements told lines of both.
    """
    is_told_twice = len(receipts_of(payment)) > 1 and payment.provider not in WITH_TWO_RECEIPTS
    return payment.type == TransactionType.REFUND or is_told_twice


def _of_other_money(told: Told, now: datetime) -> Money:
    """The movement of a line whose receipt stays with other money: what such a line told before, else a new one."""
    known = _told_beside(told)
    return find_or_make(replace(told, receipt=""), now) if known is None else Money(None, lock_movement(known))


def _told_beside(told: Told) -> Movement | None:
    """The movement of a line with a receipt that stays with other money."""
    lines = Movement.select().join(StatementDifference, on=(StatementDifference.movement_id == Movement.id))
    known: Movement | None = lines.where(
        StatementDifference.provider_id == told.receipt,
        Movement.account == told.account,
        Movement.direction == told.direction,
        Movement.amount_cents == told.amount_cents,
    ).first()
    return known


def _put_beside(movement: Movement, payment: Transaction) -> None:
    """Put a payment of ours beside a movement, whose line is about it, but not about what it moved here."""
    movement.held_because = f"Its line names transaction {payment.id}, of {written_amount(payment.amount_cents)}"
    movement.beside = [{"transaction_id": payment.id}]
    movement.waits_for = payment.id if payment.status in UNFINISHED else None


def _named(movements: Sequence[Movement]) -> str:
    names = [f"movement {row.id} ({row.use_kind})" for row in movements[:_MOST_NAMED]]
    more = len(movements) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")
