"""The examples of the schemas are valid, and every field has a meaning."""

from __future__ import annotations

import importlib
import pkgutil

from marshmallow import INCLUDE

import schemas
from schemas.envelopes import Body


def all_bodies() -> list[type[Body]]:
    """Every body and query of the API."""
    for module in pkgutil.iter_modules(schemas.__path__):
        importlib.import_module(f"schemas.{module.name}")
    found = list(Body.__subclasses__())
    for schema in found:
        found += schema.__subclasses__()
    return [schema for schema in found if schema.__module__.startswith("schemas.")]


def test_every_example_is_accepted_by_its_own_schema() -> None:
    for schema in all_bodies():
        needed = [field for field in schema().fields.values() if field.required]
        assert schema.example or not needed, schema
        if schema().opts.unknown != INCLUDE and needed:
            schema().load(dict(schema.example))


def test_every_field_that_a_caller_sends_has_a_meaning() -> None:
    for schema in all_bodies():
        for name, field in schema().fields.items():
            assert field.metadata.get("description"), (schema, name)
