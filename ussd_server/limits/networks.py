"""The network of an address."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=10_000)
def network_of(address: str) -> str:
    """The network whose failures are counted together: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed), 64), strict=False))
