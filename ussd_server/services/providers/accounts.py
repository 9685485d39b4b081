"""The accounts at providers: those of the connections, and those that the settings no longer have."""

from __future__ import annotations

from collections.abc import Mapping

from ussd_server.models.providers import ProviderAccount
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction, Provider
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.services.providers.providers import Providers
from ussd_server.status import Code, ServiceError

_NEWEST = 1000


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


def renamed_accounts(providers: Providers) -> list[tuple[Provider, str]]:
    """The connections whose last payment, among the newest 1,000, was of another account, with that one's name."""
    newest = Transaction.select(Transaction.sent_to, Transaction.provider_account).order_by(Transaction.id.desc())
    sent = list(newest.where(Transaction.sent_to.is_null(False)).limit(_NEWEST))
    last = {row.sent_to: row.provider_account for row in reversed(sent)}
    renamed = []
    for each in providers.connections:
        before = {
            account for place in map(each.place, Direction) if (account := last.get(place)) not in (None, each.account)
        }
        renamed += [(each, account) for account in sorted(before)]
    return renamed
