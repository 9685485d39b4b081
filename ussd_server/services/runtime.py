"""The shared parts of a process, passed to every service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ussd_server.clock import Clock
    from ussd_server.database.servers import Replica
    from ussd_server.limits.limiter import Limiter
    from ussd_server.outbound.addresses import AddressGuard
    from ussd_server.providers.http.shared_tokens import SharedTokens
    from ussd_server.redis.signals import ProviderOutages, WakeUpSignal
    from ussd_server.security.key_ring import Keyring, Vault
    from ussd_server.security.tokens import Tokens
    from ussd_server.senders.messages import Sender
    from ussd_server.services.clients.auth import LastUses
    from ussd_server.services.clients.key_cache import KeyCache
    from ussd_server.services.leases import Leases
    from ussd_server.services.mail.outbox import MailOutbox
    from ussd_server.services.menus.replays import DropOffs
    from ussd_server.services.operations.heartbeat import Heartbeat
    from ussd_server.services.providers.own_connections import OwnConnections
    from ussd_server.services.providers.providers import Providers, ProviderSwitches
    from ussd_server.services.request_log.recorder import RequestRecorder
    from ussd_server.services.transactions.provider_references import ProviderReferences
    from ussd_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """The clock, the keys, the connections and the shared state of a process. The database is open.

    `replica` is None where every list is read from the primary, `sms_sender` where no messages are sent. `within_rate`
    counts one more call of a provider, and returns False when its rate is used up. `at_kill_point` is called with the
    name of every point at which fault tests may end the process.
    """

    settings: Settings
    clock: Clock
    replica: Replica | None
    keyring: Keyring
    vault: Vault
    tokens: Tokens
    references: ProviderReferences
    limiter: Limiter
    key_cache: KeyCache
    last_uses: LastUses
    request_recorder: RequestRecorder
    wake_up: WakeUpSignal
    guard: AddressGuard
    outages: ProviderOutages
    shared_tokens: SharedTokens
    switches: ProviderSwitches
    own_connections: OwnConnections
    providers: Providers
    sms_sender: Sender | None
    mail_outbox: MailOutbox
    drop_offs: DropOffs
    leases: Leases
    heartbeat: Heartbeat
    within_rate: Callable[[str], bool]
    at_kill_point: Callable[[str], None]

    def close(self) -> None:
        """Write down the last uses of keys, stop all threads, and close the connections with Redis and providers."""
        self.last_uses.close()
        self.request_recorder.close()
        self.limiter.close()
        self.wake_up.close()
        self.outages.close()
        self.providers.close()
        self.shared_tokens.close()
        if self.replica is not None:
            self.replica.close()
        if self.sms_sender is not None:
            self.sms_sender.close()
