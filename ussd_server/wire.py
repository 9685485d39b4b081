"""Views: dataclasses (or named tuples) declared once; their values come from rows, their JSON and schema from fields.

A field that callers see states its meaning: `Annotated[str, "One sentence."]`. A field that is for the service alone is
marked, `Internal[str]`, and never written. Amounts are `Cents` inside and shillings in JSON, under the name without
`_cents`. The envelopes of replies stand at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from ussd_server.values import iso_milliseconds, shillings

_Json = dict[str, Any]
_Item = TypeVar("_Item", covariant=True)
_Mark = TypeVar("_Mark")

_MOMENT: _Json = {"type": "string", "format": "date-time", "examples": ["2026-11-20T08:15:30.123Z"]}
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_CONVERTERS: dict[Any, Callable[[Any], Any] | None] = {
    str: None,
    int: None,
    bool: None,
    Any: None,
    None: None,
    float: float,
    datetime: iso_milliseconds,
}
"""Converters by type; None: written unchanged."""


@dataclass(frozen=True, eq=False)
class Form:
    """JSON schema and converter of a value whose type does not determine them; None: written unchanged."""

    schema: Mapping[str, Any]
    write: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Key:
    """The name of a field in JSON, where it is not the field's own."""

    name: str


@dataclass(frozen=True)
class Length:
    """The bounds of a text, in characters, and the pattern that all of it matches. Of an object: as it is written out.

    A field of a message that has a meaning and a length is a field of the body, too (`schemas.fields.fields_of`).
    """

    shortest: int
    longest: int
    pattern: str | None = None


WEB_ADDRESS = Length(1, 2048, r"https?://[!-~]+")
"""The address of a client's server, which may hold a password."""


class _Internal:
    """The mark of a field that is for the service alone."""


_Value = TypeVar("_Value")
Internal = Annotated[_Value, _Internal()]


class Sparse:
    """Views of this base omit fields that are None; other views always have every field."""

    __slots__ = ()


def one_of(*values: str) -> Form:
    return Form({"type": "string", "enum": list(values)})


Cents = Annotated[int, Form({"type": "number", "minimum": 0, "examples": [5000]}, shillings)]
SignedCents = Annotated[int, Form({"type": "number", "examples": [-5000]}, shillings)]
WrittenMoment = Annotated[str, Form(_MOMENT)]
"""A moment that was written by `iso_milliseconds` or by the database."""


