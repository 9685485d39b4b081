"""Who calls: keys with their secrets, and people with their tokens, settled against the database at every call."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.clock import Clock
from ussd_server.context import Caller, CallerKind
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.limits.decisions import RateLimitDecision
from ussd_server.limits.limiter import Limiter
from ussd_server.limits.networks import network_of
from ussd_server.models.clients import Client, Login, User
from ussd_server.security.credentials import Vault, may_be_apikey
from ussd_server.security.tokens import Tokens
from ussd_server.services.clients.key_cache import CachedKey, KeyCache
from ussd_server.services.clients.last_uses import LastUses
from ussd_server.status import Code, ServiceError

_LONGEST_HEADER = 256
_WRONG_PAIR = "Invalid API key or secret"

_DEVELOPING = frozenset({"api_keys:list", "api_keys:create", "api_keys:rotate", "service_identifier:read"})
_EVERYTHING = _DEVELOPING | {"api_keys:delete", "audit_events:read"}
PERMISSIONS: dict[str, frozenset[str]] = {
    "owner": _EVERYTHING,
    "admin": _EVERYTHING,
    "developer": _DEVELOPING,
    "viewer": frozenset({"service_identifier:read"}),
}
"""What each role may do (wire contract 2)."""

_SIGNED_IN = CompiledQuery(
    lambda: (
        Login.select(User.id, User.role, User.client_id)
        .join(User, on=(User.id == Login.user_id))
        .join(Client, on=(Client.id == User.client_id))
        .where(
            Login.id == param(Login.id, "login_id"),
            Login.ended_at.is_null(),
            Login.expires_at > param(Login.expires_at, "now"),
            User.is_active,
            Client.is_active,
        )
    )
)


@dataclass(frozen=True, slots=True)
class Admission:
    """A client program at the door: who it is, and what its limits say of this call."""

    caller: Caller
    decision: RateLimitDecision


class AuthService:
    """Settles who a caller is, so that an end is an end at once."""

    def __init__(
        self, vault: Vault, tokens: Tokens, limiter: Limiter, records: KeyCache, uses: LastUses, clock: Clock
    ) -> None:
        self._vault = vault
        self._tokens = tokens
        self._limiter = limiter
        self._records = records
        self._uses = uses
        self._clock = clock

    def admit_key(self, apikey: str | None, secret: str | None, address: str) -> Admission:
        """The client program that holds a key and its secret, with this call counted against the key's limits.

        INVALID_CREDENTIALS (401) for a missing or wrong pair, in the same words for every cause. A pair that could have
        been right counts against `address`, and an address with too many gets RATE_LIMIT_EXCEEDED (429) instead; the
        key's limits stay whole. API_KEY_DISABLED (403) when the pair is right but the key is disabled or expired, or
        its client is disabled.
        """
        apikey, secret = apikey or "", secret or ""
        record = self._records.recall(apikey) if 0 < len(secret) <= _LONGEST_HEADER else None
        if record is not None and self._vault.knows(record.digest_key_id):
            fault = self._fault_of(record, secret)
            decision = self._count_if_present(record, fault, address)
            if decision is not None:
                return self._admitted(record, fault, decision)
        if not (may_be_apikey(apikey) and 0 < len(secret) <= _LONGEST_HEADER):
            self._vault.pretend_to_match(secret[:_LONGEST_HEADER])
            raise ServiceError(Code.INVALID_CREDENTIALS, _WRONG_PAIR)
        record = self._records.read(apikey)
        if record is None:
            self._vault.pretend_to_match(secret)
            raise _wrong_pair(self._limiter.hit("wrong-secret", network_of(address)))
        fault = self._fault_of(record, secret)
        count = self._limiter.peek if fault is Code.API_KEY_DISABLED else self._limiter.hit
        return self._admitted(record, fault, count(*_account(record, fault, address)))

    def identify_token(self, token: str) -> Caller:
        """The person whose access token this is. INVALID_CREDENTIALS (401) "Invalid JWT token" for every cause."""
        now = self._clock.now()
        claims = self._tokens.read_access(token, now)
        found = claims and _SIGNED_IN.tuples(login_id=claims.login_id, now=now)
        if not claims or not found:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid JWT token")
        ((user_id, role, client_id),) = found
        return Caller(
            CallerKind.TOKEN,
            client_id=client_id,
            user_id=user_id,
            login_id=claims.login_id,
            grants=PERMISSIONS[role],
        )

    def _count_if_present(self, record: CachedKey, fault: Code | None, address: str) -> RateLimitDecision | None:
        """Count a call of a remembered key; None, and nothing is counted, when it is not proved to be still so."""
        assert record.version is not None
        return self._limiter.count_under(
            record.version, *_account(record, fault, address), consume=fault is not Code.API_KEY_DISABLED
        )

    def _admitted(self, record: CachedKey, fault: Code | None, decision: RateLimitDecision) -> Admission:
        if fault is Code.INVALID_CREDENTIALS:
            raise _wrong_pair(decision)
        if fault is not None:
            raise ServiceError(fault, "The API key is disabled or expired")
        if decision.accepted:
            self._uses.note(record.key_id, self._clock.now())
        return Admission(record.caller, decision)

    def _fault_of(self, record: CachedKey, secret: str) -> Code | None:
        """Why this secret does not open the door; it may be the present one, or the one before a rotation."""
        if not self._vault.matches(secret, record.key_id, record.secret_digest, record.digest_key_id):
            previous, ends_at = record.previous_secret_digest, record.previous_secret_expires_at
            if previous is None or ends_at is None or ends_at <= self._clock.now():
                return Code.INVALID_CREDENTIALS
            if not self._vault.matches(secret, record.key_id, previous, record.digest_key_id):
                return Code.INVALID_CREDENTIALS
        is_expired = record.expires_at is not None and record.expires_at <= self._clock.now()
        return Code.API_KEY_DISABLED if is_expired or not record.is_enabled else None


def _account(record: CachedKey, fault: Code | None, address: str) -> tuple[str, str]:
    """The policy and the identity that a call with a key counts against."""
    if fault is Code.INVALID_CREDENTIALS:
        return "wrong-secret", network_of(address)
    return "api-key", record.key_id


def _wrong_pair(decision: RateLimitDecision) -> ServiceError:
    if decision.accepted:
        return ServiceError(Code.INVALID_CREDENTIALS, _WRONG_PAIR)
    return ServiceError(
        Code.RATE_LIMIT_EXCEEDED,
        "Too many requests with an invalid API key or secret",
        retry_after_seconds=decision.retry_after_seconds,
    )
