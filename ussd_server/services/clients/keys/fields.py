"""The fields of an API key: how their values are checked and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from ussd_server.limits.networks import read_network, written_network
from ussd_server.services.clients.keys.messages import KEY_NAME, SCOPES, UNCHANGED, CreateApiKey, UpdateApiKey
from ussd_server.status import Code, ServiceError

BAD_BODY = "Invalid request body"
_LONGEST_QUOTE = 40
_MOST_ADDRESSES = 20
_FIELDS = ("name", "scopes", "expires_at", "allowed_addresses", "daily_limit_cents")


def joined_scopes(scopes: Iterable[str]) -> str:
    """Scopes as they are stored: each once, in their order, with single spaces.

    Raises ValueError with the name of an unknown scope, or with a sentence for an unprintable one and for no scope.
    """
    unique_scopes = list(dict.fromkeys(scopes))
    unknown = next((scope for scope in unique_scopes if scope not in SCOPES), None)
    if unknown and unknown.isprintable():
        raise ValueError(f"unknown scope '{unknown[:_LONGEST_QUOTE]}'")
    if unknown is not None or not unique_scopes:
        raise ValueError("Must be one or more scopes, such as ussd:read, with single spaces between them, or null.")
    return " ".join(unique_scopes)


def joined_addresses(addresses: Iterable[str]) -> str:
    """Addresses and networks as they are stored: each once, in their order, with single spaces.

    Raises ValueError with a sentence unless they are 1 to 20 IPv4 or IPv6 addresses or networks.
    """
    entries = list(addresses)
    if not 0 < len(entries) <= _MOST_ADDRESSES:
        raise ValueError(f"Must be 1 to {_MOST_ADDRESSES} addresses or networks, or null for any.")
    networks: dict[str, None] = {}
    for address in entries:
        try:
            networks[written_network(read_network(address))] = None
        except ValueError:
            quote = f" '{address[:_LONGEST_QUOTE]}'" if address.isprintable() else ""
            raise ValueError(
                f"Not an address or a network{quote}. Examples: 192.0.2.1, 192.0.2.0/24, 2001:db8::/32"
            ) from None
    return " ".join(networks)


_JOINERS = {"scopes": joined_scopes, "allowed_addresses": joined_addresses}


def columns_of(request: CreateApiKey | UpdateApiKey, now: datetime) -> dict[str, Any]:
    """The columns that a request sets. INVALID_REQUEST names the field that is wrong."""
    columns = {name: getattr(request, name) for name in _FIELDS if getattr(request, name) is not UNCHANGED}
    key_name = columns.get("name")
    if key_name is not None and not (0 < len(key_name) <= KEY_NAME.longest and key_name.isprintable()):
        sentence = f"Must be 1 to {KEY_NAME.longest} characters without control characters."
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: name: {sentence}")
    for name, join in _JOINERS.items():
        if columns.get(name) is not None:
            columns[name] = _joined(name, join, columns[name])
    if columns.get("expires_at") is not None and columns["expires_at"] <= now:
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: expires_at: Must be in the future.")
    return columns


def _joined(name: str, join: Callable[[Iterable[str]], str], values: Iterable[str]) -> str:
    try:
        return join(values)
    except ValueError as fault:
        # The contract has the sentence about an unknown scope without the field.
        place = "" if str(fault).startswith("unknown scope") else f"{name}: "
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: {place}{fault}") from None
