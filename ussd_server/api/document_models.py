"""Keeps the schemas of the OpenAPI document few, because generated clients have one class for each.

Equal enumerations share one schema, and so do all pages and all replies of one envelope. A reply or page then names the
shared schema with `allOf` and states its own data beside it: generators for TypeScript give it exactly that type, and
those for Python read the union in the shared schema. A record that extends another record is documented as that record,
with the further fields optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_Json = dict[str, Any]
_REF = "#/components/schemas/"
# With this choice TypeScript reads a union as `unknown`, so that the operation alone decides the type.
_ANYTHING = {"description": "As the operation states."}
_PAGE_FIELDS = {"items", "next_cursor"}
# Enumerations under these names differ from record to record, so they carry the record's name too.
_GENERIC = {"action", "code", "error", "kind", "result", "severity", "state", "status", "type", "verdict"}


def narrowed(shared: str, **properties: _Json) -> _Json:
    """Return a schema that is the `shared` one, with `properties` stated more narrowly."""
    return {
        "allOf": [{"$ref": _REF + shared}],
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


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
        parent = next((known for known, view in views.items() if view in getattr(extended, "__mro__", ())[1:]), None)
        if parent:
            document = _fold(document, name, parent)
    document = _share_pages(document)
    _fill_envelopes(document)
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


def _share_pages(document: _Json) -> _Json:
    schemas = document["components"]["schemas"]
    pages = {name: schema for name, schema in schemas.items() if _is_page(schema)}
    records = [page["properties"]["items"]["items"] for page in pages.values()]
    shared: _Json = _replaced(
        document, {_REF + name: narrowed("Page", **page["properties"]) for name, page in pages.items()}
    )
    for name in pages:
        del shared["components"]["schemas"][name]
    items = {"type": "array", "items": {"anyOf": _most_exact_first(records, schemas)}}
    shared["components"]["schemas"]["Page"] = {
        "type": "object",
        "properties": {
            "items": {"anyOf": [items, _ANYTHING]},
            "next_cursor": {"type": ["string", "null"], "description": "The `cursor` of the next page."},
        },
        "required": ["items"],
    }
    return shared


def _is_page(schema: _Json) -> bool:
    properties = schema.get("properties", {})
    return (
        "items" in properties and properties.keys() <= _PAGE_FIELDS and "$ref" in properties["items"].get("items", {})
    )


def _fill_envelopes(document: _Json) -> None:
    """State in each envelope every kind of data that a reply can have."""
    schemas = document["components"]["schemas"]
    found: dict[str, list[_Json]] = {"Success": [], "ManagementSuccess": []}
    for methods in document["paths"].values():
        for operation in methods.values():
            for reply in operation["responses"].values():
                schema = reply.get("content", {}).get("application/json", {}).get("schema", {})
                if "allOf" in schema:
                    data = schema["properties"]["data"]
                    found[_name_of(schema["allOf"][0])].append(data["allOf"][0] if "allOf" in data else data)
    for name, choices in found.items():
        schemas[name]["properties"]["data"] = {"anyOf": [*_most_exact_first(choices, schemas), _ANYTHING]}


def _most_exact_first(choices: Iterable[_Json], schemas: _Json) -> list[_Json]:
    """Return each choice once. Generated readers take the first that fits, so those that require most come first."""
    different = list({str(choice): choice for choice in choices}.values())
    return sorted(different, key=lambda choice: -len(schemas.get(_name_of(choice), {}).get("required", ())))


def _name_of(reference: _Json) -> str:
    return str(reference.get("$ref", "")).removeprefix(_REF)


def _name_free_objects(document: _Json) -> None:
    """Give the objects whose members the client chooses one name."""
    schemas = document["components"]["schemas"]
    reference = {"$ref": f"{_REF}JsonObject"}
    schemas["JsonObject"] = {"type": "object", "additionalProperties": True, "description": "Any JSON object."}
    for _, _, place in list(_properties(document)):
        kind = place.get("type")
        if kind in ("object", ["object", "null"]) and not place.get("additionalProperties"):
            place.pop("additionalProperties", None)
            del place["type"]
            place |= reference if kind == "object" else {"anyOf": [reference, {"type": "null"}]}


def _name_enums(document: _Json) -> None:
    schemas = document["components"]["schemas"]
    names = {frozenset(schema["enum"]): name for name, schema in schemas.items() if "enum" in schema}
    for owner, name, place in list(_properties(document)):
        values = [value for value in place.get("enum", ()) if value is not None]
        if len(values) == 1:
            place["const"] = place.pop("enum")[0]
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
