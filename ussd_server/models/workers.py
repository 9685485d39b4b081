"""The background workers that are at work, in their own words."""

from __future__ import annotations

from peewee import BooleanField, TextField

from ussd_server.database.columns import JsonField, MomentField, Table


class WorkerHeartbeat(Table):
    """One worker process: since when it works, when it last said so, and what it had counted by then.

    `is_taken_over` says that it was silent and its leases were freed.
    """

    id = TextField(primary_key=True)
    started_at = MomentField()
    seen_at = MomentField()
    measures = JsonField()
    is_taken_over = BooleanField(default=False)

    class Meta:
        table_name = "worker_pulses"
