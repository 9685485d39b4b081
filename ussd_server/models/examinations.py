"""The last results of the doctor and of the check of the books."""

from __future__ import annotations

from peewee import TextField

from ussd_server.database.columns import JsonField, MomentField, Table


class Examination(Table):
    """The last one of its kind, `doctor` or `check`. `operator` is empty for one that a command ran."""

    kind = TextField(primary_key=True)
    ended_at = MomentField()
    machine = TextField()
    operator = TextField(null=True)
    result = JsonField()

    class Meta:
        table_name = "examinations"
