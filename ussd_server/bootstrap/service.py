"""The services of the installation: its operators, and what keeps it running."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.bootstrap.foundation import Foundation
from ussd_server.bootstrap.money import AccountServices, ProviderServices, ReconciliationServices, TransactionServices
from ussd_server.security.credentials import Vault
from ussd_server.services.operations.book_check.history_digests import HistoryDigests
from ussd_server.services.operations.gauges import Gauges
from ussd_server.services.operations.health import HealthService
from ussd_server.services.operations.heartbeat import Heartbeat
from ussd_server.services.operations.master_keys import MasterKeyService
from ussd_server.services.operations.retention import Retention
from ussd_server.services.operations.system import SystemService
from ussd_server.services.operations.timekeeper import Timekeeper
from ussd_server.services.operators.actions import two_person_actions
from ussd_server.services.operators.logins import OperatorLoginService
from ussd_server.services.operators.operators import OperatorService
from ussd_server.services.operators.proposals import ProposalService
from ussd_server.services.payouts.digests import PayoutDigests
from ussd_server.services.reports.report_files import ReportFiles
from ussd_server.shown_settings import shown_settings


@dataclass(frozen=True, slots=True)
class OperatorServices:
    """Operators: their accounts, logins and decisions that take two of them."""

    accounts: OperatorService
    logins: OperatorLoginService
    proposals: ProposalService


@dataclass(frozen=True, slots=True)
class OperationsServices:
    """What keeps the service running."""

    master_keys: MasterKeyService
    vault: Vault
    history_digests: HistoryDigests
    health: HealthService
    timekeeper: Timekeeper
    heartbeat: Heartbeat
    gauges: Gauges
    retention: Retention
    system: SystemService
    report_files: ReportFiles


def operator_services(
    base: Foundation, transactions: TransactionServices, reconciliation: ReconciliationServices
) -> OperatorServices:
    """Build what operators sign in and decide with."""
    actions = two_person_actions(
        transactions.review, transactions.refunds, reconciliation.differences, reconciliation.statements
    )
    return OperatorServices(
        accounts=OperatorService(base.vault, base.clock),
        logins=OperatorLoginService(base.settings.operator_addresses, base.vault, base.limiter, base.clock),
        proposals=ProposalService(actions, base.clock),
    )


def operations_services(
    base: Foundation, providers: ProviderServices, accounts: AccountServices, transactions: TransactionServices
) -> OperationsServices:
    """Build what observes and cleans."""
    settings, limiter, heartbeat, clock = base.settings, base.limiter, base.heartbeat, base.clock
    history = HistoryDigests(base.vault, clock)
    gauges = Gauges(heartbeat, providers.floats, clock)
    return OperationsServices(
        master_keys=MasterKeyService(base.keyring, base.vault, PayoutDigests(base.vault), history),
        vault=base.vault,
        history_digests=history,
        health=HealthService(limiter),
        timekeeper=Timekeeper(clock),
        heartbeat=heartbeat,
        gauges=gauges,
        retention=Retention(clock, settings.keep_sessions_days, settings.keep_deliveries_days),
        system=SystemService(shown_settings(settings), limiter, gauges, heartbeat, base.vault, clock),
        report_files=ReportFiles(settings.reports_dir, transactions.daily_reports, accounts.statements, clock),
    )
