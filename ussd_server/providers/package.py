"""The declarations in the folder of a provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from ussd_server.outbound.transport import Transport
from ussd_server.providers.http.shared_tokens import SharedTokens
from ussd_server.providers.known_replies import KnownReplies
from ussd_server.providers.messages import Direction, PollingSchedule, Provider
from ussd_server.providers.settings import SettingsReader
from ussd_server.providers.statement_format import StatementFormat

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """How a provider is reached; each provider adds its own fields.

    A payment outside `least_shillings` to `most_shillings` is refused before it is sent;
    the API itself takes amounts below 1,000,000.
    `callback_url` is where the provider may report a payment, None without a public address of ours.
    `connection` is its name in the settings, empty for that of the provider, `account` that of the account there, empty
    for the connection's. One that is `draining` takes no new payments and finishes its own. `proxy` is the one through
    which it is called, None for none.
    `shared_tokens` are the access tokens of all processes, None for a process with tokens of its own.
    """

    base_url: str
    schedule: PollingSchedule = field(kw_only=True)
    currency: str = field(default="UGX", kw_only=True)
    callback_url: str | None = field(default=None, kw_only=True)
    shared_tokens: SharedTokens | None = field(default=None, repr=False, compare=False, kw_only=True)
    least_shillings: int = field(default=500, kw_only=True)
    most_shillings: int = field(default=5_000_000, kw_only=True)
    kind: str = field(default="", kw_only=True)
    connection: str = field(default="", kw_only=True)
    account: str = field(default="", kw_only=True)
    draining: bool = field(default=False, kw_only=True)
    proxy: str | None = field(default=None, repr=False, kw_only=True)

    def place(self, direction: Direction) -> str:
        """Where payments of a direction go: the address, the environment and the user, of all that tell accounts apart.

        It is kept with each payment that was sent. A new key or password of the same user is the same place.
        """
        parts = urlsplit(self.base_url)
        port = parts.port or _PORTS[parts.scheme]
        address = f"{parts.scheme}://{parts.hostname}:{port}{parts.path.rstrip('/')}"
        return " ".join([address, *self.identity(direction)])

    def identity(self, direction: Direction) -> tuple[str, ...]:
        """The environment and the user with which payments of a direction are sent."""
        return ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that are never shown: those that `repr` leaves out, here and in the parts."""
        return tuple(_secrets_in(self))


def _secrets_in(part: Any) -> Iterator[str]:
    for each in fields(part):
        value = getattr(part, each.name)
        if isinstance(value, str) and value and not each.repr:
            yield value
        elif is_dataclass(value):
            yield from _secrets_in(value)


@dataclass(frozen=True, slots=True)
class ProviderPackage:
    """One provider.

    `name` is used in the API, and in capitals in the settings (`USSD_MTN_BASE_URL`). `title` is its full name for
    people, `short_name` what sentences call it.
    `number_prefixes` are the blocks of the national numbering plan, after +256.
    `read_settings` reads the settings of a provider that is switched on. None: the provider needs no settings and is
    switched on where `USSD_ENV` is sandbox.
    `statement` is how it writes its statements, None where these cannot be reconciled.
    `gives_two_receipts`: the message to the subscriber may have another receipt than the provider's answers.
    `known_replies` reads the fields and codes of its replies that `ussd-server providers try` does not report as new.
    `build` makes the adapter from the access (None without settings), a connection pool and the clock (UTC).
    """

    name: str
    title: str
    short_name: str
    build: Callable[[Any, Transport, Callable[[], datetime]], Provider]
    read_settings: Callable[[SettingsReader], ProviderAccess] | None = None
    number_prefixes: tuple[str, ...] = ()
    statement: StatementFormat | None = None
    gives_two_receipts: bool = False
    known_replies: Callable[[], KnownReplies] = KnownReplies
