"""What the schemas say of themselves is true: examples are accepted, and every name has a meaning."""

from __future__ import annotations

import importlib
import pkgutil

from marshmallow import INCLUDE, Schema

import schemas
from schemas.envelopes import Body, Record
from schemas.meanings import meaning_of


def taken_and_given(kind: type[Schema]) -> list[type[Schema]]:
    """Every schema of the wire of a kind."""
    for room in pkgutil.iter_modules(schemas.__path__):
        importlib.import_module(f"schemas.{room.name}")
    found = list(kind.__subclasses__())
    for schema in found:
        found += schema.__subclasses__()
    return [schema for schema in found if schema.__module__.startswith("schemas.")]


def test_every_example_is_accepted_by_its_own_schema() -> None:
    for schema in taken_and_given(Body):
        needed = [field for field in schema().fields.values() if field.required]
        assert schema.example or not needed, schema
        if schema().opts.unknown != INCLUDE and needed:
            schema().load(dict(schema.example))


def test_every_name_on_the_wire_has_a_meaning() -> None:
    for schema in taken_and_given(Body) + taken_and_given(Record):
        for name, field in schema().fields.items():
            assert meaning_of(field.data_key or name, schema), (schema, name)
