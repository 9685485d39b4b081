"""The key cache: `KeyCache` looks keys up in memory, and invalidates the keys of a client in all processes.

A change of a key must hold in every process before the caller gets the reply (docs/DECISIONS.md, 54). Two classes
ensure it:

`Generations`        Redis holds a random token for each client, its generation. A cached key is used only if the Redis
                     call that counts the request finds the generation unchanged; a change ends it first.
`UnseenChangeCount`  A change that cannot reach Redis is counted in the database. Every process reads the count twice a
                     second, and the change is answered when all have had time to see it.

Without a proof from both, the key is read from the database.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from peewee import JOIN

from ussd_server.context import Caller, CallerKind
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.limits.networks import Network, read_network
from ussd_server.limits.sliding_window import Proof
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey, UnseenChanges, behind_secret
from ussd_server.redis.pipeline import Circuit, RedisAwayError, RedisPipeline
from ussd_server.security.credentials import may_be_apikey
from ussd_server.threads import CachedValue

_PREFIX = "version"
# During a change, the key holds the markers of all processes that change the client, instead of a generation. They
# expire, because a process may die; the time is longer than any unit of work.
_MARK = "!"
_CHANGE_SECONDS = 60
_LIFE_SECONDS = 3600

_HOLD = f"""
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, 1) ~= '{_MARK}' then held = '' end
redis.call('SET', KEYS[1], held .. ARGV[1], 'EX', ARGV[2])
"""
_RELEASE = f"""
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, 1) == '{_MARK}' then
  local others = string.gsub(held, ARGV[1], '', 1)
  if others ~= '' then return redis.call('SET', KEYS[1], others, 'KEEPTTL') end
end
redis.call('DEL', KEYS[1])
"""


class Generations:
    """The generations of clients, shared by all processes.

    A token that expired or was flushed never comes again, because tokens are random. A token that a restored or
    promoted server brings back belongs to another server run. So a proof that holds shows that no key changed since it
    was read.
    """

    def __init__(self, pipeline: RedisPipeline, circuit: Circuit) -> None:
        self._pipeline = pipeline
        self._circuit = circuit

    def read(self, client_id: str) -> Proof | None:
        """Return the generation, to be read before the rows; None during a change, and when Redis cannot prove it."""
        key = f"{_PREFIX}:{client_id}"
        try:
            return self._circuit.call(self._read, key)
        except RedisAwayError:
            return None

    def hold(self, client_id: str) -> str | None:
        """End the generation, and allow no other until `release` is called with the returned marker.

        Returns None when Redis is away: then other processes do not notice.
        """
        marker = _MARK + secrets.token_hex(8)
        return marker if self._run(_HOLD, client_id, marker, _CHANGE_SECONDS) else None

    def release(self, client_id: str, marker: str | None) -> bool:
        """Allow a new generation once no other process holds the client. Returns False when Redis is away.

        Without a marker, because `hold` could not reach Redis, this still ends the generation.
        """
        return self._run(_RELEASE, client_id, marker or "")

    def _read(self, key: str) -> Proof | None:
        server_run = self._pipeline.server_run()
        if not server_run:
            return None
        self._pipeline.execute("SET", key, secrets.token_hex(8), "NX", "EX", _LIFE_SECONDS)
        token = (self._pipeline.execute("GET", key) or b"").decode()
        return None if not token or token.startswith(_MARK) else Proof(key, token, server_run)

    def _run(self, script: str, client_id: str, *arguments: str | int) -> bool:
        try:
            self._circuit.call(self._pipeline.execute, "EVAL", script, 1, f"{_PREFIX}:{client_id}", *arguments)
        except RedisAwayError:
            return False
        return True


# A process reads the count this often, and trusts it for TRUST_SECONDS: a late reading does not block calls.
_REFRESH_SECONDS = 0.5
TRUST_SECONDS = 1.0


class UnseenChangeCount:
    """The count as this process read it last."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count = CachedValue(_read, _REFRESH_SECONDS, -1, monotonic=monotonic)

    def current(self) -> int | None:
        """Return the count, at most TRUST_SECONDS old; None while another thread takes longer to read it.

        Raises one of `DATABASE_ERRORS`.
        """
        self._count.refresh()
        # Read the age first: another thread may replace age and count between the two reads.
        return self._count.value if self._count.age_seconds < TRUST_SECONDS else None


def add_unseen_change() -> None:
    """Count one change, within the caller's unit of work."""
    UnseenChanges.update(number=UnseenChanges.number + 1).execute()


def _read() -> int:
    return int(UnseenChanges.select(UnseenChanges.number).scalar())


_MAX_ENTRIES = 100_000

