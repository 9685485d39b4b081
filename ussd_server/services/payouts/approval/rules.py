"""Approval rules: how many different people approve a payout, by its sum."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ussd_server.context import APPROVE, NOT_PERMITTED, RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.clients import Client, User
from ussd_server.models.payouts import ApprovalRules, Payout
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.payouts.approval.digests import OF_RULES, PayoutDigests
from ussd_server.services.payouts.messages import MOST_RULES, ApprovalRule, ApprovalRulesView, in_words
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import is_one_person, require_owner
from ussd_server.status import Code, ServiceError
from ussd_server.wire import columns_of

log = Logger(__name__)

_MOST_APPROVALS = 5
_PLACE = "Invalid request body: approval_rules: "
_ONE = (ApprovalRule(0, 1),)


class _Rules(NamedTuple):
    """The rules that hold, those that wait for confirmation, and the id of the owner who proposed them."""

    held: tuple[ApprovalRule, ...]
    proposed: tuple[ApprovalRule, ...] | None
    proposed_by: str | None


class ApprovalRuleService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._digests = PayoutDigests(runtime.vault)

    def get(self, context: RequestContext) -> ApprovalRulesView:
        """The rules of the caller's client, and those that wait for confirmation."""
        context.require("settings:read", NOT_PERMITTED)
        rules = _rules_of(context.client_id, self._digests)
        return ApprovalRulesView(rules.held, rules.proposed)

    def set(self, rules: Sequence[ApprovalRule], context: RequestContext) -> ApprovalRulesView:
        """Set the rules, for owners. Rules that ask for less anywhere wait until another person confirms them.

        The proposed rules again, by another owner or admin, confirm them. Raises INVALID_REQUEST for malformed rules,
        INSUFFICIENT_SCOPE for others than owners.
        """
        context.require("settings:write", NOT_PERMITTED)
        checked = _checked(rules)
        with unit_of_work():
            lock_row(Client, context.client_id)
            known = _rules_of(context.client_id, self._digests)
            if checked == known.proposed and context.caller.user_id != known.proposed_by:
                self._confirm(known, context)
            else:
                require_owner(context, NOT_PERMITTED)
                self._set(checked, known.held, context)
        return self.get(context)

    def confirm(self, shown: str, context: RequestContext) -> ApprovalRulesView:
        """Confirm the proposed rules, which are shown `in_words`, for operators, owners and admins.

        Raises INVALID_REQUEST where nothing or something else is proposed, INSUFFICIENT_SCOPE for people who count as
        one person with the proposer.
        """
        context.require("settings:write", NOT_PERMITTED)
        with unit_of_work():
            lock_row(Client, context.client_id)
            known = _rules_of(context.client_id, self._digests)
            if known.proposed is not None and in_words(known.proposed) != shown.strip():
                raise ServiceError(
                    Code.INVALID_REQUEST, f"Nothing was confirmed: the rules that wait are {in_words(known.proposed)}"
                )
            self._confirm(known, context)
        return self.get(context)

    def _set(self, rules: tuple[ApprovalRule, ...], held: tuple[ApprovalRule, ...], context: RequestContext) -> None:
        waits = _asks_for_less(rules, held)
        now = self._write(_Rules(held, rules, context.caller.user_id) if waits else _Rules(rules, None, None), context)
        action = "approval_rules.proposed" if waits else "approval_rules.changed"
        write_audit_event(action, context, now, client_id=context.client_id, reason=in_words(rules))

    def _confirm(self, known: _Rules, context: RequestContext) -> None:
        if known.proposed is None or known.proposed_by is None:
            raise ServiceError(Code.INVALID_REQUEST, "No approval rules wait for confirmation")
        _require_another_approver(known.proposed_by, context)
        now = self._write(_Rules(known.proposed, None, None), context)
        reason = in_words(known.proposed)
        write_audit_event("approval_rules.confirmed", context, now, client_id=context.client_id, reason=reason)

    def _write(self, rules: _Rules, context: RequestContext) -> datetime:
        now = self._clock.now()
        row = ApprovalRules(
            id=context.client_id,
            rules=_stored(rules.held),
            proposed=None if rules.proposed is None else _stored(rules.proposed),
            proposed_by=rules.proposed_by,
            updated_at=now,
        )
        row.digest = self._digests.of(OF_RULES, row)
        ApprovalRules.put({"id": row.id}, {name: value for name, value in columns_of(row).items() if name != "id"})
        return now


