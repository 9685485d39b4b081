"""Builds the runtime: limits, keys, connections and the providers that are switched on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence

from limits import (
    RateLimitItem,
    RateLimitItemPerDay,
    RateLimitItemPerHour,
    RateLimitItemPerMinute,
    RateLimitItemPerMonth,
    RateLimitItemPerSecond,
)

from ussd_server.clock import Clock
from ussd_server.database.servers import Replica
from ussd_server.limits.limiter import Limiter, Policy
from ussd_server.limits.sliding_window import SlidingWindowStorage
from ussd_server.metrics import note_replica
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.providers.http.shared_tokens import SharedTokens
from ussd_server.providers.messages import Provider
from ussd_server.providers.registry import build_providers
from ussd_server.redis.signals import ProviderOutages, WakeUpSignal
from ussd_server.security.key_ring import Keyring, Vault
from ussd_server.security.tokens import Tokens
from ussd_server.senders.registry import build_sender
from ussd_server.services.clients.auth import LastUses
from ussd_server.services.clients.key_cache import KeyCache
from ussd_server.services.leases import Leases
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.menus.replays import DropOffs
from ussd_server.services.operations.heartbeat import Heartbeat
from ussd_server.services.providers.accounts import renamed_accounts
from ussd_server.services.providers.own_connections import OwnConnections
from ussd_server.services.providers.providers import Providers, ProviderSwitches
from ussd_server.services.request_log.recorder import RequestRecorder
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.provider_references import ProviderReferences
from ussd_server.settings import Settings, SettingsError

_WINDOWS: dict[str, tuple[RateLimitItem, ...]] = {
    # Fixed by the API document.
    "api-key": (RateLimitItemPerMinute(100), RateLimitItemPerHour(1000)),
    # Short: a client with a corrected secret is accepted within a minute. Secrets of 256 bits need no more.
    "wrong-secret": (RateLimitItemPerMinute(100),),
    "wrong-path": (RateLimitItemPerMinute(100),),
    # Of one number on one channel; each is a row, and a step of the client's menu.
    "conversations": (RateLimitItemPerMinute(30),),
    # A console page sends several requests at once.
    "access-token": (RateLimitItemPerMinute(600), RateLimitItemPerHour(10_000)),
    # Prevents a client from trying lists of numbers to learn names.
    "subscriber-names": (RateLimitItemPerMinute(30), RateLimitItemPerHour(500)),
    # Counts address and name together: an attacker elsewhere cannot lock a user out.
    "login-pair": (RateLimitItemPerMinute(10, 15),),
    "login-address": (RateLimitItemPerMinute(60), RateLimitItemPerHour(600)),
    # Few mails to one address, to spare its reader; more from one network, which an office may share.
    "forgotten-person": (RateLimitItemPerHour(3),),
    "forgotten-network": (RateLimitItemPerHour(20),),
    # Wrong TOTP codes of a person after the right password, from all addresses together. Each guess has a chance of
    # 3 in 1,000,000 (three codes fit at a time): 3 in 10,000 a day, 3 in 2,000 in thirty days.
    "wrong-code": (RateLimitItemPerDay(100), RateLimitItemPerMonth(500)),
}


def build_runtime(settings: Settings, clock: Clock) -> Runtime:
    """Build it from the settings. Connects to nothing yet. Raises SettingsError for a damaged secrets file."""
    try:
        keyring = Keyring.create(settings.secrets_file) if settings.is_sandbox else Keyring(settings.secrets_file)
    except ValueError as damage:
        raise SettingsError(f"USSD_SECRETS_FILE: {settings.secrets_file}: {damage}") from None
    tokens = Tokens(keyring)
    vault = Vault(keyring)
    shared_tokens = SharedTokens(settings.redis_url, vault)
    adapters = build_providers(
        settings.providers,
        clock.now,
        ca_file=settings.ca_file,
        is_sandbox=settings.offers_sandbox,
        callback_url=lambda name: settings.public_url + tokens.callback_path(name) if settings.public_url else None,
        tokens=shared_tokens,
    )
    limiter = _limiter(settings, adapters)
    outages = ProviderOutages(settings.redis_url, limiter.is_away, [each.connection for each in adapters])
    switches = ProviderSwitches([each.connection for each in adapters], clock)
    own_connections = OwnConnections(adapters, clock)
    providers = Providers(adapters, outages.is_away, switches.why_off, settings.mobile_blocks, own_connections.owners)
    drop_offs = DropOffs()
    leases = Leases(clock)
    return Runtime(
        settings=settings,
        clock=clock,
        replica=_replica(settings),
        keyring=keyring,
        vault=vault,
        tokens=tokens,
        references=ProviderReferences(
            keyring,
            is_sandbox=settings.is_sandbox,
            renamed=lambda: [f"{name}: {found}. {mend}" for name, found, mend in renamed_accounts(providers)],
        ),
        limiter=limiter,
        key_cache=KeyCache(limiter.pipeline, limiter.circuit),
        last_uses=LastUses(clock),
        request_recorder=RequestRecorder(),
        wake_up=WakeUpSignal(settings.redis_url, limiter.pipeline, limiter.is_away),
        guard=_address_guard(settings),
        outages=outages,
        shared_tokens=shared_tokens,
        switches=switches,
        own_connections=own_connections,
        providers=providers,
        sms_sender=build_sender(settings.sms, settings.ca_file),
        mail_outbox=MailOutbox(settings.smtp_url is not None),
        drop_offs=drop_offs,
        leases=leases,
        heartbeat=Heartbeat(leases, providers, drop_offs, clock),
        within_rate=lambda connection: limiter.hit(f"provider:{connection}", "all").accepted,
        at_kill_point=kill_point(settings.kill_point),
    )


def _replica(settings: Settings) -> Replica | None:
    if not settings.replica_url:
        return None
    return Replica(settings.replica_url, settings.threads, settings.replica_lag_seconds, note_replica)


def _limiter(settings: Settings, adapters: Sequence[Provider]) -> Limiter:
    policies = [Policy(name, items) for name, items in _WINDOWS.items()]
    policies.append(Policy("channel", (RateLimitItemPerMinute(settings.channel_limit_per_minute),)))
    policies += [
        Policy(f"provider:{adapter.connection}", (RateLimitItemPerSecond(int(adapter.schedule.per_second)),))
        for adapter in adapters
    ]
    return Limiter(SlidingWindowStorage(settings.redis_url), policies, settings.web_processes)


def kill_point(name: str | None) -> Callable[[str], None]:
    """Return a function that kills this process when it is called with `name`. None: a function that does nothing."""

    def at(point: str) -> None:
        if point == name:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def _address_guard(settings: Settings) -> AddressGuard:
    """The rules for addresses of clients. A sandbox calls programs on its own machine, unless a setting forbids it."""
    allowed = settings.allow_private_addresses
    return AddressGuard(
        allow_private=allowed is True,
        plain_http=settings.is_sandbox,
        allow_loopback=settings.is_sandbox and allowed is None,
    )
