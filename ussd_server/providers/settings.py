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
        if self._prefix + name not in self._names:
            return otherwise
        return (self._env.str(self._prefix + name, otherwise) or otherwise).strip()

    def required(self, name: str) -> str:
        """The text of a setting without which the provider cannot be called."""
        if self._prefix + name not in self._names:
            self.refuse(name, "is missing, and the provider is switched on by its other settings")
        return self.text(name)

    def choice(self, name: str, *values: str) -> str:
        """One of several texts, the first when the setting is not set."""
        if self._prefix + name not in self._names:
            return values[0]
        return str(self._env.str(self._prefix + name, values[0], validate=validate.OneOf(values)))

    def base_url(self) -> str:
        """The address in BASE_URL; production takes https alone."""
        address = self.required("BASE_URL")
        if address:
            self.problems += problems_of_address(f"{self._prefix}BASE_URL", address, https_only=self.in_production)
        return address

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
