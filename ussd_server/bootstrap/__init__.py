"""Builds every service from the settings."""

from __future__ import annotations

from ussd_server.bootstrap.runtime import build_runtime
from ussd_server.clock import Clock
from ussd_server.database.opening import open_database
from ussd_server.database.unit_of_work import release_connection
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.audit.trail import AuditService
from ussd_server.services.bank.bank_accounts import BankAccountService
from ussd_server.services.bank.settlements import BankSettlementService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.clients.api_keys import ApiKeyService
from ussd_server.services.clients.auth import AuthService
from ussd_server.services.clients.clients import ClientService
from ussd_server.services.clients.keys.explanations import KeyExplanationService
from ussd_server.services.clients.keys.notices import KeyNotices
from ussd_server.services.clients.keys.reader import ApiKeyReader
from ussd_server.services.clients.logins import LoginService
from ussd_server.services.clients.password_links import PasswordLinkService
from ussd_server.services.clients.people import PeopleService
from ussd_server.services.clients.second_factors import SecondFactorService
from ussd_server.services.clients.settings import ClientSettingsService
from ussd_server.services.incoming.booking import IncomingBook
from ussd_server.services.incoming.codes import PaymentCodeService
from ussd_server.services.incoming.notices import NoticeService
from ussd_server.services.mail.choices import MailService
from ussd_server.services.mail.outbox import MailReminders
from ussd_server.services.mail.sending import MailSender
from ussd_server.services.menus.menus import MenuService
from ussd_server.services.menus.replays import ReplayService
from ussd_server.services.movements.corrections import CorrectionService
from ussd_server.services.movements.movements import MovementService
from ussd_server.services.movements.releases import ReleaseService
from ussd_server.services.movements.uses import MovementUseService
from ussd_server.services.operations.book_check.history_digests import HistoryDigests
from ussd_server.services.operations.gauges import Gauges
from ussd_server.services.operations.master_keys import MasterKeyService
from ussd_server.services.operations.retention import Retention
from ussd_server.services.operations.system import HealthService, SystemService
from ussd_server.services.operations.timekeeper import Timekeeper
from ussd_server.services.operators.accounts import OperatorLoginService, OperatorService
from ussd_server.services.operators.actions import TwoPersonActions
from ussd_server.services.operators.proposals import ProposalService
from ussd_server.services.payouts.approval.rules import ApprovalRuleService
from ussd_server.services.payouts.approval.withdrawals import PayoutWithdrawals
from ussd_server.services.payouts.payouts import PayoutService
from ussd_server.services.payouts.sending import PayoutSender
from ussd_server.services.processing.callbacks import CallbackService
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.processing.review import ReviewService
from ussd_server.services.providers.call_history import CallHistory
from ussd_server.services.providers.floats import FloatService
from ussd_server.services.providers.states import OutageWatch, ProviderStateService
from ussd_server.services.providers.subscribers import SubscriberNames, SubscriberService
from ussd_server.services.reconciliation.closed_days import DayService
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.recovery import RecoveryService
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.reports.daily_reports import DailyReportService, ReportFiles
from ussd_server.services.reports.recent_payments import RecentPaymentsService
from ussd_server.services.request_log.requests import RequestLogService
from ussd_server.services.runtime import Runtime
from ussd_server.services.search.search import SearchService
from ussd_server.services.signatures import SignatureService
from ussd_server.services.sms.outbox import SmsService
from ussd_server.services.sms.receipts import ReceiptService
from ussd_server.services.sms.sending import SmsReportService, SmsSending
from ussd_server.services.statement_layouts.layouts import LayoutService
from ussd_server.services.subscribers.history import SubscriberHistoryService
from ussd_server.services.subscribers.personal_data import PersonalDataService
from ussd_server.services.subscribers.pins import SubscriberPins
from ussd_server.services.transactions.bookings import DepositService
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.notes import NoteService
from ussd_server.services.transactions.refunds import RefundService
from ussd_server.services.transactions.transactions import TransactionService
from ussd_server.services.trials.trial import TrialService
from ussd_server.services.ussd.actions import Actions
from ussd_server.services.ussd.api_sessions import UssdService
from ussd_server.services.ussd.channels import ChannelService
from ussd_server.services.ussd.conversations import Conversations
from ussd_server.services.ussd.gateways import GatewayService
from ussd_server.services.ussd.handsets import HandsetService
from ussd_server.services.ussd.sessions import Sessions
from ussd_server.services.ussd.smpp_links import SmppLinks
from ussd_server.services.webhooks.deliveries import AttemptService, DeliveryService
from ussd_server.services.webhooks.events import EventService
from ussd_server.services.webhooks.relay import Relay
from ussd_server.services.webhooks.subscriptions import WebhookService
from ussd_server.settings import Settings
from ussd_server.settings.shown import shown_settings


