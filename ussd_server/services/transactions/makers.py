"""Who made a transaction: the key, person, menu, payer or operator behind it, with its name as it is now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Any

from peewee import SQL

from ussd_server.database.unit_of_work import dialect
from ussd_server.models.clients import User
from ussd_server.models.keys import ApiKey
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Menu, MenuVersion
from ussd_server.services.transactions.messages import MadeBy, MakerKind, Origin, TransactionType, ViaMenu

_BY_OPERATORS = (TransactionType.DEPOSIT, TransactionType.SETTLEMENT, TransactionType.CORRECTION)
_UNKNOWN: Mapping[str, MadeBy] = MappingProxyType({})


def makers_of(rows: Sequence[Transaction]) -> dict[str, MadeBy]:
    """The maker of each transaction, by its id. Four queries at most, none for payers and operators."""
    payouts = _payouts_of({row.payout_id for row in rows if row.payout_id})
    made = {row.created_by for row in payouts}
    # Of a row of a payout, the key and the person of the transaction are those that approved.
    called = [row for row in rows if not row.payout_id]
    makers = (
        _keys_of({row.key_id for row in called if row.key_id} | made)
        | _people_of({row.user_id for row in called if row.user_id} | made)
        | _menus_of({(row.menu_id, row.menu_version or 0) for row in rows if row.menu_id})
    )
    makers |= {row.id: maker_of_payout(row, makers) for row in payouts}
    return {row.id: maker_of(row, makers) for row in rows}


def maker_of(row: Transaction, makers: Mapping[str, MadeBy] = _UNKNOWN) -> MadeBy:
    """Who made a transaction, without a query. `makers` has the names: by the ids of keys, people and payouts, and
    by the id and the version of a menu.
    """
    if row.origin == Origin.PAYER:
        return MadeBy(MakerKind.PAYER, None, row.provider)
    if row.operator is not None or row.type in _BY_OPERATORS:
        return MadeBy(MakerKind.OPERATOR, None, row.operator)
    if row.menu_id is not None or row.session_id is not None:
        menu = makers.get(f"{row.menu_id}/{row.menu_version}") or MadeBy(MakerKind.MENU, None, None)
        return menu if row.key_id is None else replace(_caller(row.key_id, None, makers), via_menu=via(menu))
    if row.payout_id is not None:
        return makers.get(row.payout_id) or MadeBy(MakerKind.KEY, None, None)
    return _caller(row.key_id, row.user_id, makers)


def maker_of_payout(row: Payout, makers: Mapping[str, MadeBy] | None = None) -> MadeBy:
    """The maker of a payout; queries the name without `makers`, which are keys and people by their ids."""
    if row.operator is not None:
        return MadeBy(MakerKind.OPERATOR, None, row.operator)
    if makers is None:
        makers = _keys_of({row.created_by}) or _people_of({row.created_by})
    # A key that was deleted has no row; people are kept.
    return _caller(row.created_by, None, makers)


def via(menu: MadeBy | None) -> ViaMenu | None:
    """The menu in which a key made a payment."""
    return None if menu is None else ViaMenu(menu.id, menu.name)


def _caller(key_id: str | None, user_id: str | None, makers: Mapping[str, MadeBy]) -> MadeBy:
    kind, caller_id = (MakerKind.KEY, key_id) if key_id or not user_id else (MakerKind.PERSON, user_id)
    return makers.get(caller_id or "") or MadeBy(kind, caller_id, None)


def _payouts_of(ids: Collection[str]) -> list[Payout]:
    if not ids:
        return []
    return list(Payout.select(Payout.id, Payout.created_by, Payout.operator).where(Payout.id.in_(list(ids))))


def _keys_of(ids: Collection[str]) -> dict[str, MadeBy]:
    if not ids:
        return {}
    keys = ApiKey.select(ApiKey.id, ApiKey.name).where(ApiKey.id.in_(list(ids)))
    return {row.id: MadeBy(MakerKind.KEY, row.id, row.name) for row in keys}


def _people_of(ids: Collection[str]) -> dict[str, MadeBy]:
    if not ids:
        return {}
    people = User.select(User.id, User.email).where(User.id.in_(list(ids)))
    return {row.id: MadeBy(MakerKind.PERSON, row.id, row.email) for row in people}


def _menus_of(versions: Collection[tuple[str, int]]) -> dict[str, MadeBy]:
    """Menus by their id and version, with the id and the title that the document has."""
    if not versions:
        return {}
    is_wanted = reduce(
        or_, ((MenuVersion.menu_id == menu_id) & (MenuVersion.version == version) for menu_id, version in versions)
    )
    title = SQL(dialect().json_value("document", "'title'", "text")).alias("title")
    menus: Any = (
        MenuVersion.select(MenuVersion.menu_id, MenuVersion.version, Menu.name, title)
        .join(Menu, on=(Menu.id == MenuVersion.menu_id))
        .where(is_wanted)
    )
    return {
        f"{menu_id}/{version}": MadeBy(MakerKind.MENU, name, title or None)
        for menu_id, version, name, title in menus.tuples()
    }
