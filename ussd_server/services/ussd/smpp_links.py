"""Links to operators by SMPP: their settings, and the state of each bind."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.ussd import Channel, SmppBind, SmppLink
from ussd_server.services.operations.messages import Measure
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.messages import SmppBindView, SmppOptions
from ussd_server.smpp.bind import BindState
from ussd_server.smpp.dialects import read_dialect
from ussd_server.status import Code, ServiceError

_PORTS = {"smpp": 2775, "smpps": 3550}
_LONGEST_SYSTEM_ID, _LONGEST_PASSWORD, _LONGEST_AUTHORITY = 15, 64, 65_536
_MOST_BINDS, _LARGEST_WINDOW = 16, 1000
# A process writes the state of its binds every two seconds, and the others delete what a dead one left.
SILENT = timedelta(seconds=20)
_KEPT = timedelta(minutes=5)
_DROP_OFFS = "drop_offs"


@dataclass(frozen=True, slots=True)
class OpenLink:
    """An active channel of SMPP, ready to bind. `path_secret` leads its steps to the channel."""

    channel_id: str
    host: str
    port: int
    has_tls: bool
    authority: str | None
    system_id: str
    password: str = field(repr=False)
    path_secret: str = field(repr=False)
    dialect: str
    binds: int
    window: int


@dataclass(frozen=True, slots=True)
class BindReport:
    """The state of one bind of this process. `counts` count since its start."""

    channel_id: str
    number: int
    state: str
    reason: str
    since: datetime
    counts: Mapping[str, int]


class SmppLinks:
    """Reads the links for `ussd-server smpp`, and keeps what it reports on its binds."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault, self._leases = runtime.clock, runtime.vault, runtime.leases
        self._drop_offs = runtime.drop_offs

    def open_links(self) -> tuple[OpenLink, ...]:
        """Return the links of all active channels, oldest first."""
        links = {row.id: row for row in SmppLink.select()}
        channels = Channel.select().where(Channel.is_active, Channel.adapter == "smpp").order_by(Channel.id)
        return tuple(self._open(channel, links[channel.id]) for channel in channels if channel.id in links)

    def report(self, binds: Sequence[BindReport]) -> None:
        """Write the state of all binds of this process, the first with its drop-offs; delete those of dead ones."""
        now, process = self._clock.now(), self._leases.worker_id
        ids = [f"{process}/{bind.channel_id}/{bind.number}" for bind in binds]
        with unit_of_work():
            SmppBind.delete().where((SmppBind.process == process) & SmppBind.id.not_in(ids)).execute()
            SmppBind.delete().where(SmppBind.seen_at < now - _KEPT).execute()
            drop_offs: dict[str, object] = {_DROP_OFFS: [[*step, count] for step, count in self._drop_offs.counts()]}
            for name, bind in zip(ids, binds, strict=True):
                state = {"state": bind.state, "reason": bind.reason, "since": bind.since}
                state |= {"seen_at": now, "counts": drop_offs | dict(bind.counts)}
                drop_offs = {}
                SmppBind.insert(
                    id=name, channel_id=bind.channel_id, process=process, number=bind.number, **state
                ).on_conflict(conflict_target=[SmppBind.id], update=state).execute()

    def states(self) -> dict[str, tuple[SmppBindView, ...]]:
        """Return the binds by channel id, those of a process that died as silent for five minutes."""
        views = dict[str, tuple[SmppBindView, ...]]()
        for row in SmppBind.select().order_by(SmppBind.process, SmppBind.number):
            view = SmppBindView(
                row.channel_id, row.process, row.number, self._state(row), row.reason, row.since, row.seen_at
            )
            views[row.channel_id] = (*views.get(row.channel_id, ()), view)
        return views

    def measures(self) -> Iterator[Measure]:
        """Yield the state and the counts of every bind, and for each active channel how many are up."""
        bound = dict.fromkeys((row.id for row in Channel.select().where(_IS_OPEN)), 0)
        for row in SmppBind.select():
            is_bound = self._state(row) == BindState.BOUND
            labels = {"channel": row.channel_id, "process": row.process, "bind": str(row.number)}
            yield Measure("ussd_smpp_bind_up", "1 while a bind to an operator is up.", float(is_bound), labels)
            for *step, count in row.counts.pop(_DROP_OFFS, ()):
                of_menu_step = dict(zip(("code", "menu", "node", "end_reason"), step, strict=True))
                meaning = "Conversations over SMPP that phones broke off."
                yield Measure(
                    "ussd_smpp_sessions_dropped_total", meaning, count, {"process": row.process} | of_menu_step
                )
            for name, count in sorted(row.counts.items()):
                of_kind = labels | {"kind": name}
                yield Measure("ussd_smpp_pdus_total", "What passed a bind, by kind.", count, of_kind)
            if row.channel_id in bound:
                bound[row.channel_id] += is_bound
        for channel_id, number in bound.items():
            yield Measure("ussd_smpp_binds", "Binds of an open channel that are up.", number, {"channel": channel_id})

    def _state(self, row: SmppBind) -> str:
        return "silent" if self._clock.now() - row.seen_at > SILENT else str(row.state)

    def _open(self, channel: Channel, link: SmppLink) -> OpenLink:
        host, port, has_tls = _place(link.url)
        return OpenLink(
            channel_id=channel.id,
            host=host,
            port=port,
            has_tls=has_tls,
            authority=link.authority,
            system_id=link.system_id,
            password=self._vault.decrypt(link.password_sealed, "", link.id),
            path_secret=self._vault.decrypt(channel.secret_sealed, channel.client_id or "", channel.id),
            dialect=link.dialect,
            binds=link.binds,
            window=link.submit_window,
        )


