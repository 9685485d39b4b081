"""Digests of past days, under a master key: they show when a payment was removed with its whole history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.operations import HistoryDigest
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.security.key_ring import Vault
from ussd_server.services.runtime import Runtime
from ussd_server.services.signatures import is_audit_day_signed, sign_audit_day
from ussd_server.values import iso_milliseconds, new_id_floor
from ussd_server.wire import columns_of

OTHER_PAST = "does not have the payments of a past day, or their histories, as they were when that day was over"
OTHER_TRAIL = "does not have the audit events as they were when that day was over"
OTHER_DIGEST = "has a digest that was changed, or lacks the digest of the day before"

_DAY = timedelta(days=1)
# A digest covers status changes until an hour after the day. It is written an hour later, when all are committed.
_COUNTED_FOR, _WRITTEN_AFTER = timedelta(hours=1), timedelta(hours=2)
_ROWS_AT_ONCE = 500
_OF_TRANSACTION = (
    Transaction.id, Transaction.client_id, Transaction.idempotency_key, Transaction.request_digest,
    Transaction.confirmation, Transaction.callback_url, Transaction.request_id,
)  # fmt: skip
_OF_CHANGE = (
    StatusChange.transaction_id, StatusChange.sequence, StatusChange.client_id, StatusChange.status,
    StatusChange.source, StatusChange.detail, StatusChange.provider_call.cast("text"), StatusChange.created_at,
)  # fmt: skip


class HistoryDigests:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault = runtime.clock, runtime.vault

    def write(self) -> int:
        """Write the missing digests of past days; return their number. The first digest of all is yesterday's."""
        now = self._clock.now()
        last_over = _midnight(now - _DAY - _WRITTEN_AFTER)
        newest = HistoryDigest.select().order_by(HistoryDigest.id.desc()).first()
        start = last_over if newest is None else _start_of(newest.day) + _DAY
        first_day, written = _day(start) if newest is None else newest.first_day, 0
        while start <= last_over:
            row = HistoryDigest(
                id=new_id_floor(start),
                day=_day(start),
                first_day=first_day,
                clients=orjson.dumps(clients_of(start), option=orjson.OPT_SORT_KEYS).decode(),
                digest="",
            )
            row.digest = self._vault.keyed_digest(_content(row))
            with unit_of_work():
                HistoryDigest.insert(columns_of(row)).on_conflict_ignore().execute()
                sign_audit_day(self._vault, start)
            start, written = start + _DAY, written + 1
        return written

    def renewed(self, row: HistoryDigest) -> dict[str, str]:
        """The digest of a row under the newest master key. A wrong digest stays wrong."""
        return {"digest": self._vault.renewed_digest(_content(row), row.digest)}


def past_faults(low: str, high: str, vault: Vault | None) -> Iterator[tuple[str, str]]:
    """Yield a client or a day, and the broken rule, of each day whose digest has an id within (low, high].

    Without `vault`, which has the master keys, a forged digest cannot be recognised.
    """
    for row in HistoryDigest.select().where((HistoryDigest.id > low) & (HistoryDigest.id <= high)):
        try:
            yield from _faults_of(row, vault)
        except ValueError:
            yield row.day, OTHER_DIGEST


def _faults_of(row: HistoryDigest, vault: Vault | None) -> Iterator[tuple[str, str]]:
    """Raises ValueError for a value that was edited by hand and cannot be read."""
    start = _start_of(row.day)
    has_before = row.day == row.first_day or HistoryDigest.get_or_none(id=new_id_floor(start - _DAY)) is not None
    is_true = vault is None or vault.has_digest(_content(row), row.digest)
    if row.id != new_id_floor(start) or not has_before or not is_true:
        yield row.day, OTHER_DIGEST
        return
    if not is_audit_day_signed(vault, start):
        yield row.day, OTHER_TRAIL
    kept, present = orjson.loads(row.clients), clients_of(start)
    for client_id in sorted(present.keys() | kept.keys()):
        if present.get(client_id) != kept.get(client_id):
            yield client_id, OTHER_PAST


def clients_of(start: datetime) -> dict[str, str]:
    """By client, the digest of its payments of the day that begins at `start`, and of their status changes."""
    digests: dict[str, Any] = defaultdict(sha256)
    low, end, until = new_id_floor(start), new_id_floor(start + _DAY), start + _DAY + _COUNTED_FOR
    while True:
        transactions: Any = Transaction.select(*_OF_TRANSACTION).where(Transaction.id >= low, Transaction.id < end)
        rows = list(transactions.order_by(Transaction.id).limit(_ROWS_AT_ONCE + 1).tuples())
        page = rows[:_ROWS_AT_ONCE]
        changes = _changes(page[0][0], page[-1][0], until) if page else {}
        for transaction_id, client_id, *names in page:
            content = orjson.dumps((transaction_id, *names, changes.get(str(transaction_id))), default=str)
            digests[str(client_id)].update(content + b"\n")
        if len(rows) <= _ROWS_AT_ONCE:
            return {client_id: digest.hexdigest() for client_id, digest in digests.items()}
        low = str(rows[-1][0])


def _changes(first: str, last: str, until: datetime) -> dict[str, list[tuple[Any, ...]]]:
    """The status changes before `until` of the payments from the first to the last."""
    events: Any = (
        StatusChange.select(*_OF_CHANGE)
        .where(StatusChange.transaction_id >= first, StatusChange.transaction_id <= last)
        .where(StatusChange.created_at < until)
        .order_by(StatusChange.transaction_id, StatusChange.sequence)
    )
    changes = defaultdict(list)
    for transaction_id, *facts, created_at in events.tuples():
        changes[str(transaction_id)].append((*facts, iso_milliseconds(created_at)))
    return changes


def _content(row: HistoryDigest) -> bytes:
    return b"history\0" + orjson.dumps((row.day, row.first_day, row.clients))


def _day(start: datetime) -> str:
    return start.date().isoformat()


def _start_of(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
