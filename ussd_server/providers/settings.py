"""Reads the settings of one provider, and collects everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import urlsplit

from environs import Env, validate

from ussd_server.providers.messages import PollingSchedule

_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_LONGEST_DELAY_SECONDS = 86_400


class SettingsReader:
    """Reads `USSD_<CONNECTION>_<NAME>`; `problems` holds one sentence for each setting that cannot be used."""

    def __init__(self, env: Env, connection: str, names: Collection[str], *, in_production: bool) -> None:
        """`env` has the prefix `USSD_`; `names` are those of the connection's settings that are set, without it."""
        self.in_production = in_production
        self.problems: list[str] = []
        self._env = env
        self._prefix = prefix_of(connection)
        self._names = names

    def text(self, name: str, otherwise: str = "") -> str:
        """The text of a setting, `otherwise` when it is not set."""
        given = self._env.str(self._prefix + name, otherwise)
        return given.strip() if given and self._is_set(name) else otherwise

    def required(self, name: str) -> str:
        """The text of a setting without which the provider cannot be called."""
        if not self._is_set(name):
            self.refuse(name, "is missing, and the provider is switched on by its other settings")
        return self.text(name)

    def _is_set(self, name: str) -> bool:
        """Whether the setting is set, and belongs to no connection of a longer name."""
        return self._prefix + name in self._names

    def choice(self, name: str, *values: str) -> str:
        """One of several texts, the first when the setting is not set."""
        allowed = [validate.OneOf(values)] if self._is_set(name) else []
        given = self._env.str(self._prefix + name, values[0], validate=allowed)
        return str(given) if self._is_set(name) else values[0]

    def base_url(self) -> str:
        """The address in BASE_URL; production takes https alone."""
        address = self.required("BASE_URL")
        if address:
            self.problems += problems_of_address(f"{self._prefix}BASE_URL", address, https_only=self.in_production)
        return address

    def proxy(self) -> str | None:
        """The proxy in PROXY, else the one of all providers in USSD_PROVIDER_PROXY; None for neither."""
        own = self.text("PROXY")
        address = own or (self._env.str("PROVIDER_PROXY", "") or "").strip()
        if address and not is_proxy(address):
            name = f"USSD_{self._prefix}PROXY" if own else "USSD_PROVIDER_PROXY"
            self.problems.append(f"{name}: must be an address such as http://USER:PASSWORD@proxy.example.com:3128")
        return address or None

    def schedule(self, usual: PollingSchedule) -> PollingSchedule:
        """The usual schedule, with the delays in ENQUIRY_SECONDS when they are set."""
        parts = [part.strip() for part in self.text("ENQUIRY_SECONDS").split(",") if part.strip()]
        delays = tuple(float(part) if _NUMBER.fullmatch(part) else 0.0 for part in parts)
        if not all(0 < delay <= _LONGEST_DELAY_SECONDS for delay in delays):
            self.refuse(
                "ENQUIRY_SECONDS", "must be seconds from above 0 to 86400, separated by commas, such as 5,10,60"
            )
        return replace(usual, delays=delays) if delays else usual

    def refuse(self, name: str, sentence: str) -> None:
        self.problems.append(f"USSD_{self._prefix}{name}: {sentence}")


def prefix_of(connection: str) -> str:
    """What begins the names of a connection's settings, after `USSD_`: `MTN_OLD_` for `mtn-old`."""
    return f"{connection.upper().replace('-', '_')}_"


def is_proxy(address: str) -> bool:
    """Whether it is the address of a proxy: http, a host, a port and perhaps a login."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and bool(parts.hostname) and bool(parts.port) and parts.path in ("", "/")
    except ValueError:
        return False


def problems_of_address(name: str, address: str, *, https_only: bool = False) -> list[str]:
    """The error in the address of a server, which has a scheme, a host, and optionally a port and a path."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or "@" in address or "?" in address or "#" in address:
        return [f"USSD_{name}: must be an address such as https://api.example.com"]
    if https_only and parts.scheme != "https":
        return [f"USSD_{name}: production needs an address that begins with https://"]
    return []
