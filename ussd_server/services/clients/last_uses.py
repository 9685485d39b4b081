"""The times at which keys were last used, written in bulk, so that no call waits for the write."""

from __future__ import annotations

import atexit
import threading
from datetime import datetime, timedelta

from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import DATABASE_TROUBLE, release_connection, unit_of_work
from ussd_server.logs import Logger, trace_of
from ussd_server.models.keys import ApiKey

log = Logger(__name__)

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

    def __init__(self) -> None:
        self._latest: dict[str, tuple[datetime, str]] = {}
        self._closed = threading.Event()
        self._writer: threading.Thread | None = None
        self._starting = threading.Lock()

    def note(self, key_id: str, moment: datetime, address: str) -> None:
        """Note that a key was used, and from which address; `write` stores it."""
        self._latest[key_id] = (moment, address)
        if self._writer is None:
            self._start_writer()

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
                        moment, address = noted[key_id]
                        _NOTE.run(
                            id=key_id,
                            last_used_at=moment,
                            last_used_address=address,
                            a_minute_before=moment - timedelta(minutes=1),
                        )
        except DATABASE_TROUBLE:
            log.info("the last uses of keys could not be written")
            self._latest = noted | self._latest
        finally:
            release_connection()

    def close(self) -> None:
        """Write the rest, and end the thread."""
        atexit.unregister(self.close)
        self._closed.set()
        self.write()

    def _start_writer(self) -> None:
        with self._starting:
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_again_and_again, name="last-uses", daemon=True)
                self._writer.start()
                atexit.register(self.close)

    def _write_again_and_again(self) -> None:
        while not self._closed.wait(_WRITE_SECONDS):
            try:
                self.write()
            except Exception as error:
                log.error("last uses of keys were lost by a mistake of ours", error=trace_of(error))
