"""Authentication: of programs by API key and secret, of users by access token."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any, NamedTuple

from peewee import JOIN

from ussd_server.clock import Clock
from ussd_server.context import Caller, CallerKind, SignedInPerson
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import DATABASE_ERRORS, release_connection, unit_of_work
from ussd_server.limits.limiter import rate_limit_headers
from ussd_server.limits.networks import is_within, network_of
from ussd_server.limits.sliding_window import DATA_CALL_REFUSED, RateLimitDecision
from ussd_server.logs import Logger, trace_of
from ussd_server.models.clients import Client, Login, User, UserFactor
from ussd_server.models.keys import ApiKey
from ussd_server.security.credentials import may_be_apikey
from ussd_server.services.clients.key_cache import CachedKey, FoundKey
from ussd_server.services.roles import PAGE_PERMISSIONS, PERMISSIONS
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError
from ussd_server.threads import RepeatedWork

log = Logger(__name__)

_LONGEST_HEADER = 256
_REFUSAL = "Invalid API key or secret"
CODE_LIFE = timedelta(minutes=10)
"""How long a code of the second factor counts as fresh."""


def _signed_in(*columns: Any) -> CompiledQuery:
    """The user of a login, with more columns; no row after the login ended, or when the user or client is disabled."""
    factors = (Client.requires_second_factor, UserFactor.id)
    return CompiledQuery(
        lambda: (
            Login.select(User.id, User.role, User.client_id, *factors, *columns)
            .join(User, on=(User.id == Login.user_id))
            .join(Client, on=(Client.id == User.client_id))
            .join(UserFactor, JOIN.LEFT_OUTER, on=(UserFactor.id == User.id))
            .where(
                Login.id == param(Login.id, "login_id"),
                Login.ended_at.is_null(),
                Login.expires_at > param(Login.expires_at, "now"),
                User.is_active,
                Client.is_active,
            )
        )
    )


_SIGNED_IN = _signed_in()
_SIGNED_IN_PERSON = _signed_in(User.email, User.language, Client.name, Login.code_accepted_at)


_WRITE_SECONDS = 60
# Rows stay locked until the unit of work ends, and a rotation waits for them.
_AT_ONCE = 200

_NOTE = CompiledQuery(
    lambda: ApiKey.update(
        last_used_at=param(ApiKey.last_used_at), last_used_address=param(ApiKey.last_used_address)
    ).where(
        ApiKey.id == param(ApiKey.id),
        ApiKey.last_used_at.is_null() | (ApiKey.last_used_at <= param(ApiKey.last_used_at, "a_minute_before")),
    )
)


class LastUses:
    """Keeps `last_used_at` and its address correct to the minute, with at most one write a minute for each key.

    Noted uses are written every minute, and when the process ends. The request log knows those of the last day to the
    second.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When by the monotonic clock, which is read faster than the service's, and from which address.
        self._latest: dict[str, tuple[float, str]] = {}
        self._writer = RepeatedWork("last-uses", _WRITE_SECONDS, self.write, _log_lost_uses)
        self.close = self._writer.close

    def note(self, key_id: str, address: str) -> None:
        """Note that a key was used now, and from which address; `write` stores it."""
        self._latest[key_id] = (monotonic(), address)
        self._writer.start()

    def write(self) -> None:
        """Write the noted uses. Uses that cannot be written now are kept for the next time."""
        noted, self._latest = self._latest, {}
        if not noted:
            return
        try:
            # Sorted, so that processes that update the same keys at the same time cannot deadlock.
            due = sorted(noted)
            for start in range(0, len(due), _AT_ONCE):
                with unit_of_work():
                    for key_id in due[start : start + _AT_ONCE]:
                        used_at, address = noted[key_id]
                        moment = self._clock.now() - timedelta(seconds=monotonic() - used_at)
                        _NOTE.run(
                            id=key_id,
                            last_used_at=moment,
                            last_used_address=address,
                            a_minute_before=moment - timedelta(minutes=1),
                        )
        except DATABASE_ERRORS:
            log.info("the last uses of keys could not be written")
            self._latest = noted | self._latest
        finally:
            release_connection()


def _log_lost_uses(error: Exception) -> None:
    log.error("last uses of keys were lost by a mistake of ours", error=trace_of(error))


class AuthenticatedKey(NamedTuple):
    """The caller that a key belongs to, and the rate limit decision about this call."""

    caller: Caller
    decision: RateLimitDecision