class Services:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.settings, self.clock, self.limiter = runtime.settings, runtime.clock, runtime.limiter
        # A large body is read in slices beside other calls: few at a time, so that those notice nothing.
        self.large_bodies = Bulkhead(2, 1)
        self.audit = AuditService(runtime)
        self.search = SearchService()

        # Who may call.
        self.auth = AuthService(runtime)
        self.clients = ClientService(runtime)
        self.request_log = RequestLogService(runtime)
        self.key_reader = ApiKeyReader(runtime, self.request_log)
        self.api_keys = ApiKeyService(runtime, self.key_reader)
        self.key_notices = KeyNotices(runtime)
        self.key_explanations = KeyExplanationService(runtime)
        self.people = PeopleService(runtime)
        self.logins = LoginService(runtime)
        self.second_factors = SecondFactorService(runtime)
        self.password_links = PasswordLinkService(runtime)

        # Providers and accounts.
        self.provider_states = ProviderStateService(runtime)
        self.outage_watch = OutageWatch(runtime, self.provider_states)
        self.call_history = CallHistory(runtime)
        self.floats = FloatService(runtime)
        self.own_connections = runtime.own_connections
        self.subscriber_names = SubscriberNames(runtime)
        self.subscribers = SubscriberService(runtime, self.subscriber_names)
        self.subscriber_history = SubscriberHistoryService(runtime)
        self.personal_data = PersonalDataService(runtime)
        self.balances = BalanceService(runtime)
        self.statements = StatementService(runtime)

        # Payments, payouts, reports and reconciliation.
        creator = TransactionCreator(runtime)
        self.transactions = TransactionService(runtime, creator)
        self.notes = NoteService(runtime)
        self.deposits = DepositService(runtime, creator)
        self.refunds = RefundService(runtime, creator, self.transactions)
        self.bank_accounts = BankAccountService(runtime)
        self.bank_settlements = BankSettlementService(runtime, creator, self.balances, self.statements)
        self.payment_codes = PaymentCodeService(runtime)
        incoming = IncomingBook(runtime, creator)
        self.notices = NoticeService(runtime, incoming)
        self.payouts = PayoutService(runtime, creator)
        self.payout_withdrawals = PayoutWithdrawals(runtime)
        self.approval_rules = ApprovalRuleService(runtime)
        self.payout_sender = PayoutSender(runtime, self.subscriber_names, creator)
        self.processing = PaymentProcessor(runtime)
        self.callbacks = CallbackService(runtime, self.processing)
        self.reviews = ReviewService(runtime)
        self.daily_reports = DailyReportService(runtime)
        self.recent_payments = RecentPaymentsService(runtime)
        self.report_files = ReportFiles(runtime, self.daily_reports, self.statements)
        self.provider_statements = ProviderStatementService(runtime)
        self.statement_layouts = LayoutService(runtime, self.provider_statements)
        self.differences = DifferenceService(runtime, self.reviews)
        self.days = DayService(runtime)
        self.movements = MovementService(runtime)
        self.corrections = CorrectionService(runtime, creator)
        self.releases = ReleaseService(runtime, self.differences)
        self.movement_uses = MovementUseService(runtime, incoming)
        self.trials = TrialService(runtime)
        self.recovery = RecoveryService(runtime, creator, self.provider_statements)

        # What phones show.
        self.menus = MenuService(runtime)
        self.replays = ReplayService(runtime, self.menus)
        self.channels = ChannelService(runtime)
        self.smpp_links = SmppLinks(runtime)
        sessions = Sessions(runtime)
        self.subscriber_pins = SubscriberPins(runtime)
        actions = Actions(runtime, self.transactions, self.balances, self.subscriber_names, self.subscriber_pins)
        conversations = Conversations(sessions, actions)
        self.api_sessions = UssdService(runtime, sessions, conversations)
        self.gateways = GatewayService(runtime, self.channels, sessions, conversations)
        self.handsets = HandsetService(runtime, self.channels, self.gateways)

        # What clients and people are sent.
        self.webhooks = WebhookService(runtime)
        self.events = EventService(runtime)
        self.relay = Relay(runtime)
        self.deliveries = DeliveryService(runtime)
        self.delivery_attempts = AttemptService(runtime)
        self.mails = MailService(runtime)
        self.mail_sender = MailSender(runtime, self.password_links)
        self.mail_reminders = MailReminders(runtime)
        self.sms = SmsService(runtime)
        self.receipts = ReceiptService(runtime)
        self.client_settings = ClientSettingsService(runtime)
        self.sms_sending = SmsSending(runtime)
        self.sms_reports = SmsReportService(runtime)

        # Operators, and what keeps the service running.
        self.operators = OperatorService(runtime)
        self.operator_logins = OperatorLoginService(runtime)
        actions_of_two = TwoPersonActions(
            self.reviews,
            self.refunds,
            self.differences,
            self.provider_statements,
            self.bank_settlements,
            self.movement_uses,
            self.days,
            self.corrections,
            self.releases,
        )
        self.proposals = ProposalService(runtime, actions_of_two.by_name())
        self.history_digests = HistoryDigests(runtime)
        self.signatures = SignatureService(runtime)
        self.master_keys = MasterKeyService(runtime, self.history_digests, self.signatures)
        self.health = HealthService(runtime)
        self.timekeeper = Timekeeper(runtime.clock)
        self.gauges = Gauges(runtime, self.floats)
        self.retention = Retention(runtime)
        self.system = SystemService(runtime, shown_settings(runtime.settings), self.gauges)

    def release_connection(self) -> None:
        """Give this thread's database connection back, between two parts of a long response."""
        release_connection()

    def close(self) -> None:
        """Write down what is in memory, stop all threads, and close the connections with Redis and providers."""
        self.runtime.close()


def build_services(settings: Settings, clock: Clock | None = None) -> Services:
    """Open the database and build every service. Connects to nothing yet."""
    open_database(
        settings.database_url,
        max_connections=settings.threads + settings.worker_threads + settings.delivery_slots + 8,
        pooler=settings.database_pooler,
    )
    runtime = build_runtime(settings, clock or Clock())
    return Services(runtime)