@dataclass(frozen=True, slots=True)
class Page(Generic[_Item]):
    """One page of a list; `next_cursor` is None on the last."""

    items: Annotated[tuple[_Item, ...], "The entries of this page."]
    next_cursor: Annotated[str | None, "The `cursor` of the next page; null on the last."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """Request for a page of a list, newest first: at most `limit` entries (1 to 100), those behind `cursor`."""

    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPeriod(ListPage):
    """Request for a page of what was created from `from_at` (included) to `to_at` (not included)."""

    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Items(Generic[_Item]):
    """A list that is never so long that it needs a second page."""

    items: Annotated[tuple[_Item, ...], "The entries of this page."]


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """What was deleted, and when."""

    deleted_id: Annotated[str, "What was deleted."]
    deleted_at: Annotated[datetime, "When it was deleted."]


class _Field(NamedTuple):
    key: str
    name: str
    hint: Any
    meaning: str


def _is_view(hint: Any) -> bool:
    """Return whether a type is written as an object: a class, or a `Page` or `Items` of one, with fields."""
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields"))


def keys_of(view: Any) -> tuple[str, ...]:
    """Return the names of a view's fields in JSON, in their order."""
    return tuple(field.key for field in _fields(view))


@cache
def names_in_json(view: Any) -> Mapping[str, str]:
    """Return the names in JSON of all fields of a view, `Internal` ones too, by their own."""
    return {name: _key(name, hint) for name, hint in get_type_hints(view, include_extras=True).items()}


def fields_without(message: Any, *marks: type) -> tuple[str, ...]:
    """Return the names of a message's fields that are `Annotated` with none of these marks."""
    hints = get_type_hints(message, include_extras=True)
    return tuple(name for name, hint in hints.items() if not any(marks_of(hint, mark) for mark in marks))


def marks_of(hint: Any, kind: type[_Mark]) -> list[_Mark]:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return [mark for mark in marks if isinstance(mark, kind)]


@cache
def writer(hint: Any) -> Callable[[Any], Any]:
    """Return the function that turns a value of this type into JSON values. TypeError for a type without one."""
    return _converter(hint) or _unchanged


def schema_of(hint: Any, refer: Callable[[Any], _Json]) -> _Json:
    """Return the JSON Schema of a type. `refer` returns the schema in place of a view's own, such as a `$ref`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        form = _form(hint)
        return dict(form.schema) if form else schema_of(arguments[0], refer)
    if origin in (Union, UnionType):
        return _nullable(schema_of(_without_none(hint), refer))
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0], refer)}
    if _is_view(hint):
        return refer(hint)
    if _is_enumeration(hint):
        return {"type": "string", "enum": [each.value for each in hint]}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], refer)}
    if hint is datetime:
        return dict(_MOMENT)
    return {} if hint is Any else {"type": _TYPES[hint]}


def object_schema(view: Any, refer: Callable[[Any], _Json]) -> _Json:
    """Return the JSON Schema of a view's own object."""
    is_sparse = _is_sparse(view)
    properties = {
        field.key: schema_of(_not_null(field.hint) if is_sparse else field.hint, refer) | {"description": field.meaning}
        for field in _fields(view)
    }
    required = {} if is_sparse else {"required": sorted(properties)}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


@cache
def _fields(view: Any) -> tuple[_Field, ...]:
    """Return the fields of a view that callers see. TypeError for one with no meaning that is not `Internal`."""
    hints, arguments = get_type_hints(get_origin(view) or view, include_extras=True), get_args(view)
    return tuple(
        _Field(key, name, hint[arguments] if getattr(hint, "__parameters__", ()) else hint, meaning)
        for name, hint in hints.items()
        for key, meaning in _key_and_meaning(name, hint)
    )


def _key_and_meaning(name: str, hint: Any) -> Iterator[tuple[str, str]]:
    """Yield a field's name in JSON and its meaning; nothing for a field that is `Internal`."""
    meanings = marks_of(hint, str)
    if not meanings and not marks_of(hint, _Internal):
        raise TypeError(f"The field {name} states no meaning and is not Internal")
    yield from ((_key(name, hint), meaning) for meaning in meanings)


def _key(name: str, hint: Any) -> str:
    return next((mark.name for mark in marks_of(hint, Key)), name.removesuffix("_cents"))


def _object_writer(view: Any) -> Callable[[Any], Any]:
    fields = _fields(view)
    keys, values_of = tuple(field.key for field in fields), _getter([field.name for field in fields])
    converters = [(field.key, convert) for field in fields if (convert := _converter(field.hint)) is not None]

    def write(item: Any) -> _Json:
        record = dict(zip(keys, values_of(item), strict=True))
        for key, convert in converters:
            value = record[key]
            if value is not None:
                record[key] = convert(value)
        return record

    def write_without_nulls(item: Any) -> _Json:
        return {key: value for key, value in write(item).items() if value is not None}

    def leave_to_orjson(item: Any) -> Any:
        return item if type(item) is view else write(item)

    if _is_sparse(view):
        return write_without_nulls
    return leave_to_orjson if not converters and _orjson_writes(view, keys) else write


def _orjson_writes(view: Any, keys: tuple[str, ...]) -> bool:
    """Return whether orjson itself writes objects of this view, with just these keys: dataclasses without slots."""
    return not hasattr(view, "__slots__") and keys == tuple(getattr(view, "__dataclass_fields__", ()))


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    get: Any = attrgetter(*names)
    return get if len(names) > 1 else lambda item: (get(item),)


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return the function that turns a value of this type into JSON values; None: written unchanged."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        form = _form(hint)
        return form.write if form else _converter(arguments[0])
    if origin in (Union, UnionType):
        return _converter(_without_none(hint))
    if origin is tuple:
        return _list_converter(_converter(arguments[0]))
    if _is_view(hint):
        return _object_writer(hint)
    if origin in (dict, Mapping):
        return _mapping_converter(_converter(arguments[1]))
    if hint in _CONVERTERS or _is_enumeration(hint):
        return _CONVERTERS.get(hint)
    raise TypeError(f"A reply cannot show {hint}")


def _is_enumeration(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _list_converter(each: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if each is None else lambda values: [each(value) for value in values]


def _mapping_converter(each: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if each is None else lambda values: {str(key): each(value) for key, value in values.items()}


def _form(hint: Any) -> Form | None:
    return next(iter(marks_of(hint, Form)), None)


def _without_none(hint: Any) -> Any:
    """Return the one type beside None. ValueError for a choice between several."""
    (kind,) = (each for each in get_args(hint) if each is not NoneType)
    return kind


def _not_null(hint: Any) -> Any:
    """Return the type of a field of a `Sparse` view without its None: the field is left out instead."""
    value = get_args(hint)[0]
    return _without_none(value) if get_origin(value) in (Union, UnionType) else hint


def _nullable(schema: _Json) -> _Json:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    null = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return schema | {"type": [schema["type"], "null"]} | null


def _is_sparse(view: Any) -> bool:
    return isinstance(view, type) and issubclass(view, Sparse)


def _unchanged(value: Any) -> Any:
    return value


_View = TypeVar("_View")


def view_of_row(view: Callable[..., _View], row: Any, **values: Any) -> _View:
    """Return a view of a row. `values` are the fields that are no columns of the row, or differ from them."""
    columns = columns_of(row)
    for name, kind in _view_fields(view):
        if name not in values:
            value = columns[name] if name in columns else getattr(row, name)
            values[name] = value if kind is None or value is None else kind(value)
    return view(**values)


def columns_of(row: Any) -> dict[str, Any]:
    """Return the values of a row by column. Who changes the mapping changes the row.

    Only here is Peewee's mapping of a row touched: the 51 columns of a payment take 5 us, as attributes of the row 22.
    """
    columns: dict[str, Any] = row.__data__
    return columns


@cache
def _view_fields(view: Any) -> tuple[tuple[str, type[Enum] | None], ...]:
    """Return the names of a view's fields, with the enumeration of each whose values are one."""
    return tuple((name, _enumeration(hint)) for name, hint in get_type_hints(view).items())


def _enumeration(hint: Any) -> type[Enum] | None:
    kinds = (hint, *get_args(hint))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)), None)


def management_envelope(status: int, message: str, data: Any) -> dict[str, Any]:
    """The envelope of the key-management endpoints; `data` is None on errors."""
    return {"status": status, "message": message, "data": data}


def success_envelope(message: str, data: Any) -> dict[str, Any]:
    return {"success": True, "data": data, "message": message}


def error_envelope(error: str, message: str, now: datetime) -> dict[str, Any]:
    """The general envelope of an error: these four fields and no other."""
    return {"success": False, "error": error, "message": message, "timestamp": iso_milliseconds(now)}
