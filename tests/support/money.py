"""What tests of money share: a client, its caller, and the work of a worker in the test's thread."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.conftest import MovableClock
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.models.clients import Client
from ussd_server.models.ledger import Account
from ussd_server.services.accounts.ledger import set_fee
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.transactions.messages import CreateDeposit, CreateTransaction, TransactionType
from ussd_server.values import new_id


def a_client(name: str = "ACME") -> RequestContext:
    """A fresh client and the call context of a key that may do everything."""
    now = datetime.now(UTC)
    client_id = new_id(now)
    Client.insert(id=client_id, name=name, is_active=True, created_at=now, updated_at=now).execute()
    return RequestContext(Caller(CallerKind.KEY, client_id=client_id, grants=None))


def call_with_key(services: Services, client: RequestContext, *scopes: str, **bounds: Any) -> RequestContext:
    """A call with a fresh key that the operator made for the client, of scopes null without `scopes`."""
    made = services.api_keys.create(CreateApiKey(scopes or None, **bounds), operator_context(client.client_id))
    grants = frozenset(scopes) if scopes else None
    return RequestContext(Caller(CallerKind.KEY, client_id=client.client_id, key_id=made.id, grants=grants))


def operator() -> RequestContext:
    """The operator at the command line."""
    return RequestContext(Caller(CallerKind.OPERATOR, grants=None))


def deposit(services: Services, context: RequestContext, shillings: int, reference: str = "deposit") -> None:
    """Give a client money to spend."""
    services.deposits.create(CreateDeposit(context.client_id, shillings * 100, reference), operator())


def agree_fee(fee: FeeTerms) -> None:
    """Agree a fee with a client."""
    set_fee(fee, operator(), datetime.now(UTC))


def request(
    kind: str = "collection", number: str = "+256770000000", shillings: int = 5000, **more: object
) -> CreateTransaction:
    """A request to move money."""
    reference = str(more.pop("reference", f"{kind}-{number}-{shillings}"))
    return CreateTransaction(TransactionType(kind), number, shillings * 100, reference, **more)  # type: ignore[arg-type]


def work(services: Services, clock: MovableClock, seconds: float = 0, step: float = 0.5) -> None:
    """Do what the worker would do within `seconds`."""
    passed = 0.0
    while True:
        while ids := services.processing.claim(100):
            for transaction_id in ids:
                services.processing.advance(transaction_id)
        services.notices.decide_waiting()
        if passed >= seconds:
            return
        clock.advance(step)
        passed += step


def balances(client_id: str) -> dict[str, tuple[int, int]]:
    """Balance and reservation of each account of a client, in cents."""
    return {
        account.name: (account.balance_cents, account.reserved_cents)
        for account in Account.select().where(Account.client_id == client_id)
    }
