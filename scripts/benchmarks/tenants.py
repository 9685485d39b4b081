"""The clients of the service under measurement: their keys, their money, and one client with a thousand keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.requests import Pair
from ussd_server.house import Services
from ussd_server.messages.clients import CreateUser, LogIn
from ussd_server.messages.transactions import CreateDeposit
from ussd_server.models.base import new_id, unit_of_work
from ussd_server.models.clients import Client, Login
from ussd_server.models.keys import ApiKey
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import operator_call
from ussd_server.rpc.keyring import Keyring
from ussd_server.rpc.tokens import AccessClaims, Tokens
from ussd_server.services.credentials import Vault, new_apikey, new_apisecret

CLIENTS = 1000
KEYS_LISTED = 1000
_COLLECTED_EACH = 30
_LOGINS = 20
_FUNDS_CENTS = 10**12
_AT_ONCE = 500
_PASSWORD = "a long password of the benchmark"

# Collections that clients have made before, so that there is something to list.
_COLLECTED = """
    INSERT INTO transactions (id, client_id, type, status, phone_number, amount_cents, fee_cents, currency, account,
        provider, reference, request_digest, late, created_at, updated_at, ask_attempts, checks, due_at, due_source)
    SELECT ('01900000-0000-7000-8000-' || lpad(row_number() OVER ()::text, 12, '0'))::uuid,
        id, 'collection', 'created', '+256770000000', 500000, 0, 'UGX', 'main',
        'sandbox', 'earlier-' || n, '', false, created_at, created_at, 0, 0, created_at, 'poll'
    FROM clients, generate_series(1, %s) AS n"""


class Tenants(NamedTuple):
    """Who calls: for each purpose one key of every client, and the people who may list a thousand keys."""

    keys: dict[str, list[Pair]]
    secrets_file: Path
    claims: list[AccessClaims]

    def access_tokens(self) -> list[str]:
        """A fresh token for each login."""
        tokens = Tokens(Keyring(self.secrets_file))
        now = Clock().now()
        return [tokens.issue_access(claims, now) for claims in self.claims]


def settle_tenants(house: Services, purposes: list[str], clients: int) -> Tenants:
    """Make so many clients, straight in the database where the service's own way would take minutes."""
    client_ids = add_clients(house, clients)
    keys = {purpose: add_keys(house, client_ids) for purpose in purposes}
    for client_id in client_ids:
        house.transactions.deposit(CreateDeposit(client_id, _FUNDS_CENTS, "funds"), operator_call())
    # More than the service would give one client.
    (owner_id,) = add_clients(house, 1)
    add_keys(house, [owner_id] * KEYS_LISTED)
    house.clients.create_user(CreateUser(owner_id, "owner@example.com", "owner", _PASSWORD), operator_call())
    for _ in range(_LOGINS):
        house.logins.begin(LogIn("owner@example.com", _PASSWORD), operator_call())
    claims = [AccessClaims(login.user_id, owner_id, login.id) for login in Login.select()]
    with psycopg.connect(house.settings.database_url, autocommit=True) as connection:
        connection.execute(_COLLECTED, (_COLLECTED_EACH,))
        connection.execute("VACUUM ANALYZE")
    return Tenants(keys, house.settings.secrets_file, claims)


def add_clients(house: Services, count: int) -> list[str]:
    """Make so many clients; gives their ids."""
    now = house.clock.now()
    rows = [
        {"id": new_id(now), "name": new_id(now), "is_active": True, "created_at": now, "updated_at": now}
        for _ in range(count)
    ]
    _insert(Client, rows)
    return [row["id"] for row in rows]


def add_keys(house: Services, client_ids: list[str]) -> list[Pair]:
    """Make one key for each name in the list."""
    now, vault = house.clock.now(), Vault(Keyring(house.settings.secrets_file))
    pairs = [Pair(new_apikey(), new_apisecret()) for _ in client_ids]
    rows = []
    for client_id, pair in zip(client_ids, pairs, strict=True):
        key_id = new_id(now)
        kept = vault.keep(pair.secret, None, client_id, key_id)
        rows.append(
            {"id": key_id, "client_id": client_id, "apikey": pair.apikey, **kept, "scopes": None, "is_active": True,
             "created_at": now, "updated_at": now, "expires_at": None}
        )  # fmt: skip
    _insert(ApiKey, rows)
    return pairs


def _insert(table: Any, rows: list[dict[str, Any]]) -> None:
    with unit_of_work():
        for first in range(0, len(rows), _AT_ONCE):
            table.insert_many(rows[first : first + _AT_ONCE]).execute()
