"""What changes of keys share: how the values of their fields are checked and stored."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.limits.networks import read_network, written_network
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey
from ussd_server.security.key_ring import Vault
from ussd_server.services.clients.auth import GIVES_SCOPES
from ussd_server.services.clients.keys.messages import SCOPES, UNCHANGED, CreateApiKey, UpdateApiKey
from ussd_server.services.people import present_role
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id

MAY_NOT = "Insufficient permissions"
NOT_FOUND = "API Key not found"
BAD_BODY = "Invalid request body"
_MOST_KEYS_OF_A_CLIENT = 50
_LONGEST_NAME = 100
_LONGEST_NAMED = 40
_MOST_ADDRESSES = 20
_FIELDS = ("name", "scopes", "expires_at", "allowed_addresses", "daily_limit_cents")


def joined_scopes(scopes: Iterable[str]) -> str:
    """Scopes as they are stored: each once, in the given order, with single spaces.

    Raises ValueError with the name of an unknown scope, without a text for an unprintable one or when none is given.
    """
    wanted = list(dict.fromkeys(scopes))
    unknown = next((scope for scope in wanted if scope not in SCOPES), None)
    if unknown and unknown.isprintable():
        raise ValueError(f"unknown scope '{unknown[:_LONGEST_NAMED]}'")
    if unknown is not None or not wanted:
        raise ValueError
    return " ".join(wanted)


def joined_addresses(addresses: Iterable[str]) -> str:
    """Addresses and networks as they are stored: each once, in the given order, with single spaces.

    Raises ValueError with a sentence unless they are 1 to 20 IPv4 or IPv6 addresses or networks.
    """
    given = list(addresses)
    if not 0 < len(given) <= _MOST_ADDRESSES:
        raise ValueError(f"Must be 1 to {_MOST_ADDRESSES} addresses or networks, or null for any.")
    written: dict[str, None] = {}
    for address in given:
        try:
            written[written_network(read_network(address))] = None
        except ValueError:
            named = f" '{address[:_LONGEST_NAMED]}'" if address.isprintable() else ""
            raise ValueError(
                f"Not an address or a network{named}. Examples: 192.0.2.1, 192.0.2.0/24, 2001:db8::/32"
            ) from None
    return " ".join(written)


_JOINED = {"scopes": joined_scopes, "allowed_addresses": joined_addresses}


def columns_of(request: CreateApiKey | UpdateApiKey, now: datetime) -> dict[str, Any]:
    """The columns that a request sets. INVALID_REQUEST names the field that is wrong."""
    columns = {name: getattr(request, name) for name in _FIELDS if getattr(request, name) is not UNCHANGED}
    key_name = columns.get("name")
    if key_name is not None and not (0 < len(key_name) <= _LONGEST_NAME and key_name.isprintable()):
        sentence = f"Must be 1 to {_LONGEST_NAME} characters without control characters."
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: name: {sentence}")
    for name, joined in _JOINED.items():
        if columns.get(name) is not None:
            columns[name] = _read(name, joined, columns[name])
    if columns.get("expires_at") is not None and columns["expires_at"] <= now:
        raise ServiceError(Code.INVALID_REQUEST, f"{BAD_BODY}: expires_at: Must be in the future.")
    return columns


def require_well_formed(key_ids: Iterable[str]) -> None:
    """INVALID_REQUEST unless these are ids."""
    if not all(is_id(key_id) for key_id in key_ids):
        raise ServiceError(Code.INVALID_REQUEST, "Invalid API key ID format")


def require_within_role(scopes: str | None, context: RequestContext) -> None:
    """Refuse people to make or change a key that may do more than their role gives.

    Call it with the client's row locked.
    """
    if context.caller.user_id is None:
        return
    given = GIVES_SCOPES.get(present_role(context), frozenset())
    if not given or not given.issuperset((scopes or "").split()):
        raise ServiceError(Code.INSUFFICIENT_SCOPE, MAY_NOT)


def lock_client(client_id: str) -> None:
    """Lock the client's row until the unit of work ends. NOT_FOUND for a client that does not exist."""
    if for_update(Client.select(Client.id).where(Client.id == client_id)).first() is None:
        raise ServiceError(Code.NOT_FOUND, "Client not found")


def insert_key(vault: Vault, client_id: str, apikey: str, secret: str, now: datetime, **columns: Any) -> ApiKey:
    """Insert a key. Call with the client's row locked, so that racing calls make no more than the most."""
    if ApiKey.select().where(ApiKey.client_id == client_id).count() >= _MOST_KEYS_OF_A_CLIENT:
        raise ServiceError(Code.INVALID_REQUEST, "API Key limit reached")
    key_id = new_id(now)
    return ApiKey.create(
        id=key_id,
        client_id=client_id,
        apikey=apikey,
        **vault.keep(secret, None, client_id, key_id),
        is_active=True,
        created_at=now,
        updated_at=now,
        **columns,
    )


def _read(name: str, joined: Any, values: Iterable[str]) -> str:
    try:
        return str(joined(values))
    except ValueError as fault:
        # The contract has the sentence about scopes without the field.
        parts = (BAD_BODY, *([name] if name != "scopes" else []), *map(str, fault.args))
        raise ServiceError(Code.INVALID_REQUEST, ": ".join(parts)) from None