_IS_OPEN = Channel.is_active & (Channel.adapter == "smpp")


def check_options(options: SmppOptions) -> None:
    """Raise INVALID_REQUEST with the field and its fault unless a link can be made of these options."""
    _place(options.url)
    _require_text("system_id", options.system_id, _LONGEST_SYSTEM_ID)
    _require_text("password", options.password, _LONGEST_PASSWORD)
    if not 1 <= options.binds <= _MOST_BINDS:
        raise _refusal("binds", f"Must be 1 to {_MOST_BINDS}.")
    if not 1 <= options.window <= _LARGEST_WINDOW:
        raise _refusal("window", f"Must be 1 to {_LARGEST_WINDOW}.")
    try:
        read_dialect(options.dialect)
    except ValueError as why:
        raise _refusal("dialect", str(why)) from None
    if options.authority is not None:
        _require_authority(options)


def _require_text(name: str, value: str, longest: int) -> None:
    if not (1 <= len(value) <= longest and value.isascii() and value.isprintable()):
        raise _refusal(name, f"Must be 1 to {longest} printable ASCII characters.")


def _require_authority(options: SmppOptions) -> None:
    authority = options.authority or ""
    if not _place(options.url)[2]:
        raise _refusal("ca", "Only smpps:// has a certificate.")
    if len(authority) > _LONGEST_AUTHORITY:
        raise _refusal("ca", "The file is too long.")
    try:
        ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise _refusal("ca", "The file holds no certificate in PEM.") from None


def _place(url: str) -> tuple[str, int, bool]:
    """Return the host, the port and whether TLS is used. Raises INVALID_REQUEST for anything else in the URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        host = port = None
    if not host or not port or not url.isascii() or url.lower() not in _forms(parts.scheme, parts.netloc):
        raise _refusal("url", "Must be smpp://HOST:PORT or smpps://HOST:PORT.")
    return host, port, parts.scheme == "smpps"


def _forms(scheme: str, netloc: str) -> tuple[str, ...]:
    if scheme not in _PORTS or "@" in netloc:
        return ()
    return f"{scheme}://{netloc}".lower(), f"{scheme}://{netloc}/".lower()


def _refusal(field_name: str, why: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, f"{field_name}: {why}")


def link_columns(options: SmppOptions, sealed_password: bytes) -> dict[str, object]:
    """Return the columns of a link without its id."""
    return {
        "url": options.url,
        "system_id": options.system_id,
        "password_sealed": sealed_password,
        "dialect": options.dialect,
        "binds": options.binds,
        "submit_window": options.window,
        "authority": options.authority,
    }
