"""The examples of the schemas are valid, and every field has a meaning."""

from __future__ import annotations

import importlib
import pkgutil

from marshmallow import INCLUDE, Schema

import schemas
from schemas.envelopes import Body, Record
from schemas.meanings import meaning_of


def schemas_of(kind: type[Schema]) -> list[type[Schema]]:
    """Every schema of the API that derives from `kind`."""
    for module in pkgutil.iter_modules(schemas.__path__):
        importlib.import_module(f"schemas.{module.name}")
    found = list(kind.__subclasses__())
    for schema in found:
        found += schema.__subclasses__()
    return [schema for schema in found if schema.__module__.startswith("schemas.")]


def test_every_example_is_accepted_by_its_own_schema() -> None:
    for schema in schemas_of(Body):
        needed = [field for field in schema().fields.values() if field.required]
        assert schema.example or not needed, schema
        if schema().opts.unknown != INCLUDE and needed:
            schema().load(dict(schema.example))


def test_every_field_of_the_api_has_a_meaning() -> None:
    for schema in schemas_of(Body) + schemas_of(Record):
        for name, field in schema().fields.items():
            assert meaning_of(field.data_key or name, schema), (schema, name)
