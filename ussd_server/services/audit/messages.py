"""Messages about the audit trail of clients and operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from ussd_server.wire import Cents, Internal, ListPeriod


@dataclass(frozen=True, slots=True)
class ListAuditEvents(ListPeriod):
    """Request for a page of a client's audit trail, newest first.

    `user_id`, `action` and `object_id` keep what one person did, one kind of action and what was done to one object.
    """

    user_id: str | None = None
    action: str | None = None
    object_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListOperatorActions(ListPeriod):
    """Request for a page of what operators did, newest first, with `operator` of one e-mail address."""

    operator: str | None = None
    action: str | None = None
    object_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuditEventView:
    """Who did what, when and from where. `operator`, `client_id` and `client` (a name) are set for operators only.

    `apikey` is the name of the API key that called. `object_name` is what people call the object while it exists,
    `object_kind` and `page_id` name its page.
    """

    id: Annotated[str, "The identifier, a UUID."]
    action: Annotated[str, "What was done, such as `api_key.deleted`."]
    actor: Annotated[str, "`user`, `key`, `operator` or `service`."]
    user_id: Annotated[str | None, "The user who acted; null without a login."]
    email: Annotated[str | None, "The e-mail address of the user."]
    object_id: Annotated[str | None, "The key, payment, menu or other object that was changed."]
    address: Annotated[str, "The network address of the caller."]
    request_id: Annotated[str, "The `X-Request-Id` of the call."]
    created_at: Annotated[datetime, "When it was created."]
    key_id: Annotated[str | None, "The API key that called."] = None
    amount_cents: Annotated[Cents | None, "Of a refund or a settled payment: its amount in shillings."] = None
    phone_number: Annotated[str | None, "Of a refund or a settled payment: the subscriber."] = None
    reason: Annotated[str | None, "Why, as the person or the operators wrote it."] = None
    decided_by: Annotated[str | None, "The names of the two operators who decided."] = None
    operator: Internal[str | None] = None
    client_id: Internal[str | None] = None
    client: Internal[str | None] = None
    apikey: Internal[str | None] = None
    object_kind: Internal[str | None] = None
    object_name: Internal[str | None] = None
    page_id: Internal[str | None] = None
