"""Collects requests in memory, and writes them in batches by a thread of its own: no call waits for a write."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

import orjson
from peewee import chunked

from ussd_server.database.tables import insert_rows
from ussd_server.database.unit_of_work import DATABASE_ERRORS, dialect, release_connection, run_query, unit_of_work
from ussd_server.logs import Logger, trace_of
from ussd_server.metrics import count_dropped_requests
from ussd_server.models.keys import ApiRequest, KeyUsage
from ussd_server.services.request_log.messages import LoggedRequest
from ussd_server.threads import RepeatedWork
from ussd_server.values import iso_milliseconds, kampala_day, new_id

log = Logger(__name__)

_WRITE_SECONDS = 1.0
# A row of usage costs 20 us. A thousand busy keys would have a row for each call, if each second's were written.
_FEW_USES, _MANY_USES_SECONDS = 250, 5.0
_MOST_WAITING = 10_000
_MOST_USES = 100_000
_AT_ONCE = 250

_Use = tuple[str, str, str, int, str, str]
_Times = tuple[int, datetime, str]


class RequestRecorder:
    """Keeps requests until they are written. Memory is bounded: what comes beyond it is dropped and counted.

    A killed process loses its last second; of the usage of many keys, its last five. Nothing else depends on it.
    """

    def __init__(self) -> None:
        self._waiting: deque[LoggedRequest] = deque()
        # Many threads append, which is atomic; only the writer counts.
        self._uses: deque[tuple[_Use, datetime, str]] = deque()
        self._counted: dict[_Use, _Times] = {}
        self._writing = threading.Lock()
        self._writer = RepeatedWork("request-log", _WRITE_SECONDS, self.write_soon, _log_lost_requests)
        self._usage_writer = RepeatedWork("key-usage", _MANY_USES_SECONDS, self.write, _log_lost_requests)

    def count(self, key_id: str, at: datetime, endpoint: str, status: int, code: str, scope: str, address: str) -> None:
        """Count a call of a key. `scope` is what the endpoint needs."""
        if len(self._uses) >= _MOST_USES:
            count_dropped_requests()
            return
        self._uses.append(((key_id, kampala_day(at), endpoint, status, code, scope), at, address))
        self._writer.start()
        self._usage_writer.start()

    def note(self, request: LoggedRequest) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            count_dropped_requests()
            return
        self._waiting.append(request)
        self._writer.start()

    def write(self) -> None:
        """Write what waits. What cannot be written now is kept, as far as there is room."""
        self._write()

    def write_soon(self) -> None:
        """Write the requests that wait, and the usage of keys unless it has many rows."""
        self._write(most_uses=_FEW_USES)

    def close(self) -> None:
        """End the threads, and write what waits."""
        self._writer.close()
        self._usage_writer.close()

    def _write(self, most_uses: float = math.inf) -> None:
        if not (self._waiting or self._uses or self._counted):
            return
        with self._writing:
            self._count_uses()
            try:
                if len(self._counted) <= most_uses:
                    self._write_uses()
                while self._waiting:
                    self._write_some()
            except DATABASE_ERRORS:
                log.info("requests could not be written to the log")
            finally:
                release_connection()

    def _count_uses(self) -> None:
        while self._uses:
            use, at, address = self._uses.popleft()
            number, last_at, last_address = self._counted.get(use, (0, at, address))
            self._counted[use] = (number + 1, *max((at, address), (last_at, last_address)))

    def _write_uses(self) -> None:
        for batch in _batches(self._counted):
            _write_part(partial(_add_uses, [(*use, *self._counted[use]) for use in batch]), len(batch))
            for use in batch:
                del self._counted[use]

    def _write_some(self) -> None:
        rows = [self._waiting[index] for index in range(min(_AT_ONCE, len(self._waiting)))]
        _write_part(lambda: insert_rows(ApiRequest, list(map(_row, rows))), len(rows))
        for _ in rows:
            self._waiting.popleft()


def _write_part(write: Callable[[], object], number: int) -> None:
    """Write so many requests or uses. What the database refuses is lost: kept, it would hold up all later ones."""
    try:
        with unit_of_work():
            write()
    except DATABASE_ERRORS:
        raise
    except Exception as error:
        _log_lost_requests(error)
        count_dropped_requests(number)


def _log_lost_requests(error: Exception) -> None:
    log.error("requests were lost by a mistake of ours", error=trace_of(error))


def _batches(uses: Iterable[_Use]) -> Iterator[list[_Use]]:
    """Yield the uses in batches, each for one statement, which cannot write a row twice: so each of one scope.

    Sorted, so that processes that count the same uses at the same time cannot deadlock.
    """
    for _, same in groupby(sorted(uses, key=lambda use: (use[-1], use)), lambda use: use[-1]):
        yield from chunked(same, _AT_ONCE)


def _row(request: LoggedRequest) -> dict[str, Any]:
    return request._asdict() | {"id": new_id(request.at), "at": iso_milliseconds(request.at)}


def _later(column: str) -> str:
    is_earlier = "excluded.last_at < key_usage.last_at"
    return f"{column} = CASE WHEN {is_earlier} THEN key_usage.{column} ELSE excluded.{column} END"


def _add_uses(uses: Sequence[tuple[Any, ...]]) -> None:
    columns = list(KeyUsage._meta.columns)
    rows = [dict(zip(columns, use, strict=True)) | {"last_at": iso_milliseconds(use[-2])} for use in uses]
    run_query(
        f"INSERT INTO key_usage ({', '.join(columns)}) {dialect().rows_of('key_usage', columns)} WHERE true "
        "ON CONFLICT (key_id, day, endpoint, status, code) DO UPDATE SET count = key_usage.count + excluded.count, "
        "scope = CASE WHEN replace(key_usage.scope, excluded.scope, '') <> key_usage.scope THEN key_usage.scope "
        "ELSE trim(key_usage.scope || ' ' || excluded.scope) END, "
        f"{_later('last_address')}, {_later('last_at')}",
        rows=orjson.dumps(rows).decode(),
    )
