"""The accounts at providers: those of the connections, and those that the settings no longer have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peewee import fn

from ussd_server.models.providers import ProviderAccount
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.providers.settings import prefix_of
from ussd_server.services.providers.providers import Providers
from ussd_server.status import Code, ServiceError

_NEWEST = 10_000


def known_accounts(providers: Providers) -> Mapping[str, str]:
    """The provider of each account, by its name; a provider without any has one of its own name."""
    known = {account: connection.name for account, connection in providers.accounts.items()}
    known = {row.account: row.provider for row in ProviderAccount.select()} | known
    return known | {name: name for name in PROVIDER_NAMES if name not in known.values()}


def provider_of(account: str, providers: Providers) -> str:
    """The provider at which an account is. INVALID_REQUEST for one that there never was."""
    if (connection := providers.accounts.get(account)) is not None:
        return connection.name
    known = known_accounts(providers)
    if account not in known:
        names = ", ".join(sorted(known))
        raise ServiceError(Code.INVALID_REQUEST, f"There is no account {account[:40]!r}; there are: {names}")
    return known[account]


def renamed_accounts(providers: Providers) -> list[tuple[str, str, str]]:
    """The connections whose last payment, among the newest 10,000, was of another account: what is so, and its mend."""
    newest = Transaction.select(Transaction.id, Transaction.sent_to, Transaction.provider_account)
    # Processes read this as they begin: no index has what was sent, which may be rare among all payments.
    newest = newest.order_by(Transaction.id.desc()).limit(_NEWEST)
    names = newest.c.sent_to, newest.c.provider_account
    rows: Any = Transaction.select(*names).from_(newest).where(newest.c.sent_to.is_null(False))
    rows = rows.group_by(*names).order_by(fn.MAX(newest.c.id.cast("TEXT")))
    last: dict[str, str] = dict(rows.tuples())
    renamed = []
    for each in providers.connections:
        before = {last.get(each.place(direction), each.account) for direction in Direction} - {each.account}
        for account in sorted(before):
            found = f"its last payment was of the account {account}, and now its account is {each.account}"
            mend = f"A wallet keeps its name: set USSD_{prefix_of(each.connection)}ACCOUNT={account}."
            renamed.append((each.connection, found, mend))
    return renamed
