"""Decisions that take two operators: one proposes, another confirms, and only then it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import orjson
from peewee import IntegrityError

from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.database.ids import is_id, new_id
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.messages.operators import ProposalView, Propose
from ussd_server.models.operators import Proposal
from ussd_server.services.audit import write_audit_event
from ussd_server.status import Code, ServiceError

PROPOSAL_HOURS = 24
_LONGEST_REASON = 200

TwoPersonAction = Callable[[ProposalView, str, RequestContext], object]
"""Does what was proposed, in the unit of work of the confirmation: the proposal, who confirms, the confirming call."""


class ProposalService:
    """Keeps proposals, and does what was proposed when a second operator confirms it."""

    def __init__(self, actions: Mapping[str, TwoPersonAction], clock: Clock) -> None:
        """`actions` are the decisions that take two operators, by name."""
        self._actions = actions
        self._clock = clock

    def propose(self, request: Propose, context: RequestContext) -> ProposalView:
        """Write a proposal, open for PROPOSAL_HOURS.

        INVALID_REQUEST for an unknown action, without a reason of 1 to 200 characters, and while another proposal of
        the same action and object is open.
        """
        name, now = _name_of(context), self._clock.now()
        if request.action not in self._actions:
            raise ServiceError(Code.INVALID_REQUEST, "action: Is none that operators propose.")
        if not 0 < len(request.reason.strip()) <= _LONGEST_REASON:
            raise ServiceError(Code.INVALID_REQUEST, "A reason is needed, of at most 200 characters")
        try:
            with unit_of_work():
                _close_expired(request, now)
                row = Proposal.create(
                    id=new_id(now), action=request.action, object_id=request.object_id, reason=request.reason.strip(),
                    parameters=orjson.dumps(request.parameters).decode(), proposed_by=name, created_at=now,
                    expires_at=now + timedelta(hours=PROPOSAL_HOURS),
                )  # fmt: skip
                write_audit_event("proposal.made", context, now, client_id=None, object_id=row.id)
        except IntegrityError:
            raise ServiceError(Code.INVALID_REQUEST, "The same is proposed already") from None
        return _view(row)

    def list_open(self, context: RequestContext) -> tuple[ProposalView, ...]:
        """Every open proposal, the oldest first."""
        context.require_operator()
        rows = Proposal.select().where(Proposal.decided_at.is_null(), Proposal.expires_at > self._clock.now())
        return tuple(_view(row) for row in rows.order_by(Proposal.id))

    def show(self, proposal_id: str, context: RequestContext) -> ProposalView:
        """One proposal. NOT_FOUND for an unknown one."""
        context.require_operator()
        return _view(_find(proposal_id, locked=False))

    def confirm(self, proposal_id: str, context: RequestContext) -> ProposalView:
        """Confirm another operator's proposal and do it, in one unit of work.

        NOT_FOUND for an unknown one, INVALID_REQUEST for one's own, a decided and an expired one; otherwise what the
        proposed action raises, which leaves the proposal open.
        """
        return self._decide(proposal_id, "confirmed", context)

    def withdraw(self, proposal_id: str, context: RequestContext) -> ProposalView:
        """Take a proposal back; any operator may. Raises as `confirm`."""
        return self._decide(proposal_id, "withdrawn", context)

    def _decide(self, proposal_id: str, outcome: str, context: RequestContext) -> ProposalView:
        name, now = _name_of(context), self._clock.now()
        with unit_of_work():
            row = _find(proposal_id, locked=True)
            if row.decided_at is not None or row.expires_at <= now:
                raise ServiceError(Code.INVALID_REQUEST, "The proposal is not open any more")
            if outcome == "confirmed":
                if name.casefold() == row.proposed_by.casefold():
                    raise ServiceError(Code.INVALID_REQUEST, "Another operator must confirm what you proposed")
                self._actions[row.action](_view(row), name, context)
            row.decided_by, row.decided_at, row.outcome = name, now, outcome
            row.save(only=[Proposal.decided_by, Proposal.decided_at, Proposal.outcome])
            write_audit_event(f"proposal.{outcome}", context, now, client_id=None, object_id=row.id)
        return _view(row)


def _name_of(context: RequestContext) -> str:
    context.require_operator()
    if context.caller.operator is None:
        raise ServiceError(Code.INSUFFICIENT_SCOPE, "Only an operator who signed in may do this")
    return context.caller.operator


def _close_expired(request: Propose, now: datetime) -> None:
    """Close an expired proposal for the same action, so that a new one can be made."""
    Proposal.update(decided_at=now, outcome="expired").where(
        Proposal.action == request.action,
        Proposal.object_id == request.object_id,
        Proposal.decided_at.is_null(),
        Proposal.expires_at <= now,
    ).execute()


def _find(proposal_id: str, *, locked: bool) -> Proposal:
    rows = Proposal.select().where(Proposal.id == proposal_id)
    row: Proposal | None = (for_update(rows) if locked else rows).first() if is_id(proposal_id) else None
    if row is None:
        raise ServiceError(Code.NOT_FOUND, "Proposal not found")
    return row


def _view(row: Proposal) -> ProposalView:
    return ProposalView(
        proposal_id=row.id, action=row.action, object_id=row.object_id, parameters=orjson.loads(row.parameters),
        reason=row.reason, proposed_by=row.proposed_by, created_at=row.created_at, expires_at=row.expires_at,
        decided_by=row.decided_by, decided_at=row.decided_at, outcome=row.outcome,
    )  # fmt: skip
