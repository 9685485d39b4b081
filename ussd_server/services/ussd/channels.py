"""Channels of gateways, and service codes: the operator creates them, every step looks up its channel."""

from __future__ import annotations

import secrets
from dataclasses import replace

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.gateways import ADAPTERS
from ussd_server.limits.networks import network_of
from ussd_server.logs import Logger
from ussd_server.menus.engine.navigator import DisplayOptions
from ussd_server.models.clients import Client
from ussd_server.models.ussd import Channel, ServiceCode, SmppLink
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.menus.menus import service_code, view_of_code
from ussd_server.services.menus.messages import AssignCode, CodeView
from ussd_server.services.pages import find_by_id, require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.messages import CachedChannel, ChannelView, CreateChannel
from ussd_server.services.ussd.smpp_links import SmppLinks, check_options, link_columns
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import view_of_row

log = Logger(__name__)

_LONGEST_SECRET = 128
_SMPP = "smpp"
# Of another table, which `list` alone reads.
_OF_SMPP = {"smpp_url": None, "binds": ()}
_OPTIONS = ("cumulative", "transliterates", "septets", "ucs2")


class ChannelService:
    """Gives every channel a secret path, and service codes to clients."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._limiter, self._vault = runtime.clock, runtime.limiter, runtime.vault
        self._links = SmppLinks(runtime)
        self._cache: dict[bytes, CachedChannel] = {}
        self._has_loaded = False

    def adapters(self) -> tuple[str, ...]:
        """Return the formats of gateways that send steps to a path."""
        return tuple(sorted(ADAPTERS.keys() - {_SMPP}))

    def create(self, request: CreateChannel, context: RequestContext) -> ChannelView:
        """Create a channel; returns it with its path, which a channel of SMPP lacks.

        Raises INVALID_REQUEST for an unknown adapter, a malformed code or option, NOT_FOUND for an unknown client.
        """
        context.require_operator()
        adapter = ADAPTERS.get(request.adapter)
        if adapter is None:
            raise ServiceError(Code.INVALID_REQUEST, f"adapter: Must be one of {', '.join(ADAPTERS)}.")
        if (adapter.name == _SMPP) != (request.smpp is not None):
            raise ServiceError(Code.INVALID_REQUEST, "adapter: smpp needs url, system_id and password; no other does.")
        if request.smpp is not None:
            check_options(request.smpp)
        codes = [service_code(code) for code in request.codes]
        if request.client_id is not None:
            require_row(Client.get_or_none(Client.id == request.client_id), "Client")
        now = self._clock.now()
        channel_id, secret = new_id(now), secrets.token_urlsafe(32)
        row = Channel(
            id=channel_id,
            client_id=request.client_id,
            name=request.name or adapter.name,
            adapter=adapter.name,
            secret_digest=self._vault.path_digests(secret)[-1],
            secret_sealed=self._vault.encrypt(secret, request.client_id or "", channel_id),
            codes=codes or None,
            settings={option: getattr(request, option) for option in _OPTIONS},
            is_active=True,
            created_at=now,
        )
        with unit_of_work():
            row.save(force_insert=True)
            if request.smpp is not None:
                sealed = self._vault.encrypt(request.smpp.password, "", channel_id)
                SmppLink.create(id=channel_id, **link_columns(request.smpp, sealed))
            write_audit_event("channel.created", context, now, client_id=row.client_id, object_id=row.id)
        return replace(self._view(row), smpp_url=request.smpp.url if request.smpp else None)

    def list(self, context: RequestContext) -> tuple[ChannelView, ...]:
        """Return every channel with its path or its binds, oldest first."""
        context.require_operator()
        urls = {row.id: row.url for row in SmppLink.select(SmppLink.id, SmppLink.url)}
        binds = self._links.states() if urls else {}
        channels = (self._view(row) for row in Channel.select().order_by(Channel.id))
        return tuple(
            replace(view, smpp_url=urls.get(view.channel_id), binds=binds.get(view.channel_id, ())) for view in channels
        )

    def set_active(self, channel_id: str, is_active: bool, context: RequestContext) -> ChannelView:
        """Open or close a channel. A closed channel answers like a missing one. Raises NOT_FOUND for an unknown id."""
        context.require_operator()
        with unit_of_work():
            row = _require_channel(channel_id)
            row.change(is_active=is_active)
            action = "channel.opened" if is_active else "channel.closed"
            write_audit_event(action, context, self._clock.now(), client_id=row.client_id, object_id=row.id)
        return self._view(row)

    def reveal(self, channel_id: str, context: RequestContext) -> ChannelView:
        """Return one channel with its path, and add that to the audit trail. Raises NOT_FOUND for an unknown id."""
        context.require_operator()
        row = _require_channel(channel_id)
        write_audit_event("channel.revealed", context, self._clock.now(), client_id=row.client_id, object_id=row.id)
        return self._view(row)

    def find_cached(self, adapter: str, secret: str, address: str = "") -> CachedChannel:
        """Find a channel as `find` does, from the cache if possible. The caller checks whether it has been closed.

        Nothing else of a channel changes. An `address` with too many wrong paths gets NOT_FOUND for every path that is
        not in the cache, without a query.
        """
        channel = self._from_cache(adapter, secret)
        if channel is None and not self._has_loaded:
            # Cache all channels first: a new process must not refuse a known path because of its address.
            self._load()
            channel = self._from_cache(adapter, secret)
        if channel is not None:
            return channel
        network = network_of(address)
        if not self._limiter.peek("wrong-path", network).accepted:
            log.warning("a gateway path was not looked up: its address called too many wrong ones")
            raise ServiceError(Code.NOT_FOUND, "Not found")
        try:
            return self.find(adapter, secret)
        except ServiceError:
            self._limiter.hit("wrong-path", network)
            raise

    def find(self, adapter: str, secret: str) -> CachedChannel:
        """Return the active channel of a path. Raises NOT_FOUND for a wrong secret, a closed channel, another adapter.

        Looks the secret up by its HMAC, so that the time of the query reveals nothing about the secret.
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
        return self._keep(row)

    def find_serving(self, code: str, client_id: str) -> tuple[CachedChannel, str] | None:
        """Return an open channel that carries a code of a client, and the secret of its path; None without one.

        A channel of the client goes before one that serves all clients.
        """
        rows = Channel.select().where(Channel.is_active, (Channel.client_id == client_id) | Channel.client_id.is_null())
        serving = sorted((row for row in rows if not row.codes or code in row.codes), key=lambda row: not row.client_id)
        if not serving:
            return None
        row = serving[0]
        return self._keep(row), self._vault.decrypt(row.secret_sealed, row.client_id or "", row.id)

    def codes_served(self, client_id: str | None) -> tuple[str, ...]:
        """Return the codes of a channel that lists none: those of one client, or all codes for None."""
        codes = ServiceCode.select(ServiceCode.code).order_by(ServiceCode.code)
        return tuple(row.code for row in (codes.where(ServiceCode.client_id == client_id) if client_id else codes))

    def assign_code(self, request: AssignCode, context: RequestContext) -> CodeView:
        """Give a code to a client. Repeating it changes nothing.

        Raises INVALID_REQUEST for a malformed code or another client's, NOT_FOUND for an unknown client.
        """
        context.require_operator()
        code = service_code(request.service_code)
        require_row(Client.get_or_none(Client.id == request.client_id), "Client")
        now = self._clock.now()
        values = {"code": code, "client_id": request.client_id, "menu_id": None, "created_at": now}
        with unit_of_work():
            ServiceCode.insert(values).on_conflict_ignore().execute()
            row = ServiceCode.get(ServiceCode.code == code)
            if row.client_id != request.client_id:
                raise ServiceError(Code.INVALID_REQUEST, "service_code: Belongs to another client.")
            write_audit_event("code.assigned", context, now, client_id=row.client_id, object_id=code)
        return view_of_code(row)

    def _load(self) -> None:
        for row in Channel.select().where(Channel.is_active):
            self._keep(row)
        self._has_loaded = True

    def _from_cache(self, adapter: str, secret: str) -> CachedChannel | None:
        gateway = ADAPTERS.get(adapter)
        channels = (self._cache.get(digest) for digest in reversed(self._vault.path_digests(secret)))
        channel = next(filter(None, channels), None)
        return channel if channel is not None and gateway is not None and channel.adapter == gateway.name else None

    def _keep(self, row: Channel) -> CachedChannel:
        codes, cumulative, display = tuple(row.codes or ()), row.settings["cumulative"], DisplayOptions.of(row.settings)
        channel = CachedChannel(row.id, row.client_id, row.adapter, codes, cumulative, display)
        self._cache[bytes(row.secret_digest)] = channel
        return channel

    def _view(self, row: Channel) -> ChannelView:
        secret = self._vault.decrypt(row.secret_sealed, row.client_id or "", row.id)
        path = "" if row.adapter == _SMPP else f"/ussd/{row.adapter}/{secret}"
        return view_of_row(
            ChannelView, row, channel_id=row.id, codes=tuple(row.codes or ()), gateway_path=path, **_OF_SMPP
        )


def _require_channel(channel_id: str) -> Channel:
    return find_by_id(Channel.select(), Channel, channel_id, "Channel")
