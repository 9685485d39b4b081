"""One file for each group of pages. Importing this package registers all of them."""

from ussd_server.console.blueprint import console
from ussd_server.console.pages import (
    any_transaction,
    api_keys,
    audit,
    events,
    operators,
    overview,
    payouts,
    people,
    phone,
    proposals,
    providers,
    reconciliation,
    search,
    sign_in,
    statements,
    transactions,
    webhooks,
)

__all__ = [
    "any_transaction",
    "api_keys",
    "audit",
    "console",
    "events",
    "operators",
    "overview",
    "payouts",
    "people",
    "phone",
    "proposals",
    "providers",
    "reconciliation",
    "search",
    "sign_in",
    "statements",
    "transactions",
    "webhooks",
]
