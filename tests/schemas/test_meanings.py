"""Every field that a caller sends has a meaning."""

from __future__ import annotations

import importlib
import pkgutil

import schemas
from schemas.fields import Body


def all_bodies() -> list[type[Body]]:
    """Every body and query of the API."""
    for module in pkgutil.iter_modules(schemas.__path__):
        importlib.import_module(f"schemas.{module.name}")
    found = list(Body.__subclasses__())
    for schema in found:
        found += schema.__subclasses__()
    return [schema for schema in found if schema.__module__.startswith("schemas.")]


def test_every_field_that_a_caller_sends_has_a_meaning() -> None:
    for schema in all_bodies():
        for name, field in schema().fields.items():
            assert field.metadata.get("description"), (schema, name)
