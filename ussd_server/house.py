"""Puts the house together: every service, made from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute, RateLimitItemPerSecond

from ussd_server.adapters.addresses import AddressGuard
from ussd_server.adapters.client_server import ClientServer
from ussd_server.adapters.providers.prediction import predict
from ussd_server.adapters.transport import Transport
from ussd_server.companies import build_companies
from ussd_server.models.base import open_database
from ussd_server.models.replica import Replica, use_replica
from ussd_server.rpc.allowance import KEPT_SECONDS, Allowance
from ussd_server.rpc.bell import Bell
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.keyring import Keyring
from ussd_server.rpc.kill_points import kill_point
from ussd_server.rpc.limiter import Limiter, Policy
from ussd_server.rpc.noticeboard import Noticeboard
from ussd_server.rpc.observe import note_replica
from ussd_server.rpc.sliding_log import SlidingLogStorage
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.api_keys import ApiKeyService
from ussd_server.services.audit import AuditService
from ussd_server.services.auth import AuthService
from ussd_server.services.balances import BalanceService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.callbacks import CallbackService, callback_path
from ussd_server.services.channels import ChannelService
from ussd_server.services.clients import ClientService
from ussd_server.services.conversations import Conversations
from ussd_server.services.credentials import Vault
from ussd_server.services.deeds import Deeds
from ussd_server.services.deliveries import DeliveryService
from ussd_server.services.drop_offs import DropOffs
from ussd_server.services.events import EventService
from ussd_server.services.fanout import FanOut
from ussd_server.services.gateways import GatewayService
from ussd_server.services.gauges import Gauges
from ussd_server.services.health import HealthService
from ussd_server.services.house_keys import HouseKeyService
from ussd_server.services.key_records import KeyRecords
from ussd_server.services.last_uses import LastUses
from ussd_server.services.logins import LoginService
from ussd_server.services.menus import MenuService
from ussd_server.services.providers import Providers
from ussd_server.services.pulse import Pulse
from ussd_server.services.recording import Recorder
from ussd_server.services.refunds import RefundService
from ussd_server.services.retention import Retention
from ussd_server.services.review import ReviewService
from ussd_server.services.sessions import Sessions
from ussd_server.services.settlement import Settlement
from ussd_server.services.timekeeper import Timekeeper
from ussd_server.services.transactions import TransactionService
from ussd_server.services.ussd import UssdService
from ussd_server.services.webhooks import WebhookService
from ussd_server.settings import Settings

_WINDOWS: dict[str, tuple[RateLimitItem, ...]] = {
    # Fixed by the API document.
    "api-key": (RateLimitItemPerMinute(100), RateLimitItemPerHour(1000)),
    # Short, so that a program set right again is heard within a minute; 256 bits need no more.
    "wrong-secret": (RateLimitItemPerMinute(100),),
    "wrong-path": (RateLimitItemPerMinute(100),),
    # A console page makes several calls at once; no program needs more of the management calls.
    "access-token": (RateLimitItemPerMinute(600), RateLimitItemPerHour(10_000)),
    # Guessing is slowed for one address and one name together: nobody can lock a person out from somewhere else.
    "login-pair": (RateLimitItemPerMinute(10, 15),),
    "login-address": (RateLimitItemPerMinute(60), RateLimitItemPerHour(600)),
}


@dataclass(frozen=True, slots=True)
class Services:
    """Every service of the house, and the few things that the doors use directly."""

    settings: Settings
    clock: Clock
    timekeeper: Timekeeper
    limiter: Limiter
    auth: AuthService
    last_uses: LastUses
    logins: LoginService
    clients: ClientService
    api_keys: ApiKeyService
    audit: AuditService
    house_keys: HouseKeyService
    channels: ChannelService
    menus: MenuService
    ussd: UssdService
    gateways: GatewayService
    health: HealthService
    bell: Bell
    providers: Providers
    noticeboard: Noticeboard
    transactions: TransactionService
    refunds: RefundService
    balances: BalanceService
    settlement: Settlement
    callbacks: CallbackService
    review: ReviewService
    webhooks: WebhookService
    events: EventService
    fanout: FanOut
    deliveries: DeliveryService
    pulse: Pulse
    gauges: Gauges
    retention: Retention


def build_services(settings: Settings, clock: Clock | None = None) -> Services:
    """Make every service from the settings and open the database; nothing is connected yet."""
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
    storage = SlidingLogStorage(settings.redis_url)
    tokens = Tokens(keyring)
    companies = build_companies(settings, clock.now, lambda company: callback_path(tokens, company))
    policies = [Policy(name, items) for name, items in _WINDOWS.items()]
    # Steps are counted up to so long before they are taken.
    channel_limit = RateLimitItemPerSecond(settings.channel_limit_per_minute, 60 + KEPT_SECONDS)
    policies.append(Policy("channel", (channel_limit,)))
    policies += [
        Policy(f"provider:{company.name}", (RateLimitItemPerSecond(int(company.pace.per_second)),))
        for company in companies
    ]
    limiter = Limiter(storage, policies, settings.web_processes)
    allowance = Allowance(limiter, "channel", most=max(1, settings.channel_limit_per_minute // 100))
    vault = Vault(keyring)
    records = KeyRecords(limiter.versions)
    last_uses = LastUses()
    bell = Bell(settings.redis_url, lambda: limiter.away)
    noticeboard = Noticeboard(settings.redis_url, lambda: limiter.away, [company.name for company in companies])
    providers = Providers(companies, predict, noticeboard.is_away)
    drop_offs = DropOffs()
    pulse = Pulse(providers, drop_offs, clock)
    settlement = Settlement(
        providers,
        clock,
        lambda name: limiter.hit(f"provider:{name}", "all").accepted,
        settings.provider_timeout_seconds,
        pulse.count_call,
        kill_point(settings.kill_point),
        pulse.new_lease_token,
    )
    guard = AddressGuard(allow_private=settings.allow_private_addresses, plain_http=settings.is_sandbox)
    recorder = Recorder(clock, bell.ring)
    transactions = TransactionService(providers, tokens, guard, recorder, waiting_calls=settings.threads // 2)
    balances = BalanceService(clock)
    channels = ChannelService(vault, limiter, clock)
    # At most a quarter of all for one client.
    places_of_client = settings.waiting_places // 4 if settings.is_cooperative else settings.threads // 4
    bulkhead = Bulkhead(settings.waiting_places, max(1, places_of_client))
    sessions = Sessions(keyring, drop_offs, clock, settings.session_idle_seconds, settings.session_life_seconds)
    client_server = ClientServer(Transport(guard, max_connections=settings.waiting_places))
    deeds = Deeds(transactions, balances, providers, client_server, bulkhead, keyring, clock)
    conversations = Conversations(sessions, deeds, clock)
    return Services(
        settings=settings,
        clock=clock,
        timekeeper=Timekeeper(clock),
        limiter=limiter,
        last_uses=last_uses,
        auth=AuthService(vault, tokens, limiter, records, last_uses, clock),
        logins=LoginService(tokens, limiter, clock),
        clients=ClientService(tokens, records, clock),
        api_keys=ApiKeyService(vault, records, limiter, clock),
        audit=AuditService(tokens),
        house_keys=HouseKeyService(keyring, vault),
        channels=channels,
        menus=MenuService(guard, keyring, clock, settings.session_life_seconds),
        ussd=UssdService(sessions, conversations, tokens, clock),
        gateways=GatewayService(channels, sessions, conversations, allowance),
        health=HealthService(limiter),
        bell=bell,
        providers=providers,
        noticeboard=noticeboard,
        transactions=transactions,
        refunds=RefundService(recorder, providers),
        balances=balances,
        settlement=settlement,
        callbacks=CallbackService(providers, settlement, tokens, bell.ring),
        review=ReviewService(providers, clock),
        webhooks=WebhookService(guard, vault, clock),
        events=EventService(tokens, clock),
        fanout=FanOut(vault, clock),
        deliveries=DeliveryService(
            vault,
            Transport(guard, max_connections=settings.delivery_slots),
            clock,
            settings.delivery_slots,
            new_lease_token=pulse.new_lease_token,
        ),
        pulse=pulse,
        gauges=Gauges(pulse, clock),
        retention=Retention(clock, settings.keep_sessions_days, settings.keep_deliveries_days),
    )
