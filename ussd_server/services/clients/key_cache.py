"""What the door remembers of keys, and the proof that it is still so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import JOIN

from ussd_server.context import Caller, CallerKind
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey, UnseenChanges
from ussd_server.redis.generations import Generation, Generations

# A process looks for unseen changes this often, and trusts its memory for so long after a look: within the second, a
# look that is late does not hold up a call.
_LOOK_SECONDS = 0.5
_TRUST_SECONDS = 1.0
_MOST_RECORDS = 100_000

_FIND = CompiledQuery(
    lambda: (
        ApiKey.select(
            ApiKey.id, ApiKey.client_id, ApiKey.secret_digest, ApiKey.digest_key_id, ApiKey.previous_secret_digest,
            ApiKey.previous_secret_expires_at, ApiKey.scopes, ApiKey.is_active, ApiKey.expires_at,
            Client.is_active.alias("is_client_active"),
        )
        .join(Client, JOIN.INNER, on=(Client.id == ApiKey.client_id))
        .where(ApiKey.apikey == param(ApiKey.apikey))
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CachedKey:
    """What decides whether a key may enter, as the database had it."""

    caller: Caller
    key_id: str
    client_id: str
    secret_digest: bytes
    digest_key_id: str
    previous_secret_digest: bytes | None
    previous_secret_expires_at: datetime | None
    is_enabled: bool
    expires_at: datetime | None
    version: Generation | None  # of the client when this was read; None when it could not be told
    unseen_changes: int  # of which this process knew then


class KeyCache:
    """Remembers keys, so that a call of one that nobody changed asks the database nothing (docs/DECISIONS.md, 34).

    A record is good for a call only when the Redis call that counts it finds the client's version as it was when the
    record was read; every change ends that version before it is answered. A change that cannot tell Redis is counted in
    the database, where every process looks twice a second, and is answered when the last of them has seen it.
    """

    def __init__(
        self,
        versions: Generations,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`versions` are those of clients, by their ids."""
        self._versions = versions
        self._monotonic = monotonic
        self._sleep = sleep
        self._records: dict[str, CachedKey] = {}
        self._remembering = threading.Lock()
        self._unseen_changes = -1
        self._looked_at = float("-inf")
        self._looking = threading.Lock()

    def recall(self, apikey: str) -> CachedKey | None:
        """What is remembered of a key, to be used only together with its version; None when that has no worth."""
        record = self._records.get(apikey)
        # Last, because this may ask the database, which a mistyped key must not do.
        if record is None or record.version is None or not self._looks_often_enough():
            return None
        return record if record.unseen_changes == self._unseen_changes else None

    def read(self, apikey: str) -> CachedKey | None:
        """What the database has of a key now; None for a key that it does not have."""
        self._looks_often_enough()
        known, unseen_changes = self._records.get(apikey), self._unseen_changes
        # A key never changes its client. At the first sight of a key its client is unknown, and so is the version,
        # which must be read before the row.
        version = self._versions.read(known.client_id) if known else None
        row: Any = _FIND.first(ApiKey, apikey=apikey)
        with self._remembering:
            if row is None:
                self._records.pop(apikey, None)
                return None
            record = _record_of(row, version, unseen_changes)
            self._records[apikey] = record
            if len(self._records) > _MOST_RECORDS:
                del self._records[next(iter(self._records))]
        return record

    @contextmanager
    def changing(self, client_id: str) -> Iterator[None]:
        """A unit of work that changes who may enter for a client; after it no process lets in whom it shut out."""
        marker = self._versions.hold(client_id)
        try:
            with unit_of_work():
                yield
                if marker is None:
                    # Last, because all changes everywhere wait here for one another.
                    _count_unseen_change()
        finally:
            is_freed = self._versions.free(client_id, marker)
        if marker is not None and not is_freed:
            with unit_of_work():
                _count_unseen_change()
        if marker is None or not is_freed:
            self._sleep(_TRUST_SECONDS)

    def _looks_often_enough(self) -> bool:
        """See to it that the last look is young; False when it is not, because another thread's takes so long."""
        if self._monotonic() - self._looked_at > _LOOK_SECONDS and self._looking.acquire(blocking=False):
            try:
                began = self._monotonic()
                self._unseen_changes = UnseenChanges.select(UnseenChanges.number).scalar()
                self._looked_at = began
            finally:
                self._looking.release()
        return self._monotonic() - self._looked_at < _TRUST_SECONDS


def _record_of(row: Any, version: Generation | None, unseen_changes: int) -> CachedKey:
    return CachedKey(
        caller=Caller(
            CallerKind.KEY,
            client_id=row.client_id,
            key_id=row.id,
            grants=None if row.scopes is None else frozenset(row.scopes.split()),
        ),
        key_id=row.id,
        client_id=row.client_id,
        secret_digest=bytes(row.secret_digest),
        digest_key_id=row.digest_key_id,
        previous_secret_digest=row.previous_secret_digest and bytes(row.previous_secret_digest),
        previous_secret_expires_at=row.previous_secret_expires_at,
        is_enabled=bool(row.is_active and row.is_client_active),
        expires_at=row.expires_at,
        version=version,
        unseen_changes=unseen_changes,
    )


def _count_unseen_change() -> None:
    UnseenChanges.update(number=UnseenChanges.number + 1).execute()