_FIND = CompiledQuery(
    lambda: (
        ApiKey.select(
            ApiKey.id,
            ApiKey.client_id,
            ApiKey.name,
            ApiKey.secret_digest,
            ApiKey.digest_key_id,
            ApiKey.previous_secret_digest,
            ApiKey.previous_secret_expires_at,
            ApiKey.scopes,
            ApiKey.is_active,
            ApiKey.expires_at,
            ApiKey.people,
            ApiKey.previous_people,
            ApiKey.readers,
            ApiKey.previous_readers,
            ApiKey.allowed_addresses,
            Client.is_active.alias("is_client_active"),
            Client.counts_readers.alias("counts_readers"),
        )
        .join(Client, JOIN.INNER, on=(Client.id == ApiKey.client_id))
        .where(ApiKey.apikey == param(ApiKey.apikey))
    )
)


@dataclass(frozen=True, slots=True)
class CachedKey:
    """The part of a key record that authentication needs, as the database had it."""

    caller: Caller
    key_id: str
    client_id: str
    secret_digest: bytes
    digest_key_id: str
    previous_secret_digest: bytes | None
    previous_secret_expires_at: datetime | None
    is_enabled: bool
    expires_at: datetime | None
    previous_people: frozenset[str]
    allowed_networks: tuple[Network, ...] | None  # None: any


class FoundKey(NamedTuple):
    """A key and its proof. The limiter checks the proof before the key is used; None if the key was just read."""

    key: CachedKey
    proof: Proof | None


class _Entry(NamedTuple):
    key: CachedKey
    generation: Proof | None  # of the client, read before the row; None: unknown, or changing
    unseen_changes: int  # the count, read before the row


class KeyCache:
    """Caches keys in memory. From its third call in a process on, an unchanged key costs no query."""

    def __init__(
        self, pipeline: RedisPipeline, circuit: Circuit, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`pipeline` and `circuit` are the limiter's own: its calls to Redis check the proofs."""
        self.generations = Generations(pipeline, circuit)
        self._unseen_changes = UnseenChangeCount(monotonic)
        self._entries: dict[str, _Entry] = {}
        self._storing = threading.Lock()

    def look_up(self, apikey: str, *, fresh: bool = False) -> FoundKey | None:
        """Return the key, or None when there is none. `fresh`, after a proof did not hold, reads the database.

        Raises one of `DATABASE_ERRORS`.
        """
        entry = self._entries.get(apikey)
        if entry is None and not may_be_apikey(apikey):
            return None
        unseen_changes = self._unseen_changes.current()
        if entry and entry.generation and entry.unseen_changes == unseen_changes and not fresh:
            return FoundKey(entry.key, entry.generation)
        # Read the generation before the row: a change in between then makes the entry outdated, never wrongly valid. At
        # the first call the client of a key is unknown, so the key is stored without a generation, and read once more
        # at the second call. A key never changes its client.
        generation = self.generations.read(entry.key.client_id) if entry and unseen_changes is not None else None
        row: Any = _FIND.first(ApiKey, apikey=apikey)
        key = None if row is None else _key_of(row)
        with self._storing:
            if key is None:
                self._entries.pop(apikey, None)
                return None
            if unseen_changes is None:
                # The count is unknown for now. An older entry stays: it can be used again if the count has not changed.
                return FoundKey(key, None)
            self._entries[apikey] = _Entry(key, generation, unseen_changes)
            if len(self._entries) > _MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]
        return FoundKey(key, None)

    @contextmanager
    def invalidate(self, client_id: str) -> Iterator[None]:
        """Run a unit of work that changes keys of a client; on return no process uses a cached copy of them.

        The hold ends the client's generation, and no process gets a new one until the hold is released or expires. So
        if this process dies in between, no cached copy is used. When Redis could not be reached, blocks for
        TRUST_SECONDS, until every process has read the count of unseen changes.
        """
        marker = self.generations.hold(client_id)
        try:
            with unit_of_work():
                yield
                if marker is None:
                    # Last in the unit of work: the count is a single row, which every such change of every client
                    # locks.
                    add_unseen_change()
        finally:
            is_released = self.generations.release(client_id, marker)
        if marker is not None and not is_released:
            # Redis may have lost the marker in between, and another process cached the old row under a new generation,
            # which the release would have ended.
            with unit_of_work():
                add_unseen_change()
        if marker is None or not is_released:
            time.sleep(TRUST_SECONDS)


def _key_of(row: Any) -> CachedKey:
    return CachedKey(
        caller=Caller(
            CallerKind.KEY,
            client_id=row.client_id,
            key_id=row.id,
            key_name=row.name,
            grants=None if row.scopes is None else frozenset(row.scopes.split()),
            people=behind_secret(row.people, row.readers, counts_readers=row.counts_readers),
        ),
        key_id=row.id,
        client_id=row.client_id,
        secret_digest=bytes(row.secret_digest),
        digest_key_id=row.digest_key_id,
        previous_secret_digest=row.previous_secret_digest and bytes(row.previous_secret_digest),
        previous_secret_expires_at=row.previous_secret_expires_at,
        is_enabled=bool(row.is_active and row.is_client_active),
        expires_at=row.expires_at,
        previous_people=behind_secret(row.previous_people, row.previous_readers, counts_readers=row.counts_readers),
        allowed_networks=row.allowed_addresses and tuple(map(read_network, row.allowed_addresses.split())),
    )
