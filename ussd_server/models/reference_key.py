"""Which reference key the payments of this database were made with."""

from __future__ import annotations

from peewee import IntegerField, TextField

from ussd_server.database.columns import Table


class ReferenceKey(Table):
    """One row. `check_value` tells whether a key is the one that earlier payments were made with; it is not the key."""

    id = IntegerField(primary_key=True)
    check_value = TextField()

    class Meta:
        table_name = "reference_key"
