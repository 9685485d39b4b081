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
class OperatorSignIn:
    """Sign an operator in. `code` is the present TOTP code, or a recovery code."""

    email: str
    password: str = field(repr=False)
    code: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Propose:
    """Propose a decision to another operator.

    `action` is a key of `two_person_actions`; `reason` has 1 to 200 characters.
    """

    action: str
    object_id: str
    reason: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


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
