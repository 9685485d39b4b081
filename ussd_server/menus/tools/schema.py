"""The JSON Schema of a menu document, for editors: it has the fields and bounds of the readers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ussd_server.menus.document import expressions, templates
from ussd_server.menus.document.bounds import MAX_LANGUAGES, MAX_VARIABLES
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.fields import NAME as NAME_PATTERN
from ussd_server.menus.document.fields import DocumentFields
from ussd_server.menus.document.kinds import (
    BOOLEAN,
    LANGUAGE,
    NODE,
    TEXT,
    WRITTEN_EXPRESSION,
    DeclaredField,
    Kind,
    Schema,
    described,
    fields_schema,
    mapping,
    object_schema,
    one_of,
    whole,
)
from ussd_server.menus.document.nodes import NODES
from ussd_server.menus.document.rules import RULES
from ussd_server.menus.document.variables import MAX_DIGITS, MAX_ITEMS, MAX_TEXT, TYPES
from ussd_server.menus.tools.scripts import Script


def record(fields: Mapping[str, tuple[Kind, str]], *, is_needed: bool = False) -> Schema:
    """Return an object with these fields, each with its meaning; it needs all of them, or none."""
    return fields_schema(
        [DeclaredField(name, name, kind, meaning, not is_needed) for name, (kind, meaning) in fields.items()]
    )


def when(tag: str, values: list[str], then: Schema, otherwise: Schema | None = None) -> Schema:
    """Return the part of a schema that depends on the value of the field `tag`."""
    return {"if": {"properties": {tag: {"enum": values}}, "required": [tag]}, "then": then, "else": otherwise or {}}


_MAGNITUDE: Schema = {"minimum": -expressions.MAX_MAGNITUDE, "maximum": expressions.MAX_MAGNITUDE}
_VALUE_TYPES = [name for name in TYPES if name != "list"]
_VARIABLE_FIELDS = {
    "type": (one_of(*_VALUE_TYPES), "`amount`, `integer`, `phone`, `date`, `text` or `list`"),
    "max_len": (whole(1, MAX_TEXT), "digits or characters; the check measures screens with it"),
    "overflow": (one_of("refuse", "truncate"), "a longer text: `refuse` (default) or `truncate`"),
    "given": (
        BOOLEAN,
        "`true`: the server fills it when the session begins; `statement` has the latest payments",
    ),
}
_NO_LENGTH: Schema = {"properties": {"max_len": False}}
_OF_TYPES = [
    when("type", ["list"], _NO_LENGTH, {"properties": {"max_items": False, "fields": False}}),
    when("type", ["phone", "date"], _NO_LENGTH),
    when("type", ["amount", "integer"], {"properties": {"max_len": {"maximum": MAX_DIGITS}}}),
]
"""The fields that belong to some types of variables."""
_FIELDS_OF_ITEMS = mapping({**record(_VARIABLE_FIELDS), "allOf": _OF_TYPES[1:]}, MAX_VARIABLES)
_VARIABLE = record(
    {
        **_VARIABLE_FIELDS,
        "type": (one_of(*TYPES), _VARIABLE_FIELDS["type"][1]),
        "max_items": (
            whole(1, MAX_ITEMS),
            "of a list: how many items stand on a page, default 10; it has at most 50 in all",
        ),
        "fields": (Kind(_FIELDS_OF_ITEMS, DocumentFields.entries), "of a list: the variables of each item"),
    }
)
NODE_FIELDS = {name: described(kind) for name, kind in NODES.items()}
NODE_FIELDS["pay"] |= when(
    "kind",
    ["transfer"],
    {"properties": {"to_phone_number": {}}, "required": ["to_phone_number"]},
    {"properties": {"to_phone_number": False}},
)
RULE_FIELDS = {name: described(kind) for name, kind in RULES.items()}
DOCUMENT_FIELDS = object_schema(Document)


@lru_cache(maxsize=1)
def menu_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a menu document."""
    texts = {"type": "string", "maxLength": templates.MAX_CHARACTERS}
    goto = record({"goto": (NODE, "the next node")}, is_needed=True)
    end = record({"end": (TEXT, "the text of a last screen")}, is_needed=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "/menu.schema.json",
        "title": "USSD menu",
        "description": "A menu as a client publishes it. The check of a menu finds more than this schema can say.",
        **DOCUMENT_FIELDS,
        "$defs": {
            "text": {"anyOf": [texts, {**mapping(texts, MAX_LANGUAGES, LANGUAGE.schema["pattern"])}]},
            "name": {"type": "string", "pattern": f"^{NAME_PATTERN.pattern}$"},
            "expression": {"anyOf": [WRITTEN_EXPRESSION, {"type": ["number", "boolean"], **_MAGNITUDE}]},
            "branch": {"anyOf": [NODE.schema, goto, end]},
            "variable": {**_VARIABLE, "allOf": _OF_TYPES},
            "rule": _kinds("rule", RULE_FIELDS),
            "node": _kinds("type", NODE_FIELDS),
            "script": object_schema(Script),
        },
    }


def _kinds(tag: str, kinds: dict[str, Schema]) -> Schema:
    """Return the schema of an object whose fields depend on its field `tag`."""
    cases = [
        {
            "if": {"properties": {tag: {"const": name}}, "required": [tag]},
            "then": {**fields, "properties": {tag: {}, **fields["properties"]}},
        }
        for name, fields in kinds.items()
    ]
    return {"type": "object", "required": [tag], "properties": {tag: one_of(*kinds).schema}, "allOf": cases}
