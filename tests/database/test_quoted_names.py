"""Tests write queries with names that were quoted once; the text is that of Peewee."""

from __future__ import annotations

import peewee
import pytest

from tests.support.made_once import SHIPPED_NAMES
from ussd_server.database.tables import Table
from ussd_server.models.transactions import Transaction


def written(quote: str) -> list[tuple[str, list[object]]]:
    """Queries of every kind on every table."""
    queries = []
    for table in Table.__subclasses__():
        first, last = table._meta.sorted_fields[0], table._meta.sorted_fields[-1]
        other = table.alias()
        alias = table.alias("o")
        queries += [
            table.select().where(last == first, first.in_([last]) | last.is_null()).order_by(first.desc()).limit(3),
            table.select(first, other, peewee.fn.COUNT(last)).join(other, on=(first == getattr(other, last.name))),
            table.select(alias).join(alias, on=(first == getattr(alias, first.name))).group_by(last),
            table.update({last: peewee.fn.COALESCE(last, first)}).where(first.is_null()),
            table.insert({first: None, last: None}).returning(first),
            table.delete().where(first << Transaction.select(Transaction.id).where(Transaction.client_id == last)),
        ]
    return [peewee.Context(quote=quote).sql(query).query() for query in queries]


@pytest.mark.parametrize("quote", ['""', "``"])
def test_queries_are_written_as_peewee_writes_them(monkeypatch: pytest.MonkeyPatch, quote: str) -> None:
    ours = written(quote)
    for kind, write in SHIPPED_NAMES.items():
        monkeypatch.setattr(kind, "__sql__", write)
    assert len(ours) > 100
    assert ours == written(quote)
