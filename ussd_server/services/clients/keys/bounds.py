"""The bounds of an API key: scopes, expiry, addresses, daily limit. Only the role that set a bound, or a higher one,
may widen or remove it: operators are above owners and admins, these above developers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ussd_server.context import NOT_PERMITTED
from ussd_server.limits.networks import Network, read_network
from ussd_server.models.keys import ApiKey
from ussd_server.services.clients.keys.messages import expanded
from ussd_server.services.roles import is_below
from ussd_server.status import Code, ServiceError

_BOUNDS = ("scopes", "expires_at", "allowed_addresses", "daily_limit_cents")


def setters_of(columns: Mapping[str, Any], role: str) -> dict[str, str]:
    """The column `bounds_set_by` of a new key: each of its bounds, with the role of its maker."""
    return {name: role for name in _BOUNDS if columns.get(name) is not None}


def setters_after(row: ApiKey, changed: Mapping[str, Any], role: str) -> dict[str, str]:
    """`bounds_set_by` after a change by this role. A bound that a lower role narrows further keeps its setter."""
    setters = {name: _setter(row, name) for name in _BOUNDS if getattr(row, name) is not None}
    for name in setters_of(changed, role):
        if name not in setters or is_below(setters[name], role):
            setters[name] = role
    return {name: setter for name, setter in setters.items() if changed.get(name, True) is not None}


def require_no_lifted_bound(row: ApiKey, changed: Mapping[str, Any], role: str) -> None:
    """Raise INSUFFICIENT_SCOPE for a change that widens a bound which a role above this one has set."""
    for name in _BOUNDS:
        is_lifted = name in changed and _is_lifted(name, getattr(row, name), changed[name])
        if is_lifted and is_below(role, _setter(row, name)):
            raise ServiceError(Code.INSUFFICIENT_SCOPE, NOT_PERMITTED)


def _setter(row: ApiKey, name: str) -> str:
    return str(row.bounds_set_by[name])


def _is_lifted(name: str, old: Any, new: Any) -> bool:
    if name == "scopes":
        return not expanded(new) <= expanded(old)
    if old is None:
        return False
    if new is None:
        return True
    if name == "allowed_addresses":
        old_networks = _networks(old)
        return not all(any(_is_part(network, each) for each in old_networks) for network in _networks(new))
    return bool(new > old)


def _networks(addresses: str) -> list[Network]:
    return [read_network(each) for each in addresses.split()]


def _is_part(network: Network, other: Network) -> bool:
    return network.version == other.version and network.subnet_of(other)  # type: ignore[arg-type]
