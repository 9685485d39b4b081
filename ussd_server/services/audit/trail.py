"""The audit trail: who did what to which object, kept for the client's owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from peewee import SQL, Value, fn

from ussd_server.context import NOT_PERMITTED, CallerKind, RequestContext
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import run_query
from ussd_server.models.clients import AuditEvent, Client, User
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.keys import ApiKey, DeletedApiKey
from ussd_server.models.movements import Movement
from ussd_server.models.operators import Operator
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Webhook
from ussd_server.models.statements import ProviderStatement
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Channel, Menu
from ussd_server.services.audit.messages import AuditEventView, ListAuditEvents, ListOperatorActions
from ussd_server.services.pages import matching, of_period, page_of
from ussd_server.services.runtime import Runtime
from ussd_server.values import is_id, new_id
from ussd_server.wire import Page, view_of_row

# The same text as in the partial index: parameters would hide it from the planner.
_BY_OPERATORS = "(actor = 'operator' OR client_id IS NULL)"
# Reads one entry of the index for each action, however many events have it.
_ACTIONS = """WITH RECURSIVE found(action) AS (
    SELECT min(action) FROM audit_events WHERE {which}
    UNION ALL
    SELECT (SELECT min(action) FROM audit_events WHERE {which} AND action > found.action) FROM found
    WHERE found.action IS NOT NULL)
SELECT action FROM found WHERE action IS NOT NULL LIMIT 200"""
_PRECISION = timedelta(milliseconds=1)
_WRITE = CompiledQuery(lambda: AuditEvent.insert({field: param(field) for field in AuditEvent._meta.sorted_fields}))


def write_audit_event(
    action: str,
    context: RequestContext,
    now: datetime,
    *,
    client_id: str | None,
    user_id: str | None = None,
    object_id: str | None = None,
    operator: str | None = None,
    reason: str | None = None,
    amount_cents: int | None = None,
    phone_number: str | None = None,
    decided_by: str | None = None,
    is_automatic: bool = False,
) -> None:
    """Add to the audit trail of `client_id`. Call in the unit of work of the change.

    `user_id` or `operator` names the person where the context does not. `client_id` is None for an event that concerns
    no client, and for a login under an unknown e-mail address. `amount_cents` and `phone_number` are those of a
    payment; `decided_by` are the names of the operators who decided. `is_automatic`: the service did it by itself.
    """
    is_operator = context.caller.kind is CallerKind.OPERATOR
    is_key = context.caller.kind is CallerKind.KEY
    actor = "operator" if is_operator or operator else "key" if is_key else "user"
    _WRITE.run(
        id=new_id(now),
        client_id=client_id,
        user_id=user_id or (None if is_operator else context.caller.user_id),
        actor="service" if is_automatic else actor,
        action=action,
        object_id=object_id,
        address=context.address,
        request_id=context.request_id,
        created_at=now,
        operator=operator or context.caller.operator,
        reason=reason or None,
        key_id=context.caller.key_id,
        amount_cents=amount_cents,
        phone_number=phone_number,
        decided_by=decided_by,
    )


class AuditedAction(NamedTuple):
    """Who did something, as `user`, `key`, `operator` or `service`, with the e-mail address of a person, and why."""

    actor: str
    email: str | None
    reason: str | None


def action_at(action: str, client_id: str, object_id: str, at: datetime) -> AuditedAction | None:
    """What was done to an object at a moment; None if the audit trail does not have it."""
    for event in of_period(_events_of(client_id), AuditEvent, at, at + _PRECISION):
        if (event.action, event.object_id) == (action, object_id):
            return AuditedAction(event.actor, event.user.email if event.user_id else None, event.reason)
    return None


class AuditService:
    def __init__(self, runtime: Runtime) -> None:
        self._tokens, self._replica = runtime.tokens, runtime.replica

    def list(self, request: ListAuditEvents, context: RequestContext) -> Page[AuditEventView]:
        """One page, newest first. INVALID_REQUEST for a cursor that is not of this list."""
        context.require("audit_events:read", NOT_PERMITTED)
        rows = matching(
            _events_of(context.client_id), request, AuditEvent.user_id, AuditEvent.action, AuditEvent.object_id
        )
        return page_of(rows, AuditEvent, request, self._tokens, _views_with_emails, self._replica)

    def actions(self, context: RequestContext) -> tuple[str, ...]:
        """The actions in the client's audit trail; for operators, those of operators."""
        if context.caller.kind is CallerKind.OPERATOR:
            actions = run_query(_ACTIONS.format(which=_BY_OPERATORS))
        else:
            context.require("audit_events:read", NOT_PERMITTED)
            actions = run_query(_ACTIONS.format(which="client_id = :client_id"), client_id=context.client_id)
        return tuple(action for (action,) in actions.fetchall())

    def list_of_operators(self, request: ListOperatorActions, context: RequestContext) -> Page[AuditEventView]:
        """One page of what operators did, and of what concerns no client, such as sign-ins that failed; newest first.

        INVALID_REQUEST for a cursor that is not of this list.
        """
        context.require_operator()
        which = SQL(_BY_OPERATORS) if request.operator is None else AuditEvent.operator == request.operator
        rows = matching(AuditEvent.select().where(which), request, AuditEvent.action, AuditEvent.object_id)
        return page_of(rows, AuditEvent, request, self._tokens, _views_with_clients)