class AuthService:
    """Authenticates every call against the present state, so that a revoked key or login is refused at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._vault = runtime.vault
        self._tokens = runtime.tokens
        self._limiter = runtime.limiter
        self._key_cache = runtime.key_cache
        self._uses = runtime.last_uses
        self._clock = runtime.clock

    def authenticate_key(self, apikey: str | None, secret: str | None, address: str) -> AuthenticatedKey:
        """Return the caller that a key and its secret belong to, and count this call against the key's limits.

        INVALID_CREDENTIALS (401) for a missing or wrong key or secret, in the same words for every cause. A well-formed
        attempt counts against `address`; an address with too many gets RATE_LIMIT_EXCEEDED (429) instead, and the key's
        limits are not touched. API_KEY_DISABLED (403) when both are right but the key is disabled or expired, or its
        client is disabled; ADDRESS_NOT_ALLOWED (403), which counts, when the key may not be used from `address`.
        """
        apikey, secret = apikey or "", secret or ""
        is_well_formed = 0 < len(secret) <= _LONGEST_HEADER
        key = self._key_cache.look_up(apikey) if is_well_formed else None
        authenticated = key and self._check(key, secret, address)
        if key and not authenticated:
            key = self._key_cache.look_up(apikey, fresh=True)
            authenticated = key and self._check(key, secret, address)
        if authenticated:
            return authenticated
        self._vault.pretend_to_match(secret[:_LONGEST_HEADER])
        if is_well_formed and may_be_apikey(apikey):
            raise _wrong_secret(self._limiter.hit("wrong-secret", network_of(address)))
        raise ServiceError(Code.INVALID_CREDENTIALS, _REFUSAL)

    def authenticate_token(self, token: str) -> Caller:
        """Return the user of an access token. INVALID_CREDENTIALS (401) "Invalid JWT token" for every cause.

        One of them is that the client requires a second factor, and the user has none.
        """
        now = self._clock.now()
        claims = self._tokens.read_access(token, now)
        rows = claims and _SIGNED_IN.tuples(login_id=claims.login_id, now=now)
        if not claims or not rows:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid JWT token")
        ((user_id, role, client_id, requires_factor, factor_id),) = rows
        if requires_factor and factor_id is None:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Invalid JWT token")
        return Caller(
            CallerKind.TOKEN,
            client_id=client_id,
            user_id=user_id,
            login_id=claims.login_id,
            grants=PERMISSIONS[role],
        )

    def authenticate_login(self, login_id: str) -> SignedInPerson:
        """Return the person of a login of the console, with the role that they have now.

        INVALID_CREDENTIALS (401) for a login that ended or expired, a disabled person and a disabled client.
        """
        now = self._clock.now()
        rows = _SIGNED_IN_PERSON.tuples(login_id=login_id, now=now)
        if not rows:
            raise ServiceError(Code.INVALID_CREDENTIALS, "Please sign in again")
        ((user_id, role, client_id, requires_factor, factor_id, *details),) = rows
        email, language, client_name, code_accepted_at = details
        caller = Caller(
            CallerKind.TOKEN, client_id=client_id, user_id=user_id, login_id=login_id, grants=PAGE_PERMISSIONS[role]
        )
        code_accepted_at = Login.code_accepted_at.python_value(code_accepted_at)
        is_fresh = code_accepted_at is not None and code_accepted_at > now - CODE_LIFE
        return SignedInPerson(
            caller,
            email,
            role,
            client_name,
            needs_factor=bool(requires_factor) and factor_id is None,
            needs_fresh_code=factor_id is not None and not is_fresh,
            language=language,
        )

    def _check(self, cached: FoundKey, secret: str, address: str) -> AuthenticatedKey | None:
        """Check the secret and count the call; None, and nothing is counted, when a cached key must be read again."""
        key, proof = cached
        if proof and not self._vault.knows(key.digest_key_id):
            return None
        is_present = self._vault.matches(secret, key.key_id, key.secret_digest, key.digest_key_id)
        fault = self._fault_of(key, secret, is_present, address)
        is_wrong, counts = fault is Code.INVALID_CREDENTIALS, fault is not Code.API_KEY_DISABLED
        account = ("wrong-secret", network_of(address)) if is_wrong else ("api-key", key.key_id)
        if proof:
            decision = self._limiter.count_if(proof, *account, consume=counts)
            if decision is None:
                return None
        else:
            decision = (self._limiter.hit if counts else self._limiter.peek)(*account)
        if fault is not None:
            raise _refusal_of_key(key, fault, decision, address)
        if decision.accepted:
            self._uses.note(key.key_id, address)
        caller = key.caller if is_present else replace(key.caller, people=key.previous_people)
        return AuthenticatedKey(caller, decision)

    def _fault_of(self, key: CachedKey, secret: str, is_present: bool, address: str) -> Code | None:
        """Why this call is refused; None for the present secret, or the previous one within its grace period."""
        if not is_present:
            previous, ends_at = key.previous_secret_digest, key.previous_secret_expires_at
            if previous is None or ends_at is None or ends_at <= self._clock.now():
                return Code.INVALID_CREDENTIALS
            if not self._vault.matches(secret, key.key_id, previous, key.digest_key_id):
                return Code.INVALID_CREDENTIALS
        is_expired = key.expires_at is not None and key.expires_at <= self._clock.now()
        if is_expired or not key.is_enabled:
            return Code.API_KEY_DISABLED
        is_elsewhere = key.allowed_networks is not None and not is_within(address, key.allowed_networks)
        return Code.ADDRESS_NOT_ALLOWED if is_elsewhere else None


def _refusal_of_key(key: CachedKey, fault: Code, decision: RateLimitDecision, address: str) -> ServiceError:
    if fault is Code.INVALID_CREDENTIALS:
        refusal = _wrong_secret(decision)
    else:
        is_elsewhere = fault is Code.ADDRESS_NOT_ALLOWED
        elsewhere = f"The API key may not be used from the address {address}"
        refusal = ServiceError(fault, elsewhere if is_elsewhere else "The API key is disabled or expired")
        refusal.headers = rate_limit_headers(decision)
    refusal.key_id, refusal.client_id = key.key_id, key.client_id
    return refusal


def _wrong_secret(decision: RateLimitDecision) -> ServiceError:
    if decision.accepted:
        return ServiceError(Code.INVALID_CREDENTIALS, _REFUSAL)
    return ServiceError(Code.RATE_LIMIT_EXCEEDED, DATA_CALL_REFUSED, retry_after_seconds=decision.retry_after_seconds)
