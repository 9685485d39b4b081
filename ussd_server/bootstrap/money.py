"""The services of money: providers, accounts, payments, payouts and reconciliation."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.bootstrap.foundation import Foundation
from ussd_server.redis.provider_outages import ProviderOutages
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.payouts.approval import PayoutApproval
from ussd_server.services.payouts.digests import PayoutDigests
from ussd_server.services.payouts.drafts import PayoutDrafts
from ussd_server.services.payouts.payouts import PayoutService
from ussd_server.services.payouts.sending import PayoutSender
from ussd_server.services.providers.floats import FloatService
from ussd_server.services.providers.outage_watch import OutageWatch
from ussd_server.services.providers.providers import Providers
from ussd_server.services.providers.states import ProviderStateService
from ussd_server.services.providers.subscribers import SubscriberNames, SubscriberService
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.reports.daily_reports import DailyReportService
from ussd_server.services.reports.recent_payments import RecentPaymentsService
from ussd_server.services.settlement.provider_callbacks import CallbackService
from ussd_server.services.settlement.review import ReviewService
from ussd_server.services.settlement.settlement import Settlement
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.deposits import DepositService
from ussd_server.services.transactions.provider_references import ProviderReferences
from ussd_server.services.transactions.refunds import RefundService
from ussd_server.services.transactions.transactions import TransactionService


@dataclass(frozen=True, slots=True)
class ProviderServices:
    """The providers that are switched on."""

    providers: Providers
    outages: ProviderOutages
    states: ProviderStateService
    outage_watch: OutageWatch
    floats: FloatService
    names: SubscriberNames
    subscribers: SubscriberService


@dataclass(frozen=True, slots=True)
class AccountServices:
    """The clients' accounts in the ledger."""

    balances: BalanceService
    statements: StatementService


@dataclass(frozen=True, slots=True)
class TransactionServices:
    """Money: payments, their settlement and review."""

    transactions: TransactionService
    daily_reports: DailyReportService
    recent_payments: RecentPaymentsService
    deposits: DepositService
    refunds: RefundService
    settlement: Settlement
    callbacks: CallbackService
    review: ReviewService
    references: ProviderReferences


@dataclass(frozen=True, slots=True)
class PayoutServices:
    """Payouts: many disbursements at once."""

    payouts: PayoutService
    sender: PayoutSender


@dataclass(frozen=True, slots=True)
class ReconciliationServices:
    """Statements of providers, and their differences from our transactions."""

    statements: ProviderStatementService
    differences: DifferenceService


def provider_services(base: Foundation) -> ProviderServices:
    """Build what knows of providers."""
    names = SubscriberNames(base.providers, base.clock)
    states = ProviderStateService(base.providers, base.switches, base.clock)
    return ProviderServices(
        base.providers,
        base.outages,
        states,
        OutageWatch(states, base.clock),
        FloatService(base.providers, base.clock, base.settings.float_alert_shillings * 100),
        names,
        SubscriberService(names, base.providers, base.limiter, Bulkhead(8, 2).place),
    )


def account_services(base: Foundation) -> AccountServices:
    """Build what reads the ledger for clients."""
    return AccountServices(BalanceService(base.clock), StatementService(base.tokens, base.clock, Bulkhead(16, 4)))


def transaction_services(base: Foundation, creator: TransactionCreator) -> TransactionServices:
    """Build what makes and settles payments."""
    settlement = Settlement(
        base.providers,
        base.clock,
        base.within_pace,
        base.settings.provider_timeout_seconds,
        base.heartbeat.count_call,
        base.at_kill_point,
        base.heartbeat.new_lease_token,
    )
    return TransactionServices(
        transactions=TransactionService(creator, base.tokens, waiting_calls=base.settings.threads // 2),
        daily_reports=DailyReportService(base.clock),
        recent_payments=RecentPaymentsService(base.clock),
        deposits=DepositService(creator),
        refunds=RefundService(creator, base.providers),
        settlement=settlement,
        callbacks=CallbackService(base.providers, settlement, base.tokens, base.wake_up.send),
        review=ReviewService(base.providers, base.clock),
        references=base.references,
    )


def payout_services(base: Foundation, creator: TransactionCreator, names: SubscriberNames) -> PayoutServices:
    """Build what makes and sends payouts."""
    digests = PayoutDigests(base.vault)
    return PayoutServices(
        PayoutService(
            PayoutDrafts(base.providers, creator.fees, digests, base.clock),
            PayoutApproval(creator, digests, base.clock, base.at_kill_point),
            base.tokens,
            base.clock,
            base.wake_up.send,
        ),
        PayoutSender(
            base.providers,
            names,
            base.clock,
            base.within_pace,
            base.wake_up.send,
            base.heartbeat.new_lease_token,
        ),
    )


def reconciliation_services(base: Foundation, review: ReviewService) -> ReconciliationServices:
    """Build what compares statements of providers."""
    currencies = {name: access.currency for name, access in base.settings.providers.items()}
    return ReconciliationServices(
        ProviderStatementService(base.clock, base.tokens, base.settings.statement_headings, currencies),
        DifferenceService(review, base.clock, base.tokens),
    )