def _events_of(client_id: str) -> Any:
    """The events of a client, each with its `user` where a person of the client acted."""
    events = AuditEvent.select(AuditEvent, User.email)
    events = events.left_outer_join(User, on=(User.id == AuditEvent.user_id), attr="user")
    return events.where(AuditEvent.client_id == client_id)


def _views_with_emails(rows: Sequence[Any]) -> tuple[AuditEventView, ...]:
    return _views(rows, {row.id: row.user.email for row in rows if row.user_id})


def _views_with_clients(rows: Sequence[AuditEvent]) -> Iterator[AuditEventView]:
    client_ids = {row.client_id for row in rows if row.client_id}
    clients = {row.id: row.name for row in Client.select().where(Client.id.in_(client_ids))}
    for row, view in zip(rows, _views(rows, {}), strict=True):
        yield replace(view, operator=row.operator, client_id=row.client_id, client=clients.get(row.client_id or ""))


def _views(rows: Sequence[AuditEvent], emails: Mapping[str, str]) -> tuple[AuditEventView, ...]:
    objects, keys, nothing = names_of_objects(rows), names_of_keys(rows), (None, None, None)
    views = []
    for row in rows:
        kind, name, page_id = objects.get(row.object_id or "", nothing)
        view = view_of_row(
            AuditEventView,
            row,
            email=emails.get(row.id),
            operator=None,
            client_id=None,
            client=None,
            apikey=keys.get(row.key_id),
            object_kind=kind,
            object_name=name,
            page_id=page_id,
        )
        views.append(view)
    return tuple(views)


class NamedObject(NamedTuple):
    """An object: its kind, what people call it, and the id in the address of its page."""

    kind: str
    name: str
    page_id: str


# By the beginning of an action: the kind of the object, its table, and the column that people know it by.
_KINDS: dict[str, tuple[str, Any, Any]] = {
    "api_key": ("key", ApiKey, Value("API key ").concat(fn.COALESCE(ApiKey.name, ApiKey.apikey))),
    "channel": ("channel", Channel, Channel.name),
    "client": ("client", Client, Client.name),
    "incoming": ("movement", Movement, Movement.receipt),
    "menu": ("menu", Menu, Menu.name),
    "movement": ("movement", Movement, Movement.receipt),
    "operator": ("operator", Operator, Operator.email),
    "payment_code": ("payment_code", PaymentCode, PaymentCode.code),
    "payout": ("payout", Payout, Payout.reference),
    "statement": ("statement", ProviderStatement, ProviderStatement.file_name),
    "transaction": ("transaction", Transaction, Transaction.reference),
    "user": ("person", User, User.email),
    "webhook": ("webhook", Webhook, Webhook.url),
}


def names_of_objects(events: Iterable[AuditEvent]) -> dict[str, NamedObject]:
    """The objects of events that have a name, by their ids: one query for each kind. Of what was removed, only keys."""
    ids_by_prefix: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.object_id is not None and is_id(event.object_id):
            ids_by_prefix[event.action.partition(".")[0]].add(event.object_id)
    objects = {}
    for prefix in ids_by_prefix.keys() & _KINDS.keys():
        kind, table, column = _KINDS[prefix]
        for object_id, name in table.select(table.id, column).where(table.id.in_(ids_by_prefix[prefix])).tuples():
            if name:
                objects[str(object_id)] = NamedObject(
                    kind, name, name if table in (Menu, PaymentCode) else str(object_id)
                )
    gone = ids_by_prefix["api_key"] - objects.keys()
    named = {key_id: NamedObject("key", f"API key {name}", key_id) for key_id, name in _names_of_deleted(gone).items()}
    return objects | named


def names_of_keys(events: Iterable[AuditEvent]) -> dict[str, str]:
    """The API keys that called, by their ids; of deleted ones the key itself."""
    ids = {event.key_id for event in events if event.key_id}
    if not ids:
        return {}
    names = {row.id: row.name or row.apikey for row in ApiKey.select().where(ApiKey.id.in_(ids))}
    return names | _names_of_deleted(ids - names.keys())


def _names_of_deleted(key_ids: Collection[str]) -> dict[str, str]:
    if not key_ids:
        return {}
    return {row.id: row.apikey for row in DeletedApiKey.select().where(DeletedApiKey.id.in_([*key_ids]))}
