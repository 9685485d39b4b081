"""Channels of phone companies and the codes that phones dial: made by the operator, looked up at every call."""

from __future__ import annotations

import re
import secrets

from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.database.ids import is_id, new_id
from ussd_server.gateways import ADAPTERS
from ussd_server.limits.limiter import Limiter
from ussd_server.limits.networks import network_of
from ussd_server.logs import logger
from ussd_server.messages.channels import AssignCode, ChannelOfCall, ChannelView, CodeView, CreateChannel
from ussd_server.models.clients import Client
from ussd_server.models.ussd import Channel, Menu, ServiceCode
from ussd_server.security.credentials import Vault
from ussd_server.status import Code, ServiceError

log = logger(__name__)

# The proof that a screen fits counts twenty characters for a service code.
_SERVICE_CODE = re.compile(r"(?=.{3,20}\Z)\*[0-9]+(?:\*[0-9]+)*#")
_LONGEST_SECRET = 128
_OPTIONS = ("cumulative", "transliterates", "septets", "ucs2")


class ChannelService:
    """Lets phone companies in, each by a path of its own, and gives codes to clients."""

    def __init__(self, vault: Vault, limiter: Limiter, clock: Clock) -> None:
        self._vault = vault
        self._limiter = limiter
        self._clock = clock
        self._known: dict[bytes, ChannelOfCall] = {}
        self._has_loaded = False

    def create(self, request: CreateChannel, context: RequestContext) -> ChannelView:
        """Make a channel; its path is in the answer.

        INVALID_REQUEST for an adapter or a code that cannot be, NOT_FOUND for a client that does not exist.
        """
        context.require_operator()
        adapter = ADAPTERS.get(request.adapter)
        if adapter is None:
            raise ServiceError(Code.INVALID_REQUEST, f"adapter: Must be one of {', '.join(ADAPTERS)}.")
        codes = [service_code(code) for code in request.codes]
        if request.client_id is not None:
            _require_client(request.client_id)
        channel_id, secret = new_id(self._clock.now()), secrets.token_urlsafe(32)
        row = Channel.create(
            id=channel_id,
            client_id=request.client_id,
            name=request.name or adapter.name,
            adapter=adapter.name,
            secret_digest=self._vault.path_digests(secret)[-1],
            secret_sealed=self._vault.seal(secret, request.client_id or "", channel_id),
            codes=codes or None,
            settings={option: getattr(request, option) for option in _OPTIONS},
            is_active=True,
            created_at=self._clock.now(),
        )
        return self._view(row)

    def list(self, context: RequestContext) -> tuple[ChannelView, ...]:
        """Every channel with its path, oldest first."""
        context.require_operator()
        return tuple(self._view(row) for row in Channel.select().order_by(Channel.id))

    def set_active(self, channel_id: str, is_active: bool, context: RequestContext) -> ChannelView:
        """Open or close a channel; a closed one answers like one that does not exist. NOT_FOUND for an unknown id."""
        context.require_operator()
        if not is_id(channel_id) or not Channel.update(is_active=is_active).where(Channel.id == channel_id).execute():
            raise ServiceError(Code.NOT_FOUND, "Channel not found")
        return self._view(Channel.get_by_id(channel_id))

    def recall(self, adapter: str, secret: str, address: str = "") -> ChannelOfCall:
        """As `identify`, but from memory where the channel is known: for callers that check whether it is open.

        Apart from being opened and closed, a channel never changes. An `address` with too many wrong paths gets
        NOT_FOUND for every path that this process does not know, and costs the database nothing.
        """
        channel = self._from_memory(adapter, secret)
        if channel is None and not self._has_loaded:
            # So a flood of wrong paths keeps no channel of its address away from a process that just began.
            self._load()
            channel = self._from_memory(adapter, secret)
        if channel is not None:
            return channel
        network = network_of(address)
        if not self._limiter.peek("wrong-path", network).accepted:
            log.warning("a gateway path was not looked up: its address called too many wrong ones")
            raise ServiceError(Code.NOT_FOUND, "Not found")
        try:
            return self.identify(adapter, secret)
        except ServiceError:
            self._limiter.hit("wrong-path", network)
            raise

    def identify(self, adapter: str, secret: str) -> ChannelOfCall:
        """The channel whose path a call came by. NOT_FOUND for a wrong secret, a closed channel or another adapter.

        The secret is looked up by its keyed digest, so that the time it takes says nothing about the secret.
        """
        row = (
            Channel.select()
            .where(Channel.secret_digest.in_(self._vault.path_digests(secret)), Channel.is_active)
            .first()
            if adapter in ADAPTERS and len(secret) <= _LONGEST_SECRET
            else None
        )
        if row is None or row.adapter != ADAPTERS[adapter].name:
            raise ServiceError(Code.NOT_FOUND, "Not found")
        return self._remember(row)

    def codes_served(self, client_id: str | None) -> tuple[str, ...]:
        """The codes behind a channel that lists none: a client's, or everybody's for None."""
        codes = ServiceCode.select(ServiceCode.code).order_by(ServiceCode.code)
        return tuple(row.code for row in (codes.where(ServiceCode.client_id == client_id) if client_id else codes))

    def assign_code(self, request: AssignCode, context: RequestContext) -> CodeView:
        """Give a code to a client; again for the same client changes nothing.

        INVALID_REQUEST when it is somebody else's or not a code, NOT_FOUND for a client that does not exist.
        """
        context.require_operator()
        code = service_code(request.service_code)
        _require_client(request.client_id)
        given = {"code": code, "client_id": request.client_id, "menu_id": None, "created_at": self._clock.now()}
        ServiceCode.insert(given).on_conflict_ignore().execute()
        row = ServiceCode.get(ServiceCode.code == code)
        if row.client_id != request.client_id:
            raise ServiceError(Code.INVALID_REQUEST, "service_code: Belongs to another client.")
        return view_of_code(row)

    def _load(self) -> None:
        for row in Channel.select().where(Channel.is_active):
            self._remember(row)
        self._has_loaded = True

    def _from_memory(self, adapter: str, secret: str) -> ChannelOfCall | None:
        gateway = ADAPTERS.get(adapter)
        found = (self._known.get(digest) for digest in reversed(self._vault.path_digests(secret)))
        channel = next(filter(None, found), None)
        return channel if channel is not None and gateway is not None and channel.adapter == gateway.name else None

    def _remember(self, row: Channel) -> ChannelOfCall:
        channel = ChannelOfCall(row.id, row.client_id, row.adapter, tuple(row.codes or ()), **row.settings)
        self._known[bytes(row.secret_digest)] = channel
        return channel

    def _view(self, row: Channel) -> ChannelView:
        secret = self._vault.open(row.secret_sealed, row.client_id or "", row.id)
        return ChannelView(
            channel_id=row.id,
            client_id=row.client_id,
            name=row.name,
            adapter=row.adapter,
            codes=tuple(row.codes or ()),
            is_active=row.is_active,
            gateway_path=f"/ussd/{row.adapter}/{secret}",
            created_at=row.created_at,
        )


def service_code(text: str) -> str:
    """A service code as it is kept, `*384*123#`; the closing hash may be left out. INVALID_REQUEST for what is none."""
    code = text if text.endswith("#") else f"{text}#"
    if not _SERVICE_CODE.fullmatch(code):
        raise ServiceError(Code.INVALID_REQUEST, "service_code: Must be a code such as *384*123#.")
    return code


def view_of_code(row: ServiceCode) -> CodeView:
    """A service code with the name of the menu that answers."""
    menu = Menu.get_or_none(Menu.id == row.menu_id) if row.menu_id else None
    return CodeView(row.code, row.client_id, menu.name if menu else None, row.created_at)


def _require_client(client_id: str) -> None:
    if not Client.select(Client.id).where(Client.id == client_id).exists():
        raise ServiceError(Code.NOT_FOUND, "Client not found")
