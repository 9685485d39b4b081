"""The services of what phones show: menus, channels and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.bootstrap.foundation import Foundation
from ussd_server.limits.quota_leases import QuotaLeases
from ussd_server.outbound.client_server import ClientServer
from ussd_server.outbound.transport import Transport
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.menus.diagrams import DiagramService
from ussd_server.services.menus.menus import MenuService
from ussd_server.services.menus.replays import ReplayService
from ussd_server.services.menus.walks import WalkService
from ussd_server.services.providers.subscribers import SubscriberNames
from ussd_server.services.sessions.endings import SessionEndings
from ussd_server.services.sessions.sessions import Sessions
from ussd_server.services.transactions.transactions import TransactionService
from ussd_server.services.ussd.actions import Actions
from ussd_server.services.ussd.api_sessions import UssdService
from ussd_server.services.ussd.channels import ChannelService
from ussd_server.services.ussd.conversations import Conversations
from ussd_server.services.ussd.gateways import GatewayService
from ussd_server.services.ussd.handsets import HandsetService


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


# Requests of a process that wait for clients' servers, beside some thousand connections of callers.
_WAITING_PLACES = 400


def menu_services(base: Foundation) -> MenuServices:
    """Build what keeps and walks menus."""
    menus = MenuService(base.guard, base.keyring, base.clock, base.settings.session_life_seconds)
    return MenuServices(menus, WalkService(menus), ReplayService(menus, base.clock), DiagramService(menus))


def ussd_services(
    base: Foundation, transactions: TransactionService, balances: BalanceService, names: SubscriberNames
) -> UssdServices:
    """Build what answers phones."""
    settings, limiter = base.settings, base.limiter
    # At most a quarter of all for one client.
    bulkhead = Bulkhead(_WAITING_PLACES, _WAITING_PLACES // 4)
    client_server = ClientServer(Transport(base.guard, max_connections=_WAITING_PLACES))
    actions = Actions(transactions, balances, names, client_server, bulkhead, base.keyring, base.clock)
    # A step that waits looks at its session ten times a second.
    waiting_steps = Bulkhead(100, 25)
    sessions = Sessions(
        base.keyring,
        SessionEndings(base.drop_offs, base.clock, settings.session_life_seconds),
        base.clock,
        settings.session_idle_seconds,
        settings.session_life_seconds,
        waiting_steps,
    )
    conversations = Conversations(sessions, actions)
    channels = ChannelService(base.vault, limiter, base.clock)
    quota = QuotaLeases(limiter, "channel", most=max(1, settings.channel_limit_per_minute // 100))
    gateways = GatewayService(channels, sessions, conversations, quota)
    return UssdServices(
        channels=channels,
        api_sessions=UssdService(sessions, conversations, base.tokens),
        gateways=gateways,
        handsets=HandsetService(
            channels, gateways, base.clock, may_dial=settings.has_console_phone, is_sandbox=settings.is_sandbox
        ),
    )
