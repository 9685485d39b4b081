"""Digests of past days: the payments that each had, and their histories."""

from __future__ import annotations

from peewee import TextField

from ussd_server.database.columns import IdField, Table


class HistoryDigest(Table):
    """What one day (UTC) had when it was over: by client, the digest of its payments and their status changes, as JSON.

    `id` is the smallest id that a payment of the day can have. `first_day` is the day with which digests began, so that
    a missing row between is noticed. `digest` is over the other columns, under a master key.
    """

    id = IdField(primary_key=True)
    day = TextField()
    first_day = TextField()
    clients = TextField()
    digest = TextField()

    class Meta:
        table_name = "history_digests"
