"""Access tokens of providers in Redis, encrypted, so that all processes use one and one of them fetches it."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ussd_server.redis.client import REDIS_ERRORS, RedisClient, connect
from ussd_server.security.key_ring import DecryptionError, Vault

_KEY = "provider:token:{}"
_CLAIM_KEY = "provider:token:{}:fetching"
# A process that is killed while it fetches keeps the others waiting for so long.
_CLAIM_SECONDS = 10
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


@dataclass(frozen=True, slots=True)
class Token:
    """An access token; the moments are those of the monotonic clock."""

    text: str
    renew_at: float
    expires_at: float


class SharedTokens:
    """The tokens of all providers. While Redis is away, every process fetches tokens of its own."""

    def __init__(self, url: str, vault: Vault) -> None:
        self._url = url
        self._vault = vault

    def of(self, *credentials: str) -> SharedToken:
        """The token in Redis that these credentials get: address, product, user and secret."""
        digest = self._vault.keyed_digest(json.dumps(credentials).encode())
        return SharedToken(self, self._vault, digest)

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    @cached_property
    def client(self) -> RedisClient:
        """The client of Redis. Its first use may raise one of `REDIS_ERRORS`."""
        return connect(self._url)


class SharedToken:
    """One token in Redis. No method raises: without Redis there is no token, and every process may fetch."""

    def __init__(self, tokens: SharedTokens, vault: Vault, name: str) -> None:
        self._tokens = tokens
        self._vault = vault
        self._name = name
        self._key = _KEY.format(name)
        self._claim_key = _CLAIM_KEY.format(name)
        self._claim = secrets.token_hex(8)

    def load(self, now: float) -> Token | None:
        """The token that a process has saved; `now` is the moment of the monotonic clock."""
        try:
            client: Any = self._tokens.client
            encrypted, left_ms = client.get(self._key), client.pttl(self._key)
        except REDIS_ERRORS:
            return None
        if encrypted is None or left_ms <= 0:
            return None
        try:
            text, renew_before_end = json.loads(self._vault.decrypt(encrypted, "provider-token", self._name))
        except DecryptionError:
            return None
        expires_at = now + left_ms / 1000
        return Token(text, expires_at - renew_before_end, expires_at)

    def save(self, token: Token, now: float) -> None:
        """Save a token that was just fetched, until it expires; `now` is the moment of the monotonic clock."""
        left_ms = int((token.expires_at - now) * 1000)
        content = json.dumps([token.text, token.expires_at - token.renew_at])
        if left_ms > 0:
            try:
                encrypted = self._vault.encrypt(content, "provider-token", self._name)
                self._tokens.client.set(self._key, encrypted, px=left_ms)
            except REDIS_ERRORS:
                return

    def claim(self) -> bool:
        """Whether this process may fetch now; False while another one does."""
        try:
            return bool(self._tokens.client.set(self._claim_key, self._claim, nx=True, ex=_CLAIM_SECONDS))
        except REDIS_ERRORS:
            return True

    def release(self) -> None:
        try:
            client: Any = self._tokens.client
            client.eval(_RELEASE, 1, self._claim_key, self._claim)
        except REDIS_ERRORS:
            return
