"""What people call the objects of the audit trail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from peewee import Value, fn

from ussd_server.models.clients import AuditEvent, Client, User
from ussd_server.models.incoming import IncomingPayment, PaymentCode
from ussd_server.models.keys import ApiKey
from ussd_server.models.operators import Operator
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Webhook
from ussd_server.models.statements import ProviderStatement
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Channel, Menu
from ussd_server.values import is_id


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
    "incoming": ("incoming", IncomingPayment, IncomingPayment.provider_transaction_id),
    "menu": ("menu", Menu, Menu.name),
    "operator": ("operator", Operator, Operator.email),
    "payment_code": ("payment_code", PaymentCode, PaymentCode.code),
    "payout": ("payout", Payout, Payout.reference),
    "statement": ("statement", ProviderStatement, ProviderStatement.file_name),
    "transaction": ("transaction", Transaction, Transaction.reference),
    "user": ("person", User, User.email),
    "webhook": ("webhook", Webhook, Webhook.url),
}


def names_of_objects(events: Iterable[AuditEvent]) -> dict[str, NamedObject]:
    """The objects of events that exist and have a name, by their ids: one query for each kind."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.object_id is not None and is_id(event.object_id):
            wanted[event.action.partition(".")[0]].add(event.object_id)
    found = {}
    for prefix in wanted.keys() & _KINDS.keys():
        kind, table, column = _KINDS[prefix]
        for object_id, name in table.select(table.id, column).where(table.id.in_(wanted[prefix])).tuples():
            if name:
                found[str(object_id)] = NamedObject(
                    kind, name, name if table in (Menu, PaymentCode) else str(object_id)
                )
    return found


def names_of_keys(events: Iterable[AuditEvent]) -> dict[str, str]:
    """The API keys that called, by their ids; deleted ones are left out."""
    ids = {event.key_id for event in events if event.key_id}
    return {row.id: row.name or row.apikey for row in ApiKey.select().where(ApiKey.id.in_(ids))} if ids else {}
