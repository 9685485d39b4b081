"""Decides whether a client's address may be called. Refuses every spelling of an address in our own network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

_URL_MAX_CHARACTERS = 2048
_PRINTABLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")  # ASCII without space, control characters and the backslash
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_HOST_MAX_CHARACTERS = 253

# Names of local machines (RFC 6761, RFC 6762, RFC 8375 and the ICANN reserve).
_INSIDE_SUFFIXES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
)

_PRIVATE_V4 = tuple(map(IPv4Network, ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_PRIVATE_V6 = tuple(map(IPv6Network, ("::1/128", "fc00::/7")))
_LOOPBACK_NAME = "localhost"

# IANA's special-purpose registries, and the metadata services that hide in public or private ranges. They stay
# refused when private addresses are allowed: no developer serves a webhook from any of them.
_REFUSED_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata service
            "168.63.129.16/32",  # a cloud's host agent, in a public range
            "169.254.0.0/16",  # link local, and most metadata services
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_REFUSED_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # Teredo, ORCHID, benchmarks and other protocol assignments
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which carries an IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
            "fd00:ec2::/32",  # a cloud's metadata service
        ),
    )
)
# All other IPv6 addresses are refused, because they are not in this list: IPv4-mapped and IPv4-compatible, NAT64
# (64:ff9b::/96 and 64:ff9b:1::/48), link and site local, multicast, discard and future assignments.
_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")


class AddressRefusedError(ValueError):
    """The address may not be called; the message is a sentence for the client."""


@dataclass(frozen=True, slots=True)
class Target:
    """A client's URL, parsed once, so that the checked URL is the one that is called.

    `host` is lower-case ASCII, an IPv6 address without its brackets; `path` begins with a slash and carries the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, parts: SplitResult) -> Target:
        """The target of a URL that was split. Raises ValueError for a wrong port."""
        return cls(
            scheme=parts.scheme,
            host=(parts.hostname or "").lower(),
            port=_usual_port(parts.scheme) if parts.port is None else parts.port,
            path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        )

    @property
    def has_usual_port(self) -> bool:
        """Return whether the port is the one of its scheme."""
        return self.port == _usual_port(self.scheme)


def _usual_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """The rules for addresses that clients choose.

    `plain_http` lets addresses begin with http://, and `allow_loopback` lets addresses of this machine be reached: for
    the sandbox. `allow_private` does both, and lets private and unique local addresses be reached: for development.
    """

    allow_private: bool = False
    plain_http: bool = False
    allow_loopback: bool = False

    @property
    def takes_plain_http(self) -> bool:
        """Return whether an address may begin with http://."""
        return self.plain_http or self.allow_private

    def check_url(self, url: str) -> Target:
        """Parse a URL. Resolves no name. Raises AddressRefusedError."""
        if not 0 < len(url) <= _URL_MAX_CHARACTERS or not _PRINTABLE.fullmatch(url):
            raise AddressRefusedError("The address must be at most 2048 printable ASCII characters")
        try:
            parts = urlsplit(url)
            target = Target.of(parts)
        except ValueError:
            raise AddressRefusedError("The address is not a valid URL") from None
        if parts.scheme != "https" and not (self.takes_plain_http and parts.scheme == "http"):
            raise AddressRefusedError("The address must begin with https://")
        if "@" in parts.netloc:
            raise AddressRefusedError("The address must not carry a user name or password")
        if "#" in url:
            raise AddressRefusedError("The address must not carry a fragment")
        self._check_port(target)
        self._check_host(target.host, bracketed="[" in parts.netloc)
        return target

    def check_addresses(self, addresses: Sequence[str]) -> None:
        """Raise `AddressRefusedError` unless every address a name resolved to may be reached.

        One forbidden address refuses the name, because we do not choose which address a connection takes.
        """
        if not addresses:
            raise AddressRefusedError("The address does not lead anywhere")
        for text in addresses:
            if not self._may_reach(ip_address(text)):
                is_private = replace(self, allow_private=True)._may_reach(ip_address(text))
                raise AddressRefusedError(
                    f"The address leads to a network that may not be called{self._way_out if is_private else ''}"
                )

    @property
    def _way_out(self) -> str:
        """How a developer reaches private addresses in the sandbox; nothing in production."""
        return "; in the sandbox, USSD_ALLOW_PRIVATE_ADDRESSES=1 allows it" if self.plain_http else ""

    def _check_port(self, target: Target) -> None:
        """Mail, shells, name servers and the like live below 1024 and are no webhooks."""
        if not target.has_usual_port and target.port < 1024:
            raise AddressRefusedError("The port must be the usual one or at least 1024")

    def _check_host(self, host: str, bracketed: bool) -> None:
        if bracketed:
            self._check_literal(host, IPv6Address)
            return
        labels = host.split(".")
        if len(host) > _HOST_MAX_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
            raise AddressRefusedError("The host is not a valid name")
        if _NUMBER_LABEL.fullmatch(labels[-1]):
            # The system's resolver reads 2130706433, 0x7f.1 and 017700000001 as 127.0.0.1; only plain quads pass.
            self._check_literal(host, IPv4Address)
        elif host == _LOOPBACK_NAME and self.allow_loopback:
            return
        elif not self.allow_private and (len(labels) == 1 or host.endswith(tuple(f".{s}" for s in _INSIDE_SUFFIXES))):
            raise AddressRefusedError(f"The host must be a public name{self._way_out}")

    def _check_literal(self, host: str, kind: type[IPv4Address | IPv6Address]) -> None:
        if "%" in host:
            raise AddressRefusedError("The host must not name a zone")
        try:
            address = kind(host)
        except ValueError:
            raise AddressRefusedError("The host is not a valid address") from None
        self.check_addresses([str(address)])

    def _may_reach(self, address: IPv4Address | IPv6Address) -> bool:
        if isinstance(address, IPv4Address):
            if any(address in network for network in _REFUSED_V4):
                return False
            private = any(address in network for network in _PRIVATE_V4)
            return self._may_reach_private(address) if private else address.is_global
        if any(address in network for network in _REFUSED_V6):
            return False
        private = any(address in network for network in _PRIVATE_V6)
        return self._may_reach_private(address) if private else address in _GLOBAL_UNICAST_V6 and address.is_global

    def _may_reach_private(self, address: IPv4Address | IPv6Address) -> bool:
        return self.allow_private or (self.allow_loopback and address.is_loopback)
