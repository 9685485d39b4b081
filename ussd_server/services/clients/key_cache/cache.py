"""Looks keys up in memory, and invalidates the keys of a client in all processes.

The package's docstring explains the two proofs: the generation of a client, and the count of unseen changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from peewee import JOIN

from ussd_server.context import Caller, CallerKind
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.limits.decisions import Proof
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey
from ussd_server.redis.circuit import Circuit
from ussd_server.redis.pipeline import RedisPipeline
from ussd_server.security.credentials import may_be_apikey
from ussd_server.services.clients.key_cache.generations import Generations
from ussd_server.services.clients.key_cache.unseen_changes import TRUST_SECONDS, UnseenChangeCount, add_unseen_change

_MAX_ENTRIES = 100_000

_FIND = CompiledQuery(
    lambda: (
        ApiKey.select(
            ApiKey.id, ApiKey.client_id, ApiKey.secret_digest, ApiKey.digest_key_id, ApiKey.previous_secret_digest,
            ApiKey.previous_secret_expires_at, ApiKey.scopes, ApiKey.is_active, ApiKey.expires_at,
            ApiKey.people, ApiKey.previous_people,
            Client.is_active.alias("is_client_active"),
        )
        .join(Client, JOIN.INNER, on=(Client.id == ApiKey.client_id))
        .where(ApiKey.apikey == param(ApiKey.apikey))
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CachedKey:
    """What authentication needs of a key, as the database had it."""

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

        Raises one of `DATABASE_TROUBLE`.
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
            grants=None if row.scopes is None else frozenset(row.scopes.split()),
            people=row.people or frozenset(),
        ),
        key_id=row.id,
        client_id=row.client_id,
        secret_digest=bytes(row.secret_digest),
        digest_key_id=row.digest_key_id,
        previous_secret_digest=row.previous_secret_digest and bytes(row.previous_secret_digest),
        previous_secret_expires_at=row.previous_secret_expires_at,
        is_enabled=bool(row.is_active and row.is_client_active),
        expires_at=row.expires_at,
        previous_people=row.previous_people or frozenset(),
    )
