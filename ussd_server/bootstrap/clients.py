"""The services of clients: who may call, and what clients are sent."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.bootstrap.foundation import Foundation
from ussd_server.outbound.transport import Transport
from ussd_server.services.clients.api_keys import ApiKeyService
from ussd_server.services.clients.auth import AuthService
from ussd_server.services.clients.clients import ClientService
from ussd_server.services.clients.forgotten_passwords import ForgottenPasswordService
from ussd_server.services.clients.key_cache.cache import KeyCache
from ussd_server.services.clients.key_explanations import KeyExplanationService
from ussd_server.services.clients.key_reader import ApiKeyReader
from ussd_server.services.clients.last_uses import LastUses
from ussd_server.services.clients.logins import LoginService
from ussd_server.services.clients.password_links import PasswordLinkService
from ussd_server.services.clients.second_factors import SecondFactorService
from ussd_server.services.clients.team import TeamService
from ussd_server.services.webhooks.attempts import AttemptService
from ussd_server.services.webhooks.deliveries import DeliveryService
from ussd_server.services.webhooks.events import EventService
from ussd_server.services.webhooks.relay import Relay
from ussd_server.services.webhooks.subscriptions import WebhookService


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
    forgotten_passwords: ForgottenPasswordService
    second_factors: SecondFactorService


@dataclass(frozen=True, slots=True)
class WebhookServices:
    """What clients are sent: events and their deliveries."""

    subscriptions: WebhookService
    events: EventService
    relay: Relay
    deliveries: DeliveryService
    attempts: AttemptService


def client_services(base: Foundation) -> ClientServices:
    """Build what authenticates clients and keeps their keys and people."""
    vault, tokens, limiter, clock = base.vault, base.tokens, base.limiter, base.clock
    key_cache, last_uses = KeyCache(limiter.pipeline, limiter.circuit), LastUses()
    return ClientServices(
        auth=AuthService(vault, tokens, limiter, key_cache, last_uses, clock),
        last_uses=last_uses,
        logins=LoginService(tokens, vault, limiter, clock),
        clients=ClientService(tokens, key_cache, clock),
        api_keys=ApiKeyService(vault, key_cache, limiter, clock),
        key_explanations=KeyExplanationService(limiter, clock),
        key_reader=ApiKeyReader(vault, limiter, clock),
        team=TeamService(tokens, clock),
        password_links=PasswordLinkService(tokens, clock),
        forgotten_passwords=ForgottenPasswordService(limiter, clock),
        second_factors=SecondFactorService(vault, limiter, clock),
    )


def webhook_services(base: Foundation) -> WebhookServices:
    """Build what sends events to clients."""
    slots = base.settings.delivery_slots
    transport = Transport(base.guard, max_connections=slots)
    new_lease_token = base.heartbeat.new_lease_token
    return WebhookServices(
        subscriptions=WebhookService(base.guard, base.vault, base.clock),
        events=EventService(base.tokens, base.clock),
        relay=Relay(base.vault, base.clock),
        deliveries=DeliveryService(base.vault, transport, base.clock, slots, new_lease_token=new_lease_token),
        attempts=AttemptService(),
    )
