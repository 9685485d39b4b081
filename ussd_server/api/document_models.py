"""Keeps the schemas of the OpenAPI document few, because generated clients have one class for each.

Equal enumerations share one schema. A record that extends another record is documented as that record, with the further
fields optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from marshmallow import Schema

from schemas.envelopes import Record

_Json = dict[str, Any]
_REF = "#/components/schemas/"
# Enumerations under these names differ from record to record, so they carry the record's name too.
_GENERIC = {"action", "code", "error", "kind", "result", "severity", "state", "status", "type", "verdict"}


def simplify(document: _Json, schemas: Mapping[str, type[Schema]]) -> _Json:
    """Return the document with fewer schemas; `schemas` are the classes by the names in the document."""
    for name, extended in schemas.items():
        parent = next((known for known in schemas if _is_extension(extended, schemas[known])), None)
        if parent:
            document = _fold(document, name, parent)
    _shorten_choices(document)
    _name_enums(document)
    return document


def _is_extension(extended: type[Schema], of: type[Schema]) -> bool:
    return issubclass(of, Record) and of in extended.__mro__[1:]


def _fold(document: _Json, name: str, parent: str) -> _Json:
    extended, schema = (document["components"]["schemas"][key] for key in (name, parent))
    schema["properties"] = extended["properties"] | schema["properties"]
    del document["components"]["schemas"][name]
    renamed: _Json = _renamed(document, _REF + name, _REF + parent)
    return renamed


def _renamed(part: Any, old: str, new: str) -> Any:
    if isinstance(part, dict):
        return {key: _renamed(value, old, new) for key, value in part.items()}
    if isinstance(part, list):
        return [_renamed(value, old, new) for value in part]
    return new if part == old else part


def _shorten_choices(document: _Json) -> None:
    """Drop repeated choices, and the choice itself where one is left."""
    for schema in document["components"]["schemas"].values():
        for place in schema.get("properties", {}).values():
            given = place.pop("anyOf", [])
            choices = [choice for index, choice in enumerate(given) if choice not in given[:index]]
            place.update(choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


def _name_enums(document: _Json) -> None:
    schemas = document["components"]["schemas"]
    names: dict[frozenset[str], str] = {}
    for owner, name, place in list(_properties(document)):
        values = [value for value in place.get("enum", ()) if value is not None]
        if len(values) < 2 or not all(isinstance(value, str) for value in values):
            continue
        if frozenset(values) not in names:
            wanted = f"{owner}{_camel(name)}" if name in _GENERIC else _camel(name)
            names[frozenset(values)] = wanted if wanted not in schemas else f"{owner}{_camel(name)}"
            schemas[names[frozenset(values)]] = {"type": "string", "enum": values}
        reference = {"$ref": _REF + names[frozenset(values)]}
        is_nullable = None in place["enum"]
        del place["enum"]
        place.pop("type", None)
        place.update({"anyOf": [reference, {"type": "null"}]} if is_nullable else reference)
    document["components"]["schemas"] = dict(sorted(schemas.items()))


def _properties(document: _Json) -> Iterator[tuple[str, str, _Json]]:
    """Yield (owner, name, schema) of each property of a named schema, and of each parameter."""
    schemas = document["components"]["schemas"]
    # Replies come before requests, because they name more: `Transaction` before `CreateTransactionBody`.
    for owner in sorted(schemas, key=lambda name: name.endswith("Body")):
        for name, place in schemas[owner].get("properties", {}).items():
            yield owner, name, place
            if "enum" in place.get("items", {}):
                yield owner, name.removesuffix("s"), place["items"]
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                yield _camel(operation["operationId"]), parameter["name"], parameter["schema"]


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
