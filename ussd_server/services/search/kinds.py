"""The kinds of objects that are searched: who may see each, and what names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import Expression

from ussd_server.models.clients import User
from ussd_server.models.keys import ApiKey
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Event, Webhook
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Menu, UssdSession
from ussd_server.services.accounts.balances import moved_on_accounts_of
from ussd_server.services.search.hits import (
    Names,
    each_by,
    event_hit,
    key_hit,
    menu_hit,
    payout_hits,
    person_hit,
    session_hit,
    transaction_hits,
    webhook_hit,
)
from ussd_server.services.search.messages import SearchHit
from ussd_server.services.transactions.transactions import users_of_receipt
from ussd_server.values import is_id, phone_number, with_hyphens


@dataclass(frozen=True, slots=True)
class SearchedKind:
    """One kind of object.

    `grant` is what a caller needs to see it. `names` makes the conditions that an index answers for all clients
    together. `audited` begins the actions of the audit trail that change such an object. `reference` and `phone_number`
    are the columns whose index begins with the client, None without one. `is_named`: which rows
    a reference names, None for all. `may_be_gone`: its rows are removed. `parts` are the columns of which words are
    found among the newest rows; payments have their own.
    """

    name: str
    table: Any
    grant: str
    hits: Callable[[Sequence[Any], Names], list[SearchHit]]
    names: Callable[[str], list[Expression]]
    audited: str | None = None
    reference: Any = None
    phone_number: Any = None
    is_named: Any = None
    may_be_gone: bool = False
    parts: tuple[Any, ...] = ()


def _by_id(text: str, *columns: Any) -> list[Expression]:
    written = with_hyphens(text)
    return [column == written for column in columns] if is_id(written) else []


SEARCHED_KINDS = (
    SearchedKind(
        "transaction",
        Transaction,
        "transactions:read",
        transaction_hits,
        lambda text: [
            *_by_id(text, Transaction.id, Transaction.provider_reference),
            Transaction.request_id == text,
            # A receipt is read out or copied by hand, and providers write them in capitals.
            *(
                column == written
                for column in (Transaction.provider_transaction_id, Transaction.provider_receipt)
                for written in dict.fromkeys((text, text.upper()))
            ),
            *(Transaction.id == transaction_id for transaction_id, _ in users_of_receipt(text).tuples()),
            *(Transaction.id.in_(moved_on_accounts_of(number)) for number in [phone_number(text)] if number),
        ],
        "transaction.",
        Transaction.reference,
        Transaction.phone_number,
    ),
    SearchedKind(
        "payout",
        Payout,
        "payouts:read",
        payout_hits,
        lambda text: _by_id(text, Payout.id),
        "payout.",
        Payout.reference,
        is_named=Payout.replaced_by.is_null(),
        parts=(Payout.reference, Payout.description),
    ),
    SearchedKind(
        "session",
        UssdSession,
        "ussd:read",
        each_by(session_hit),
        lambda text: _by_id(text, UssdSession.id),
        phone_number=UssdSession.phone_number,
    ),
    SearchedKind("event", Event, "webhooks:read", each_by(event_hit), lambda text: _by_id(text, Event.id)),
    SearchedKind(
        "key",
        ApiKey,
        "api_keys:list",
        each_by(key_hit),
        lambda text: [*_by_id(text, ApiKey.id), ApiKey.apikey == text],
        "api_key.",
        may_be_gone=True,
        parts=(ApiKey.name, ApiKey.apikey),
    ),
    SearchedKind("menu", Menu, "menus:read", each_by(menu_hit), lambda _: [], "menu.", parts=(Menu.name,)),
    SearchedKind(
        "webhook",
        Webhook,
        "webhooks:read",
        each_by(webhook_hit),
        lambda text: _by_id(text, Webhook.id),
        "webhook.",
        may_be_gone=True,
        parts=(Webhook.url,),
    ),
    SearchedKind(
        "person",
        User,
        "team:read",
        each_by(person_hit),
        lambda text: _by_id(text, User.id),
        "user.",
        parts=(User.email,),
    ),
)
