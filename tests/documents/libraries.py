"""Writes what the client libraries share with the API document: its operations and its models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLIENTS = Path(__file__).resolve().parents[2] / "clients"
_Json = dict[str, Any]
_JSON = "application/json"
_ENDINGS = {"text/csv": "csv", "image/svg+xml": "svg"}


@dataclass(frozen=True)
class Operation:
    """One operation of the data API, as both libraries write it."""

    name: str
    method: str
    path: str
    about: str
    segments: list[str]
    query: list[_Json]
    body: _Json | None
    needs_body: bool
    content_types: list[str]
    reply: _Json
    streams: dict[str, str]
    """Endings of names by content types of replies that are no JSON."""

    @property
    def template(self) -> str:
        """The path with empty brackets."""
        return re.sub(r"{\w+}", "{}", self.path)

    @property
    def iterator(self) -> str:
        """The name of what iterates over all pages; empty where there are no pages."""
        paged = any(each["name"] == "cursor" for each in self.query)
        return "iterate_" + self.name.partition("_")[2] if paged else ""


def operations(document: _Json) -> Iterator[Operation]:
    """Yield every operation that takes an API key, in the document's order."""
    for path, methods in document["paths"].items():
        for method, stated in methods.items():
            if any("apiKey" in each for each in stated["security"]):
                yield _operation(path, method, stated)


def _operation(path: str, method: str, stated: _Json) -> Operation:
    content = next(reply["content"] for status, reply in stated["responses"].items() if status.startswith("2"))
    bodies = stated.get("requestBody", {}).get("content", {})
    parameters = stated.get("parameters", [])
    return Operation(
        name=stated["operationId"],
        method=method.upper(),
        path=path,
        about=stated["description"].partition("\n\nErrors:")[0],
        segments=re.findall(r"{(\w+)}", path),
        query=[each for each in parameters if each["in"] == "query"],
        body=bodies[_JSON]["schema"] if bodies else None,
        needs_body=stated.get("requestBody", {}).get("required", False),
        content_types=list(bodies),
        reply=content[_JSON]["schema"]["properties"]["data"],
        streams={kind: _ENDINGS[kind] for kind in content if kind != _JSON},
    )


def models(document: _Json) -> dict[str, _Json]:
    """Return the schemas that the operations use, by name, in the document's order."""
    everything: dict[str, _Json] = document["components"]["schemas"]
    used: set[str] = set()
    left = [schema for each in operations(document) for schema in (each.reply, each.body or {})]
    while left:
        new = _named(left.pop()) - used
        used |= new
        left.extend(everything[name] for name in new)
    return {name: schema for name, schema in everything.items() if name in used}


def item_of(schema: _Json, schemas: dict[str, _Json]) -> _Json:
    """Return the schema of the items of a page."""
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    item: _Json = schema["properties"]["items"]["items"]
    return item


def money_fields(document: _Json) -> list[str]:
    """Return the names of fields that are amounts."""
    return sorted({name for name, each in _fields(document) if is_money(each)})


def opaque_fields(document: _Json) -> list[str]:
    """Return the names of fields that hold what the client stored, in its own shape."""
    return sorted({name for name, each in _fields(document) if "JsonObject" in _named(each)})


def _fields(document: _Json) -> Iterator[tuple[str, _Json]]:
    for schema in models(document).values():
        yield from schema.get("properties", {}).items()


def is_money(schema: _Json) -> bool:
    """Whether a field is an amount of shillings in a reply: numbers that can have decimals, with the usual example."""
    return "number" in _types(schema) and not {5000, -5000}.isdisjoint(schema.get("examples", []))


def _types(schema: _Json) -> list[str]:
    stated = schema.get("type", [])
    return [stated] if isinstance(stated, str) else stated


def _named(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_named, schema))
    if not isinstance(schema, dict):
        return set()
    # The definitions within the schema of a menu have no types of their own.
    place, _, name = str(schema.get("$ref", "")).rpartition("/")
    own = {name} if place == "#/components/schemas" else set()
    return own.union(*map(_named, schema.values()))


def type_of(schema: _Json, words: dict[str, str]) -> str:
    """Return the type of a schema, in the words of a language."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        numbers = any("number" in _types(each) for each in alternatives)
        kept = [words["amount_given"]] if numbers else []
        kept += [type_of(each, words) for each in alternatives if not numbers or _types(each) == ["null"]]
        return " | ".join(dict.fromkeys(kept))
    if "const" in schema:
        return words["literal"].format(_quoted(schema["const"]))
    if "enum" in schema:
        return words["literal"].format(words["or"].join(map(_quoted, schema["enum"])))
    return " | ".join(_plain(kind, schema, words) for kind in _types(schema)) or words["any"]


def _plain(kind: str, schema: _Json, words: dict[str, str]) -> str:
    if kind == "array":
        return words["array"].format(type_of(schema["items"], words))
    if kind == "object":
        inner = schema.get("additionalProperties")
        return words["object"].format(type_of(inner, words) if isinstance(inner, dict) else words["any"])
    return words["amount"] if kind == "number" and is_money(schema) else words[kind]


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
