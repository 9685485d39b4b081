"""Prepared queries: put into words once, because for a wide table that takes longer than running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from peewee import AsIs, Field, Query

from ussd_server.models.base import database


class _Blank(NamedTuple):
    """A place in a query that is filled in at every call."""

    name: str
    convert: Callable[[Any], Any]


def blank(field: Field, name: str = "") -> Any:
    """A place for a value of `field`, filled in under `name`, or the field's own name."""
    return AsIs(_Blank(name or field.name, field.db_value), converter=False)


class Prepared:
    """A query with blanks. `make` builds it when it is first needed, once for each kind of database."""

    def __init__(self, make: Callable[[], Query]) -> None:
        self._make = make
        self._written: dict[type, tuple[str, Sequence[Any]]] = {}

    def rows(self, model: Any, **values: Any) -> list[Any]:
        """Run a SELECT; give rows of `model`, with whatever else was selected as attributes of its name."""
        found = database.execute_sql(*self._fill(values))
        names = [column[0] for column in found.description]
        fields = [model._meta.fields.get(name) for name in names]
        return [
            model(
                **{
                    name: value if field is None else field.python_value(value)
                    for name, field, value in zip(names, fields, row, strict=True)
                }
            )
            for row in found.fetchall()
        ]

    def first(self, model: Any, **values: Any) -> Any:
        """Run a SELECT; give its first row as `rows` does, or None."""
        return next(iter(self.rows(model, **values)), None)

    def run(self, **values: Any) -> int:
        """Run an INSERT or UPDATE; give the number of rows that it touched."""
        return database.rows_affected(database.execute_sql(*self._fill(values)))  # type: ignore[no-any-return]

    def _fill(self, values: dict[str, Any]) -> tuple[str, list[Any]]:
        kind = type(database.obj)
        if kind not in self._written:
            self._written[kind] = self._make().sql()
        sql, parameters = self._written[kind]
        return sql, [each.convert(values[each.name]) if isinstance(each, _Blank) else each for each in parameters]
