"""The approvals of payouts: each one is kept with who gave it, and counts until it is withdrawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID, uuid5

from ussd_server.context import CallerKind, RequestContext
from ussd_server.models.payouts import Approval, Payout
from ussd_server.services.operator_names import folded_name
from ussd_server.services.payouts.approval.digests import OF_GIVEN, PayoutDigests
from ussd_server.services.payouts.messages import NOTE, ApprovePayout
from ussd_server.services.same_person import people_behind
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

_OPERATORS = UUID("7d1f6c52-6f0e-5c55-9d59-2f3c1c1b8a60")


def caller_id(context: RequestContext) -> str:
    """The id of the key or the person that calls; for operators an id made of their names, as they look."""
    if context.caller.kind is CallerKind.OPERATOR:
        names = operators_of(context)
        assert names is not None, "operators make and approve payouts by their names"
        return str(uuid5(_OPERATORS, " and ".join(sorted(_looks_of(names)))))
    caller = context.caller.key_id or context.caller.user_id
    assert caller is not None, "payouts are made and approved by keys, people and operators"
    return caller


def caller_people(context: RequestContext) -> frozenset[str]:
    """The ids of the people behind the caller: who signed in, or who made or rotated the key."""
    person = context.caller.user_id
    return context.caller.people if person is None else frozenset({person})


def checked_note(note: str | None) -> str | None:
    """The note without spaces around it; None for an empty one.

    INVALID_REQUEST for more than 200 characters, and for control characters.
    """
    note = (note or "").strip() or None
    if note is not None and (len(note) > NOTE.longest or not note.isprintable()):
        raise ServiceError(Code.INVALID_REQUEST, "note: Must be at most 200 characters without control characters.")
    return note


def standing(payout: Payout) -> list[Approval]:
    """The approvals of the last round of a payout that were not withdrawn, oldest first."""
    return standing_of([payout])[payout.id]


def standing_of(payouts: Sequence[Payout]) -> Mapping[str, list[Approval]]:
    """As `standing`, for several payouts, by their ids."""
    by_payout: defaultdict[str, list[Approval]] = defaultdict(list)
    rounds = {payout.id: payout.round for payout in payouts}
    approvals = Approval.select().where(Approval.payout_id.in_(list(rounds)), Approval.withdrawn_at.is_null())
    for approval in approvals.order_by(Approval.id):
        if approval.round == rounds[approval.payout_id]:
            by_payout[approval.payout_id].append(approval)
    return by_payout


def require_another_person(payout: Payout, approvals: Sequence[Approval], context: RequestContext) -> None:
    """Raise INSUFFICIENT_SCOPE when one person stands behind the caller and an approval that was given before."""
    behind = people_behind(payout.client_id, caller_people(context))
    operators = _looks_of(operators_of(context))
    for each in approvals:
        if (
            each.made_by == caller_id(context)
            or behind & people_behind(payout.client_id, each.people)
            or operators & _looks_of(each.operators)
        ):
            raise ServiceError(
                Code.INSUFFICIENT_SCOPE, "Each approval of a payout is given by another person, and with another key"
            )


def keep_approval(
    request: ApprovePayout, payout: Payout, context: RequestContext, digests: PayoutDigests, now: datetime
) -> Approval:
    """Keep an approval by the caller. Call in a unit of work with the payout locked."""
    approval = Approval(
        id=new_id(now),
        payout_id=payout.id,
        round=payout.round,
        made_by=caller_id(context),
        people=caller_people(context),
        key_id=context.caller.key_id,
        operators=operators_of(context),
        note=checked_note(request.note),
        total_fee_cents=request.total_fee_cents,
        created_at=now,
    )
    approval.digest = digests.of(OF_GIVEN, approval)
    approval.save(force_insert=True)
    return approval


def end_approvals(approvals: Sequence[Approval], now: datetime) -> None:
    """Withdraw approvals. Call in a unit of work with the payout locked."""
    Approval.update(withdrawn_at=now).where(Approval.id.in_([each.id for each in approvals])).execute()


def operators_of(context: RequestContext) -> list[str] | None:
    """The names of the operators who approve together; None for other callers."""
    return context.caller.operator.split(" and ") if context.caller.operator else None


def _looks_of(names: Sequence[str] | None) -> frozenset[str]:
    """The names of operators as they look: one person is typed in several ways."""
    return frozenset(folded_name(" and ".join(names or ())).split(" and ")) - {""}
