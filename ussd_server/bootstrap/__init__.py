"""Builds every service from the settings, in a file for each area."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.bootstrap.clients import ClientServices, WebhookServices, client_services, webhook_services
from ussd_server.bootstrap.foundation import build_foundation
from ussd_server.bootstrap.mail import MailServices, mail_services
from ussd_server.bootstrap.money import (
    AccountServices,
    PayoutServices,
    ProviderServices,
    ReconciliationServices,
    TransactionServices,
    account_services,
    payout_services,
    provider_services,
    reconciliation_services,
    transaction_services,
)
from ussd_server.bootstrap.phone import MenuServices, UssdServices, menu_services, ussd_services
from ussd_server.bootstrap.service import (
    OperationsServices,
    OperatorServices,
    operations_services,
    operator_services,
)
from ussd_server.clock import Clock
from ussd_server.database.replica import Replica, use_replica
from ussd_server.database.unit_of_work import open_database
from ussd_server.limits.limiter import Limiter
from ussd_server.menus.engine.provider_states import use_provider_states
from ussd_server.metrics import note_replica
from ussd_server.redis.wake_up import WakeUpSignal
from ussd_server.services.audit.trail import AuditService
from ussd_server.services.search.search import SearchService
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """All services, grouped by capability."""

    settings: Settings
    clock: Clock
    limiter: Limiter
    wake_up: WakeUpSignal
    audit: AuditService
    clients: ClientServices
    operators: OperatorServices
    providers: ProviderServices
    accounts: AccountServices
    transactions: TransactionServices
    reconciliation: ReconciliationServices
    payouts: PayoutServices
    menus: MenuServices
    ussd: UssdServices
    webhooks: WebhookServices
    mail: MailServices
    operations: OperationsServices
    search: SearchService

    def close(self) -> None:
        """Write down the last uses of keys, stop all threads, and close the connections with Redis and providers."""
        self.clients.last_uses.close()
        self.limiter.close()
        self.wake_up.close()
        self.providers.outages.close()
        self.providers.providers.close()


def build_services(settings: Settings, clock: Clock | None = None) -> Services:
    """Build every service from the settings and open the database. Connects to nothing yet."""
    open_database(
        settings.database_url,
        max_connections=settings.threads + settings.worker_threads + settings.delivery_slots + 8,
    )
    use_replica(
        Replica(settings.replica_url, settings.threads, settings.replica_lag_seconds, note_replica)
        if settings.replica_url
        else None
    )
    base = build_foundation(settings, clock or Clock())
    use_provider_states(base.providers.takes_payments)
    providers, accounts = provider_services(base), account_services(base)
    creator = TransactionCreator(base.providers, base.guard, base.references, base.clock, base.wake_up.send)
    transactions = transaction_services(base, creator)
    reconciliation = reconciliation_services(base, transactions.review)
    clients = client_services(base)
    return Services(
        settings=settings,
        clock=base.clock,
        limiter=base.limiter,
        wake_up=base.wake_up,
        audit=AuditService(base.tokens),
        clients=clients,
        operators=operator_services(base, transactions, reconciliation),
        providers=providers,
        accounts=accounts,
        transactions=transactions,
        reconciliation=reconciliation,
        payouts=payout_services(base, creator, providers.names),
        menus=menu_services(base),
        ussd=ussd_services(base, transactions.transactions, accounts.balances, providers.names),
        webhooks=webhook_services(base),
        mail=mail_services(base, clients.password_links),
        operations=operations_services(base, providers, accounts, transactions),
        search=SearchService(),
    )
