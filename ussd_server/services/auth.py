"""Who calls: keys with their secrets, and people with their tokens, settled against the database at every call."""

from __future__ import annotations

import ipaddress
import logging
from datetime import timedelta
from typing import Any

from peewee import JOIN, OperationalError

from ussd_server.models.clients import Client, Login, User
from ussd_server.models.keys import ApiKey
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import Caller, CallerKind
from ussd_server.rpc.limiter import Limiter
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.credentials import Vault, may_be_apikey

log = logging.getLogger(__name__)

_LONGEST_HEADER = 256
_NOTE_SECONDS = 60

_DEVELOPING = frozenset({"api_keys:list", "api_keys:create", "api_keys:rotate", "service_identifier:read"})
_EVERYTHING = _DEVELOPING | {"api_keys:delete", "audit_events:read"}
PERMISSIONS: dict[str, frozenset[str]] = {
    "owner": _EVERYTHING,
    "admin": _EVERYTHING,
    "developer": _DEVELOPING,
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

        INVALID_CREDENTIALS (401) for a missing or wrong pair, the same words and the same work for every cause. A pair
        that could have been right counts against `address`, and an address with too many gets RATE_LIMIT_EXCEEDED (429)
        instead. API_KEY_DISABLED (403) when the pair is right but the key is disabled or expired, or its client is
        disabled.
        """
        plausible = may_be_apikey(apikey or "") and 0 < len(secret or "") <= _LONGEST_HEADER
        row = self._find_key(apikey or "", secret or "") if plausible else None
        if not plausible:
            self._vault.pretend_to_match((secret or "")[:_LONGEST_HEADER])
        elif row is None:
            verdict = self._limiter.hit("wrong-secret", network_of(address))
            if not verdict.accepted:
                raise ServiceError(
                    Code.RATE_LIMIT_EXCEEDED,
                    "Too many requests with an invalid API key or secret",
                    retry_after_seconds=verdict.retry_after_seconds,
                )
        if row is None:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid API key or secret")
        expired = row.expires_at is not None and row.expires_at <= self._clock.now()
        if not row.is_active or not row.client.is_active or expired:
            raise ServiceError(Code.API_KEY_DISABLED, "The API key is disabled or expired")
        self._note_use(row)
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

    def _note_use(self, row: ApiKey) -> None:
        """Keep `last_used_at` true to the minute. A note that cannot be written now is left to the next call."""
        now = self._clock.now()
        a_minute_ago = now - timedelta(seconds=_NOTE_SECONDS)
        if row.last_used_at is not None and row.last_used_at > a_minute_ago:
            return
        try:
            ApiKey.update(last_used_at=now).where(
                ApiKey.id == row.id, ApiKey.last_used_at.is_null() | (ApiKey.last_used_at <= a_minute_ago)
            ).execute()
        except OperationalError:
            log.info("the last use of a key could not be noted")

    def _find_key(self, apikey: str, secret: str) -> Any:
        """The row of a key and its client, if the secret is its present one or the one before a rotation."""
        row: Any = (
            ApiKey.select(ApiKey, Client.is_active)
            .join(Client, JOIN.INNER, on=(Client.id == ApiKey.client_id), attr="client")
            .where(ApiKey.apikey == apikey)
            .first()
        )
        if row is None:
            self._vault.pretend_to_match(secret)
            return None
        if self._vault.matches(secret, row.id, row.secret_digest, row.digest_key_id):
            return row
        in_grace = row.previous_secret_expires_at is not None and row.previous_secret_expires_at > self._clock.now()
        if in_grace and self._vault.matches(secret, row.id, row.previous_secret_digest, row.digest_key_id):
            return row
        return None


def network_of(address: str) -> str:
    """Whose failures are counted together: an IPv4 address, or the /64 of an IPv6 address, which has one holder."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((int(parsed), 64), strict=False))
