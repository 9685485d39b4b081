"""Who calls: keys with their secrets, and people with their tokens, settled against the database at every call."""

from __future__ import annotations

import ipaddress

from peewee import JOIN

from ussd_server.models.clients import Client, Login, User
from ussd_server.models.keys import ApiKey
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import Caller, CallerKind
from ussd_server.rpc.limiter import Limiter
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.credentials import Vault, may_be_apikey

_LONGEST_HEADER = 256

_EVERYTHING = frozenset(
    f"api_keys:{action}" for action in ("list", "create", "rotate", "delete")
) | {"audit_events:read", "service_identifier:read"}
PERMISSIONS: dict[str, frozenset[str]] = {
    "owner": _EVERYTHING,
    "admin": _EVERYTHING,
    "developer": frozenset({"api_keys:list", "api_keys:create", "api_keys:rotate", "service_identifier:read"}),
    "viewer": frozenset({"service_identifier:read"}),
}
"""What each role may do (wire contract 2)."""


class AuthService:
    """Settles who a caller is. Nothing is remembered between calls, so that an end is an end at once."""

    def __init__(self, vault: Vault, tokens: Tokens, limiter: Limiter, clock: Clock) -> None:
        self._vault = vault
        self._tokens = tokens
        self._limiter = limiter
        self._clock = clock

    def identify_key(self, apikey: str | None, secret: str | None, address: str) -> Caller:
        """The client program that holds a key and its secret.

        INVALID_CREDENTIALS (401) for a missing or wrong pair, the same words and the same work for every cause; each
        counts against `address`, and an address with too many gets RATE_LIMIT_EXCEEDED (429) instead. API_KEY_DISABLED
        (403) when the pair is right but the key is disabled or expired, or its client is disabled.
        """
        row = self._find_key(apikey or "", secret or "")
        if row is None:
            verdict = self._limiter.hit("wrong-secret", network_of(address))
            if not verdict.accepted:
                raise ServiceError(
                    Code.RATE_LIMIT_EXCEEDED,
                    "Too many requests with an invalid API key or secret",
                    retry_after_seconds=verdict.retry_after_seconds,
                )
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid API key or secret")
        expired = row.expires_at is not None and row.expires_at <= self._clock.now()
        if not row.is_active or not row.client.is_active or expired:
            raise ServiceError(Code.API_KEY_DISABLED, "The API key is disabled or expired")
        return Caller(
            CallerKind.KEY,
            client_id=row.client_id,
            key_id=row.id,
            grants=None if row.scopes is None else frozenset(row.scopes.split()),
        )

    def identify_token(self, token: str) -> Caller:
        """The person whose access token this is. INVALID_CREDENTIALS (401) "Invalid JWT token" for every cause."""
        claims = self._tokens.read_access(token, self._clock.now())
        row = (
            claims
            and Login.select(Login.id, User.id, User.role, Client.id)
            .join(User, on=(User.id == Login.user_id), attr="user")
            .join(Client, on=(Client.id == User.client_id), attr="client")
            .where(
                Login.id == claims.login_id,
                Login.ended_at.is_null(),
                Login.expires_at > self._clock.now(),
                User.is_active,
                Client.is_active,
            )
            .first()
        )
        if not row:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid JWT token")
        return Caller(
            CallerKind.TOKEN,
            client_id=row.user.client.id,
            user_id=row.user.id,
            login_id=row.id,
            grants=PERMISSIONS[row.user.role],
        )

    def _find_key(self, apikey: str, secret: str) -> ApiKey | None:
        """The row of a key whose secret, or whose secret before a rotation, is the one given."""
        plausible = may_be_apikey(apikey) and 0 < len(secret) <= _LONGEST_HEADER
        row = (
            ApiKey.select(ApiKey, Client.is_active)
            .join(Client, JOIN.INNER, on=(Client.id == ApiKey.client_id), attr="client")
            .where(ApiKey.apikey == apikey)
            .first()
            if plausible
            else None
        )
        if row is None:
            self._vault.pretend_to_match(secret[:_LONGEST_HEADER])
            return None
        if self._vault.matches(secret, row.id, bytes(row.secret_digest), row.digest_key_id):
            return row  # type: ignore[no-any-return]
        if row.previous_secret_digest is not None and row.previous_secret_expires_at > self._clock.now():
            if self._vault.matches(secret, row.id, bytes(row.previous_secret_digest), row.digest_key_id):
                return row  # type: ignore[no-any-return]
        return None


def network_of(address: str) -> str:
    """Whose guesses are counted together: an IPv4 address, or the /64 of an IPv6 address, which one holder has whole."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed), 64), strict=False))
