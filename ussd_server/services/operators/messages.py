"""Operators and their decisions, as services use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class CreateOperator:
    """Create an operator. The password has 12 to 256 characters."""

    email: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OperatorView:
    """An operator; `recovery_codes_left` counts the codes that were not used."""

    operator_id: str
    email: str
    is_active: bool
    recovery_codes_left: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """A new second factor, shown once: the TOTP secret, its `otpauth:` address and ten recovery codes."""

    operator: OperatorView
    secret: str = field(repr=False)
    uri: str = field(repr=False)
    recovery_codes: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Propose:
    """Propose a decision to another operator.

    `action` is a name of `TwoPersonActions`; `reason` has 1 to 200 characters.
    """

    action: str
    object_id: str
    reason: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposedEffect:
    """The effect of a confirmed proposal, on a transaction, statement or movement; other fields are None.

    `statement_line` names the provider's statement and, with a transaction, its line. `bank_account` is where a
    settlement was paid and `bank_reference` the bank's, `receipt` the provider's for a held movement.
    """

    state_now: str
    state_after: str
    statement_line: str | None = None
    client_id: str | None = None
    client: str | None = None
    transaction_id: str | None = None
    type: str | None = None
    reference: str | None = None
    phone_number: str | None = None
    amount_cents: int | None = None
    bank_account: str | None = None
    bank_reference: str | None = None
    receipt: str | None = None


@dataclass(frozen=True, slots=True)
class ConfirmProposal:
    """Confirm another operator's proposal. `digest` is that of the effect which was shown."""

    proposal_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposal. `outcome` is None while it is open, else `confirmed`, `withdrawn` or `expired`."""

    proposal_id: str
    action: str
    object_id: str
    parameters: Mapping[str, Any]
    reason: str
    proposed_by: str
    created_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class ShownProposal:
    """A proposal with what it does now, and the digest that confirms exactly this.

    `effect` is None when the action is no longer possible; `refusal` says why.
    """

    proposal: ProposalView
    effect: ProposedEffect | None
    digest: str
    refusal: str | None = None
