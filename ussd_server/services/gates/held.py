"""Why a movement is held, what it waits for, and what it may be."""

from __future__ import annotations

from datetime import datetime, timedelta

from ussd_server.models.movements import Movement
from ussd_server.models.statements import ClosedDay
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.given_back import RELEASED
from ussd_server.services.gates.likeness import named_by, payments_like
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.uses import is_told_by
from ussd_server.services.transactions.messages import UNFINISHED, Origin, TransactionStatus
from ussd_server.values import kampala_day

BOTH_AMOUNTS = "It was told with two amounts"
ONLY_IN_STATEMENT = "A statement has it, and nothing explains it"
_MOST_AHEAD = timedelta(minutes=5)


def hold(movement: Movement, misfit: str | None, now: datetime, client_id: str | None = None) -> bool:
    """Write why a locked movement without a use is held; return whether it is.

    `misfit` is why nothing takes it; None for a code of the client `client_id`, which takes it if nothing holds it.
    """
    named = named_by(movement)
    movement.waits_for, movement.beside = None, [] if named is None else [{"transaction_id": named.id}]
    movement.held_because = _why_held(movement, named, misfit, now, client_id)
    if movement.held_because is None:
        return False
    movement.updated_at = now
    movement.save()
    return True


def _why_held(
    movement: Movement, named: Transaction | None, misfit: str | None, now: datetime, client_id: str | None
) -> str | None:
    """Why a movement is not booked; sets what it waits for and what it may be. None: its code takes it."""
    if movement.other_amount_cents is not None:
        return BOTH_AMOUNTS
    if (movement.held_because or "").startswith(RELEASED.format("")):
        return str(movement.held_because)
    if named is not None and named.status in UNFINISHED:
        movement.waits_for = named.id
        return f"Transaction {named.id} has its receipt, and is not final"
    if named is not None:
        return f"Transaction {named.id} has its receipt, and {_outcome_of(named)}"
    if misfit is None and movement.at > now + _MOST_AHEAD:
        return "It is dated more than five minutes ahead"
    if misfit is None and _is_closed(movement):
        return "It is dated on a day that is closed, whose statement does not have it"
    payments = [
        each
        for each in payments_like(movement)
        # An open request of another client decides nothing where a code does.
        if misfit is not None or each.status not in UNFINISHED or each.client_id == client_id
    ]
    if payments:
        movement.beside = [{"transaction_id": each.id} for each in payments]
        unfinished = [each for each in payments if each.status in UNFINISHED]
        movement.waits_for = unfinished[0].id if unfinished else None
        first = payments[0]
        if first.origin == Origin.PAYER:
            return f"It may be the money of transaction {first.id}"
        return f"It may be what transaction {first.id} asked for"
    return misfit


def _outcome_of(named: Transaction) -> str:
    """Why a final payment of ours that has the receipt of a movement does not use it."""
    if named.released_at is not None:
        return "operators said that it never moved"
    return "has failed" if named.status == TransactionStatus.FAILED else "moved another amount"


def _is_closed(movement: Movement) -> bool:
    """Whether the day of a movement is closed, and no line of its statement told of it."""
    if is_told_by(movement, WayIn.STATEMENT):
        return False
    of_day = (ClosedDay.account == movement.account) & (ClosedDay.day == kampala_day(movement.at))
    return bool(ClosedDay.select().where(of_day).exists())