def approvals_needed(payout: Payout, digests: PayoutDigests) -> int:
    """How many approvals a payout needs, by the sum of its round without fees.

    INVALID_REQUEST when the rules of its client were edited in the database.
    """
    return _needed(_rules_of(payout.client_id, digests).held, payout.round_amount_cents)


def _rules_of(client_id: str, digests: PayoutDigests) -> _Rules:
    row = ApprovalRules.get_or_none(ApprovalRules.id == client_id)
    if row is None:
        return _Rules(_ONE, None, None)
    if not digests.is_as_made(OF_RULES, row):
        log.error("approval rules are not what was set", client_id=client_id)
        raise ServiceError(Code.INVALID_REQUEST, "The approval rules were edited in the database; ask the operator")
    if not row.proposed or not _is_owner(row.proposed_by, client_id):
        return _Rules(_read(row.rules), None, None)
    return _Rules(_read(row.rules), _read(row.proposed), row.proposed_by)


def _is_owner(person: str, client_id: str) -> bool:
    """Whether a person is an owner now. What others have proposed before waits no more."""
    owners = User.select().where(User.client_id == client_id, User.role == "owner", User.is_active)
    return bool(owners.where(User.id == person).exists())


def _needed(rules: Sequence[ApprovalRule], cents: int) -> int:
    """The number of the last rule whose bound is below the sum; the first rule holds for every sum."""
    return [rule.approvals for rule in rules if rule.above_cents < cents or rule.above_cents == 0][-1]


def _asks_for_less(rules: Sequence[ApprovalRule], held: Sequence[ApprovalRule]) -> bool:
    # Between two bounds nothing changes.
    sums = [rule.above_cents + 1 for rule in (*rules, *held)]
    return any(_needed(rules, cents) < _needed(held, cents) for cents in sums)


def _checked(rules: Sequence[ApprovalRule]) -> tuple[ApprovalRule, ...]:
    bounds = [rule.above_cents for rule in rules]
    if not 0 < len(rules) <= MOST_RULES:
        raise ServiceError(Code.INVALID_REQUEST, f"{_PLACE}Must be 1 to {MOST_RULES} rules.")
    if bounds[0] != 0 or bounds != sorted(set(bounds)):
        raise ServiceError(
            Code.INVALID_REQUEST, f"{_PLACE}above: Must be 0 in the first rule, and rise from each to the next."
        )
    if not all(1 <= rule.approvals <= _MOST_APPROVALS for rule in rules):
        raise ServiceError(Code.INVALID_REQUEST, f"{_PLACE}approvals: Must be 1 to {_MOST_APPROVALS}.")
    return tuple(rules)


def _require_another_approver(proposer: str, context: RequestContext) -> None:
    """Refuse people who may not approve payouts, or count as one person with the proposer; operators may always."""
    person = context.caller.user_id
    if person is None:
        context.require_operator()
    elif not context.may(APPROVE) or is_one_person(context.client_id, person, proposer):
        raise ServiceError(Code.INSUFFICIENT_SCOPE, NOT_PERMITTED)


def _stored(rules: Sequence[ApprovalRule]) -> list[list[int]]:
    return [[rule.above_cents, rule.approvals] for rule in rules]


def _read(stored: Sequence[Sequence[int]]) -> tuple[ApprovalRule, ...]:
    return tuple(ApprovalRule(above, approvals) for above, approvals in stored)
