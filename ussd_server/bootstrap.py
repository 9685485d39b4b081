"""Builds every service from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute, RateLimitItemPerSecond

from ussd_server.clock import Clock
from ussd_server.database.replica import Replica, use_replica
from ussd_server.database.unit_of_work import open_database
from ussd_server.kill_points import kill_point
from ussd_server.limits.limiter import Limiter, Policy
from ussd_server.limits.quota_leases import KEPT_SECONDS, QuotaLeases
from ussd_server.limits.sliding_window import SlidingWindowStorage
from ussd_server.menus.engine.provider_states import use_provider_states
from ussd_server.messages.providers import Provider
from ussd_server.metrics import note_replica
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.outbound.client_server import ClientServer
from ussd_server.outbound.transport import Transport
from ussd_server.providers.registry import build_providers
from ussd_server.redis.provider_outages import ProviderOutages
from ussd_server.redis.wake_up import WakeUpSignal
from ussd_server.security.credentials import Vault
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.audit import AuditService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.clients.api_keys import ApiKeyService
from ussd_server.services.clients.auth import AuthService
from ussd_server.services.clients.clients import ClientService
from ussd_server.services.clients.key_cache.cache import KeyCache
from ussd_server.services.clients.key_explanations import KeyExplanationService
from ussd_server.services.clients.key_reader import ApiKeyReader
from ussd_server.services.clients.last_uses import LastUses
from ussd_server.services.clients.logins import LoginService
from ussd_server.services.clients.password_links import PasswordLinkService
from ussd_server.services.clients.team import TeamService
from ussd_server.services.menus.diagrams import DiagramService
from ussd_server.services.menus.drop_offs import DropOffs
from ussd_server.services.menus.menus import MenuService
from ussd_server.services.menus.replays import ReplayService
from ussd_server.services.menus.walks import WalkService
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
from ussd_server.services.payouts.approval import PayoutApproval
from ussd_server.services.payouts.drafts import PayoutDrafts
from ussd_server.services.payouts.payouts import PayoutService
from ussd_server.services.payouts.sending import PayoutSender
from ussd_server.services.providers.floats import FloatService
from ussd_server.services.providers.providers import Providers
from ussd_server.services.providers.states import ProviderStateService
from ussd_server.services.providers.subscribers import SubscriberNames, SubscriberService
from ussd_server.services.providers.switches import ProviderSwitches
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.reports.daily_reports import DailyReportService
from ussd_server.services.reports.recent_payments import RecentPaymentsService
from ussd_server.services.reports.report_files import ReportFiles
from ussd_server.services.search.search import SearchService
from ussd_server.services.sessions.sessions import Sessions
from ussd_server.services.settlement.provider_callbacks import CallbackService, callback_path
from ussd_server.services.settlement.review import ReviewService
from ussd_server.services.settlement.settlement import Settlement
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.deposits import DepositService
from ussd_server.services.transactions.refunds import RefundService
from ussd_server.services.transactions.transactions import TransactionService
from ussd_server.services.ussd.actions import Actions
from ussd_server.services.ussd.api_sessions import UssdService
from ussd_server.services.ussd.channels import ChannelService
from ussd_server.services.ussd.conversations import Conversations
from ussd_server.services.ussd.gateways import GatewayService
from ussd_server.services.ussd.handsets import HandsetService
from ussd_server.services.webhooks.attempts import AttemptService
from ussd_server.services.webhooks.deliveries import DeliveryService
from ussd_server.services.webhooks.events import EventService
from ussd_server.services.webhooks.relay import Relay
from ussd_server.services.webhooks.subscriptions import WebhookService
from ussd_server.settings import Settings
from ussd_server.shown_settings import shown_settings

_WINDOWS: dict[str, tuple[RateLimitItem, ...]] = {
    # Fixed by the API document.
    "api-key": (RateLimitItemPerMinute(100), RateLimitItemPerHour(1000)),
    # Short: a client with a corrected secret is accepted within a minute. Secrets of 256 bits need no more.
    "wrong-secret": (RateLimitItemPerMinute(100),),
    "wrong-path": (RateLimitItemPerMinute(100),),
    # A console page sends several requests at once.
    "access-token": (RateLimitItemPerMinute(600), RateLimitItemPerHour(10_000)),
    # Nobody may try out lists of numbers to learn names.
    "subscriber-names": (RateLimitItemPerMinute(30), RateLimitItemPerHour(500)),
    # Counts address and name together: an attacker elsewhere cannot lock a user out.
    "login-pair": (RateLimitItemPerMinute(10, 15),),
    "login-address": (RateLimitItemPerMinute(60), RateLimitItemPerHour(600)),
    # Wrong codes after the right password, from all addresses together.
    "operator-code": (RateLimitItemPerHour(20),),
}


@dataclass(frozen=True, slots=True)
class ClientServices:
    """Who may call: clients, their keys and logins."""

    auth: AuthService
    last_uses: LastUses
    logins: LoginService
    clients: ClientService
    api_keys: ApiKeyService
    key_explanations: KeyExplanationService
    key_reader: ApiKeyReader
    team: TeamService
    password_links: PasswordLinkService


@dataclass(frozen=True, slots=True)
class OperatorServices:
    """Operators: their accounts, logins and decisions that take two of them."""

    accounts: OperatorService
    logins: OperatorLoginService
    proposals: ProposalService


@dataclass(frozen=True, slots=True)
class ProviderServices:
    """The providers that are switched on."""

    providers: Providers
    outages: ProviderOutages
    states: ProviderStateService
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


@dataclass(frozen=True, slots=True)
class ReconciliationServices:
    """Statements of providers, and their differences from our transactions."""

    statements: ProviderStatementService
    differences: DifferenceService


@dataclass(frozen=True, slots=True)
class PayoutServices:
    """Payouts: many disbursements at once."""

    payouts: PayoutService
    sender: PayoutSender


@dataclass(frozen=True, slots=True)
class MenuServices:
    """Menus: drafts, versions, service codes, and walks through them."""

    menus: MenuService
    walks: WalkService
    replays: ReplayService
    diagrams: DiagramService


@dataclass(frozen=True, slots=True)
class UssdServices:
    """What phones dial: channels and sessions."""

    channels: ChannelService
    api_sessions: UssdService
    gateways: GatewayService
    handsets: HandsetService


@dataclass(frozen=True, slots=True)
class WebhookServices:
    """What clients are sent: events and their deliveries."""

    subscriptions: WebhookService
    events: EventService
    relay: Relay
    deliveries: DeliveryService
    attempts: AttemptService


@dataclass(frozen=True, slots=True)
class OperationsServices:
    """What keeps the service running."""

    master_keys: MasterKeyService
    health: HealthService
    timekeeper: Timekeeper
    heartbeat: Heartbeat
    gauges: Gauges
    retention: Retention
    system: SystemService
    report_files: ReportFiles


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
    operations: OperationsServices
    search: SearchService

    def close(self) -> None:
        """Write down the last uses of keys, stop all threads, and close the connections with Redis."""
        self.clients.last_uses.close()
        self.limiter.close()
        self.wake_up.close()
        self.providers.outages.close()


def build_services(settings: Settings, clock: Clock | None = None) -> Services:
    """Build every service from the settings and open the database. Connects to nothing yet."""
    clock = clock or Clock()
    open_database(
        settings.database_url,
        max_connections=settings.threads + settings.worker_threads + settings.delivery_slots + 4,
    )
    use_replica(
        Replica(settings.replica_url, settings.threads, settings.replica_lag_seconds, note_replica)
        if settings.replica_url
        else None
    )
    keyring = Keyring.create(settings.secrets_file) if settings.is_sandbox else Keyring(settings.secrets_file)
    vault, tokens = Vault(keyring), Tokens(keyring)
    adapters = build_providers(settings, clock.now, lambda provider: callback_path(tokens, provider))
    limiter = _limiter(settings, adapters)
    wake_up = WakeUpSignal(settings.redis_url, lambda: limiter.away)
    outages = ProviderOutages(settings.redis_url, lambda: limiter.away, [adapter.name for adapter in adapters])
    switches = ProviderSwitches([adapter.name for adapter in adapters], clock)
    providers = Providers(adapters, outages.is_away, switches.is_off)
    use_provider_states(providers.takes_payments)
    names = SubscriberNames(providers, clock)
    floats = FloatService(providers, clock, settings.float_alert_shillings * 100)
    drop_offs = DropOffs()
    heartbeat = Heartbeat(providers, drop_offs, clock)
    gauges = Gauges(heartbeat, floats, clock)
    guard = AddressGuard(allow_private=settings.allow_private_addresses, plain_http=settings.is_sandbox)

    def within_pace(provider: str) -> bool:
        return limiter.hit(f"provider:{provider}", "all").accepted

    at_kill_point = kill_point(settings.kill_point)
    settlement = Settlement(
        providers,
        clock,
        within_pace,
        settings.provider_timeout_seconds,
        heartbeat.count_call,
        at_kill_point,
        heartbeat.new_lease_token,
    )
    creator = TransactionCreator(providers, guard, clock, wake_up.send)
    files = Bulkhead(16, 4) if settings.is_cooperative else Bulkhead(max(1, settings.threads // 4), 1)
    accounts = AccountServices(
        balances=BalanceService(clock),
        statements=StatementService(tokens, clock, files),
    )
    transactions = TransactionServices(
        transactions=TransactionService(creator, tokens, waiting_calls=settings.threads // 2),
        daily_reports=DailyReportService(clock),
        recent_payments=RecentPaymentsService(clock),
        deposits=DepositService(creator),
        refunds=RefundService(creator, providers),
        settlement=settlement,
        callbacks=CallbackService(providers, settlement, tokens, wake_up.send),
        review=ReviewService(providers, clock),
    )

    differences = DifferenceService(transactions.review, clock, tokens)
    payouts = PayoutServices(
        payouts=PayoutService(
            PayoutDrafts(providers, creator.fees, clock),
            PayoutApproval(creator, clock, at_kill_point),
            tokens,
            clock,
            wake_up.send,
        ),
        sender=PayoutSender(providers, names, clock, within_pace, wake_up.send, heartbeat.new_lease_token),
    )

    # At most a quarter of all for one client.
    places_of_client = max(1, (settings.waiting_places if settings.is_cooperative else settings.threads) // 4)
    bulkhead = Bulkhead(settings.waiting_places, places_of_client)
    client_server = ClientServer(Transport(guard, max_connections=settings.waiting_places))
    lookups = Bulkhead(8, 2)
    actions = Actions(transactions.transactions, accounts.balances, names, client_server, bulkhead, keyring, clock)
    # A step that waits looks at its session ten times a second.
    waiting_steps = (
        Bulkhead(100, 25) if settings.is_cooperative else Bulkhead(settings.waiting_places, places_of_client)
    )
    sessions = Sessions(
        keyring, drop_offs, clock, settings.session_idle_seconds, settings.session_life_seconds, waiting_steps
    )
    conversations = Conversations(sessions, actions)
    menus = MenuService(guard, keyring, clock, settings.session_life_seconds)
    channels = ChannelService(vault, limiter, clock)
    quota = QuotaLeases(limiter, "channel", most=max(1, settings.channel_limit_per_minute // 100))
    gateways = GatewayService(channels, sessions, conversations, quota)

    key_cache, last_uses = KeyCache(limiter.pipeline, limiter.circuit), LastUses()
    delivery_transport = Transport(guard, max_connections=settings.delivery_slots)
    return Services(
        settings=settings,
        clock=clock,
        limiter=limiter,
        wake_up=wake_up,
        audit=AuditService(tokens),
        clients=ClientServices(
            auth=AuthService(vault, tokens, limiter, key_cache, last_uses, clock),
            last_uses=last_uses,
            logins=LoginService(tokens, limiter, clock),
            clients=ClientService(tokens, key_cache, clock),
            api_keys=ApiKeyService(vault, key_cache, limiter, clock),
            key_explanations=KeyExplanationService(limiter, clock),
            key_reader=ApiKeyReader(vault, limiter, clock),
            team=TeamService(tokens, clock),
            password_links=PasswordLinkService(tokens, clock),
        ),
        operators=OperatorServices(
            accounts=OperatorService(vault, clock),
            logins=OperatorLoginService(settings.operator_addresses, vault, limiter, clock),
            proposals=ProposalService(
                two_person_actions(transactions.review, transactions.refunds, differences), clock
            ),
        ),
        providers=ProviderServices(
            providers,
            outages,
            ProviderStateService(providers, switches, clock),
            floats,
            names,
            SubscriberService(names, providers, limiter, lookups.place),
        ),
        accounts=accounts,
        transactions=transactions,
        menus=MenuServices(menus, WalkService(menus), ReplayService(menus, clock), DiagramService(menus)),
        reconciliation=ReconciliationServices(
            statements=ProviderStatementService(
                clock,
                tokens,
                settings.statement_headings,
                {name: access.currency for name, access in settings.providers.items()},
            ),
            differences=differences,
        ),
        payouts=payouts,
        ussd=UssdServices(
            channels=channels,
            api_sessions=UssdService(sessions, conversations, tokens),
            gateways=gateways,
            handsets=HandsetService(channels, gateways, clock),
        ),
        webhooks=WebhookServices(
            subscriptions=WebhookService(guard, vault, clock),
            events=EventService(tokens, clock),
            relay=Relay(vault, clock),
            deliveries=DeliveryService(
                vault, delivery_transport, clock, settings.delivery_slots, new_lease_token=heartbeat.new_lease_token
            ),
            attempts=AttemptService(),
        ),
        operations=OperationsServices(
            master_keys=MasterKeyService(keyring, vault),
            health=HealthService(limiter),
            timekeeper=Timekeeper(clock),
            heartbeat=heartbeat,
            gauges=gauges,
            retention=Retention(clock, settings.keep_sessions_days, settings.keep_deliveries_days),
            system=SystemService(shown_settings(settings), limiter, gauges, heartbeat, clock),
            report_files=ReportFiles(settings.reports_dir, transactions.daily_reports, accounts.statements, clock),
        ),
        search=SearchService(),
    )


def _limiter(settings: Settings, adapters: Sequence[Provider]) -> Limiter:
    policies = [Policy(name, items) for name, items in _WINDOWS.items()]
    # A quota lease counts steps up to this many seconds before they are taken.
    channel_limit = RateLimitItemPerSecond(settings.channel_limit_per_minute, 60 + KEPT_SECONDS)
    policies.append(Policy("channel", (channel_limit,)))
    policies += [
        Policy(f"provider:{adapter.name}", (RateLimitItemPerSecond(int(adapter.pace.per_second)),))
        for adapter in adapters
    ]
    return Limiter(SlidingWindowStorage(settings.redis_url), policies, settings.web_processes)
