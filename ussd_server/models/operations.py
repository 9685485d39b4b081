"""Tables of what keeps the service running."""

from __future__ import annotations

from peewee import BooleanField, IntegerField, TextField

from ussd_server.database.columns import IdField, JsonField, MomentField, Table


class WorkerHeartbeat(Table):
    """One worker process: its start, its last heartbeat and its counts.

    `is_taken_over`: it was silent, and its leases were freed.
    """

    id = TextField(primary_key=True)
    started_at = MomentField()
    seen_at = MomentField()
    measures = JsonField()
    is_taken_over = BooleanField(default=False)


class Examination(Table):
    """The last one of its kind, `doctor`, `check` or `full_check`. `operator` is empty for one that a command ran.

    A check that looked at everything, to its end, and found nothing is kept as `full_check` too.
    """

    kind = TextField(primary_key=True)
    ended_at = MomentField()
    machine = TextField()
    operator = TextField(null=True)
    result = JsonField()


class ReferenceKey(Table):
    """One row. `check_value` identifies the key that earlier payments were made with, without revealing it."""

    id = IntegerField(primary_key=True)
    check_value = TextField()

    class Meta:
        table_name = "reference_key"


class HistoryDigest(Table):
    """A past day (UTC): by client, the digest of its payments and their status changes, as JSON.

    `id` is the smallest id that a payment of the day can have. `first_day` is the day with which digests began, so that
    a missing row between is noticed. `digest` is over the other columns, under a master key.
    """

    id = IdField(primary_key=True)
    day = TextField()
    first_day = TextField()
    clients = TextField()
    digest = TextField()
