"""Views of rows: a view whose fields are named like the columns of a table is made from a row."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

_View = TypeVar("_View")


def view_of_row(view: Callable[..., _View], row: Any, **given: Any) -> _View:
    """Return a view of a row. `given` are the fields that are no columns of the row, or differ from them."""
    columns = row.__data__  # an attribute of the model takes ten times as long
    for name, kind in _fields(view):
        if name not in given:
            value = columns[name] if name in columns else getattr(row, name)
            given[name] = value if kind is None or value is None else kind(value)
    return view(**given)


@cache
def _fields(view: Any) -> tuple[tuple[str, type[Enum] | None], ...]:
    """Return the names of a view's fields, with the enumeration of each whose values are one."""
    return tuple((name, _enumeration(hint)) for name, hint in get_type_hints(view).items())


def _enumeration(hint: Any) -> type[Enum] | None:
    kinds = (hint, *get_args(hint))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)), None)
