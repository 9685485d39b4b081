"""Heartbeats of the background workers."""

from __future__ import annotations

from peewee import BooleanField, TextField

from ussd_server.database.columns import JsonField, MomentField, Table


class WorkerHeartbeat(Table):
    """One worker process: its start, its last heartbeat and its counts.

    `is_taken_over`: it was silent, and its leases were freed.
    """

    id = TextField(primary_key=True)
    started_at = MomentField()
    seen_at = MomentField()
    measures = JsonField()
    is_taken_over = BooleanField(default=False)

    class Meta:
        table_name = "worker_heartbeats"
