"""Keeps the schemas of the OpenAPI document few, because generated clients have one class for each.

Equal enumerations share one schema. A record that extends another record is documented as that record, with the further
fields optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_Json = dict[str, Any]
_REF = "#/components/schemas/"
# Enumerations under these names differ from record to record, so they carry the record's name too.
_GENERIC = {"action", "code", "error", "kind", "result", "severity", "state", "status", "type", "verdict"}


def menu_component(schema: _Json) -> _Json:
    """Return the schema of a menu document as one component.

    Its fields stand under `then`: generators of clients read a free object there, instead of fifty classes.
    """
    definitions = {f"#/$defs/{name}": {"$ref": f"{_REF}MenuDocument/then/$defs/{name}"} for name in schema["$defs"]}
    of_resource = {"$schema", "$id", "title", "description"}
    rules = {name: _replaced(value, definitions) for name, value in schema.items() if name not in of_resource}
    return {
        "type": "object",
        "additionalProperties": True,
        "description": f"{schema['description']} The same as `{schema['$id']}`.",
        "if": {},
        "then": rules,
    }


def simplify(document: _Json, views: Mapping[str, Any]) -> _Json:
    """Return the document with fewer schemas; `views` are those of replies by the names in the document."""
    for name, extended in views.items():
        parent = next((other for other, view in views.items() if view in getattr(extended, "__mro__", ())[1:]), None)
        if parent:
            document = _fold(document, name, parent)
    _name_free_objects(document)
    _name_enums(document)
    return document


def _fold(document: _Json, name: str, parent: str) -> _Json:
    extended, schema = (document["components"]["schemas"][key] for key in (name, parent))
    schema["properties"] = extended["properties"] | schema["properties"]
    del document["components"]["schemas"][name]
    renamed: _Json = _replaced(document, {_REF + name: {"$ref": _REF + parent}})
    return renamed


def _replaced(part: Any, by_reference: Mapping[str, _Json]) -> Any:
    """Return `part` with every reference that has a replacement replaced; what stands beside a reference stays."""
    if isinstance(part, dict):
        beside = {key: _replaced(value, by_reference) for key, value in part.items()}
        return beside | by_reference.get(beside.pop("$ref", ""), {"$ref": part["$ref"]}) if "$ref" in part else beside
    if isinstance(part, list):
        return [_replaced(value, by_reference) for value in part]
    return part


def _name_free_objects(document: _Json) -> None:
    """Give the objects whose members the client chooses one name."""
    schemas = document["components"]["schemas"]
    reference = {"$ref": f"{_REF}JsonObject"}
    schemas["JsonObject"] = {"type": "object", "additionalProperties": True, "description": "Any JSON object."}
    for _, _, field_schema in list(_properties(document)):
        kind = field_schema.get("type")
        if kind in ("object", ["object", "null"]) and not field_schema.get("additionalProperties"):
            field_schema.pop("additionalProperties", None)
            del field_schema["type"]
            field_schema |= reference if kind == "object" else {"anyOf": [reference, {"type": "null"}]}


def _name_enums(document: _Json) -> None:
    schemas = document["components"]["schemas"]
    names = {frozenset(schema["enum"]): name for name, schema in schemas.items() if "enum" in schema}
    for owner, name, field_schema in list(_properties(document)):
        values = [value for value in field_schema.get("enum", ()) if value is not None]
        if len(values) == 1:
            field_schema["const"] = field_schema.pop("enum")[0]
        if len(values) < 2 or not all(isinstance(value, str) for value in values):
            continue
        if frozenset(values) not in names:
            wanted = f"{owner}{_camel(name)}" if name in _GENERIC else _camel(name)
            names[frozenset(values)] = wanted if wanted not in schemas else f"{owner}{_camel(name)}"
            schemas[names[frozenset(values)]] = {"type": "string", "enum": values}
        reference = {"$ref": _REF + names[frozenset(values)]}
        is_nullable = None in field_schema["enum"]
        del field_schema["enum"]
        field_schema.pop("type", None)
        field_schema.update({"anyOf": [reference, {"type": "null"}]} if is_nullable else reference)
    document["components"]["schemas"] = dict(sorted(schemas.items()))


def _properties(document: _Json) -> Iterator[tuple[str, str, _Json]]:
    """Yield (owner, name, schema) of each property of a named schema, and of each parameter."""
    schemas = document["components"]["schemas"]
    # Replies come before requests, because they name more: `Transaction` before `CreateTransactionBody`.
    for owner in sorted(schemas, key=lambda name: name.endswith("Body")):
        for name, field_schema in schemas[owner].get("properties", {}).items():
            yield owner, name, field_schema
            if "enum" in field_schema.get("items", {}):
                yield owner, name.removesuffix("s"), field_schema["items"]
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                yield _camel(operation["operationId"]), parameter["name"], parameter["schema"]


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
