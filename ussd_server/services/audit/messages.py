"""Messages about the audit trail of clients and operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ListAuditEvents:
    """Ask for one page (1 to 100) of a client's audit trail, newest first."""

    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ListOperatorActions:
    """Ask for one page (1 to 100) of what operators did, newest first, with `operator` of one e-mail address."""

    cursor: str | None = None
    operator: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class AuditEventView:
    """Who did what to which object, when, and from where. `actor` is `user`, `key`, `operator` or `service`.

    `reason` is what the person gave as the reason. `amount_cents` and `phone_number` are those of a payment,
    `decided_by` the names of the operators who decided. `operator` and `client` (a name) are set for operators only.
    """

    id: str
    action: str
    actor: str
    user_id: str | None
    email: str | None
    object_id: str | None
    address: str
    request_id: str
    created_at: datetime
    reason: str | None = None
    key_id: str | None = None
    amount_cents: int | None = None
    phone_number: str | None = None
    decided_by: str | None = None
    operator: str | None = None
    client_id: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEventPage:
    """One page of an audit trail; `next_cursor` is None on the last."""

    items: tuple[AuditEventView, ...]
    next_cursor: str | None
