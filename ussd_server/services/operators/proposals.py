"""Decisions that take two operators: one proposes, and the action is done when another one confirms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson
from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.operators import Proposal
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import is_same_person, require_reason
from ussd_server.services.operators.messages import (
    ConfirmProposal,
    ProposalView,
    Propose,
    ProposedEffect,
    ShownProposal,
)
from ussd_server.services.pages import find_by_id
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import view_of_row

PROPOSAL_HOURS = 24


class TwoPersonAction(NamedTuple):
    """A decision that takes two operators.

    `effect` returns the effect that the proposal has now, with its rows locked, and raises the refusal if it is not
    possible. `request` makes the request of a proposal and of the operator who confirms it; `act` does it, in the unit
    of work of the confirmation.
    """

    effect: Callable[[ProposalView, RequestContext], ProposedEffect]
    request: Callable[[ProposalView, str], Any]
    act: Callable[[Any, RequestContext], object]


class ProposalService:
    """Keeps proposals, and does what was proposed when a second operator confirms it."""

    def __init__(self, runtime: Runtime, actions: Mapping[str, TwoPersonAction]) -> None:
        """`actions` are the decisions that take two operators, by name."""
        self._clock = runtime.clock
        self._actions = actions

    def propose(self, request: Propose, context: RequestContext) -> ProposalView:
        """Write a proposal that is open for PROPOSAL_HOURS.

        INVALID_REQUEST for an unknown action, without a reason of 1 to 200 characters, and while another proposal of
        the same action and object is open; otherwise the refusal of the action, if it is not possible now.
        """
        name, now = _name_of(context), self._clock.now()
        if request.action not in self._actions:
            raise ServiceError(Code.INVALID_REQUEST, "action: Is none that operators propose.")
        require_reason(request.reason)
        try:
            with unit_of_work():
                _close_expired(request, now)
                row = Proposal.create(
                    id=new_id(now),
                    action=request.action,
                    object_id=request.object_id,
                    reason=request.reason.strip(),
                    parameters=orjson.dumps(request.parameters).decode(),
                    proposed_by=name,
                    created_at=now,
                    expires_at=now + timedelta(hours=PROPOSAL_HOURS),
                )
                self._actions[row.action].effect(_view(row), context)
                write_audit_event("proposal.made", context, now, client_id=None, object_id=row.id, reason=row.reason)
        except IntegrityError:
            raise ServiceError(Code.INVALID_REQUEST, "The same is proposed already") from None
        return _view(row)

    def propose_all(self, requests: Sequence[Propose], context: RequestContext) -> tuple[ProposalView, ...]:
        """Write all of these proposals, or none. Raises as `propose`."""
        with unit_of_work():
            return tuple(self.propose(each, context) for each in requests)

    def list_open(self, context: RequestContext) -> tuple[ProposalView, ...]:
        """Every open proposal, the oldest first."""
        context.require_operator()
        rows = Proposal.select().where(Proposal.decided_at.is_null(), Proposal.expires_at > self._clock.now())
        return tuple(_view(row) for row in rows.order_by(Proposal.id))

    def show(self, proposal_id: str, context: RequestContext) -> ProposalView:
        """One proposal. NOT_FOUND for an unknown one."""
        context.require_operator()
        return _view(_find(proposal_id, locked=False))

    def show_open(self, context: RequestContext) -> tuple[ShownProposal, ...]:
        """Every open proposal with what it does now, the oldest first."""
        return tuple(self._shown(proposal, context) for proposal in self.list_open(context))

    def confirm(self, request: ConfirmProposal, context: RequestContext) -> ProposalView:
        """Confirm another operator's proposal and do it, in one unit of work.

        NOT_FOUND for an unknown proposal. INVALID_REQUEST for the caller's own, for a decided or expired one, and when
        its effect is not what was shown. Otherwise the refusal of the action. After a refusal it stays open.
        """
        return self._decide(request.proposal_id, "confirmed", context, request.digest)

    def withdraw(self, proposal_id: str, context: RequestContext) -> ProposalView:
        """Take a proposal back; any operator may. Raises as `confirm`."""
        return self._decide(proposal_id, "withdrawn", context)

    def _shown(self, proposal: ProposalView, context: RequestContext) -> ShownProposal:
        try:
            with unit_of_work():
                effect = self._actions[proposal.action].effect(proposal, context)
        except ServiceError as refusal:
            return ShownProposal(proposal, None, "", refusal.message)
        return ShownProposal(proposal, effect, _digest(proposal, effect))

    def _decide(self, proposal_id: str, outcome: str, context: RequestContext, digest: str = "") -> ProposalView:
        name, now = _name_of(context), self._clock.now()
        with unit_of_work():
            row = _find(proposal_id, locked=True)
            if row.decided_at is not None or row.expires_at <= now:
                raise ServiceError(Code.INVALID_REQUEST, "The proposal is not open any more")
            if outcome == "confirmed":
                if is_same_person(name, row.proposed_by):
                    raise ServiceError(Code.INVALID_REQUEST, "Another operator must confirm what you proposed")
                proposal, action = _view(row), self._actions[row.action]
                if digest != _digest(proposal, action.effect(proposal, context)):
                    raise ServiceError(
                        Code.INVALID_REQUEST, "Nothing was done: the proposal does something else now than was shown"
                    )
                action.act(action.request(proposal, name), context)
            row.change(decided_by=name, decided_at=now, outcome=outcome)
            write_audit_event(f"proposal.{outcome}", context, now, client_id=None, object_id=row.id, reason=row.reason)
        return _view(row)


def _digest(proposal: ProposalView, effect: ProposedEffect) -> str:
    content = {"proposal": proposal.proposal_id, "by": proposal.proposed_by, "reason": proposal.reason}
    written = orjson.dumps(content | asdict(effect), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(written).hexdigest()


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
    rows = Proposal.select()
    return find_by_id(for_update(rows) if locked else rows, Proposal, proposal_id, "Proposal")


def _view(row: Proposal) -> ProposalView:
    return view_of_row(ProposalView, row, proposal_id=row.id, parameters=orjson.loads(row.parameters))
