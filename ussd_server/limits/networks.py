"""The network of an address, and the networks from which an API key may be used."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_LONGEST_WRITTEN = 50


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


def read_network(written: str) -> Network:
    """The network that a text such as `192.0.2.1`, `192.0.2.0/24` or `2001:db8::/32` names. ValueError for any other.

    An IPv6 form of IPv4 addresses becomes IPv4, as the addresses of callers do.
    """
    if len(written) > _LONGEST_WRITTEN or "%" in written:
        raise ValueError("not a network")
    network = ipaddress.ip_network(written)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        base = int(network.network_address) & 0xFFFFFFFF
        return ipaddress.IPv4Network((base, network.prefixlen - _MAPPED.prefixlen))
    return network


def written_network(network: Network) -> str:
    """A network as text; one of a single address without its length."""
    return str(network.network_address if network.prefixlen == network.max_prefixlen else network)


def is_within(address: str, networks: Iterable[Network]) -> bool:
    """Whether an address is in one of the networks; False for what is no address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(parsed in network for network in networks)
