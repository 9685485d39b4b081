"""The JSON Schema of a menu document, for editors: it has the fields and bounds of the readers beside it."""

from __future__ import annotations

from functools import lru_cache

from ussd_server.menus.document import expressions, templates
from ussd_server.menus.document.bounds import MAX_LANGUAGES, MAX_NETWORKS, MAX_NODES, MAX_VARIABLES
from ussd_server.menus.document.document import NAVIGATION
from ussd_server.menus.document.fields import NAME as NAME_PATTERN
from ussd_server.menus.document.kinds import (
    BOOLEAN,
    KEY,
    LANGUAGE,
    NODE,
    STRING,
    TEXT,
    WRITTEN_EXPRESSION,
    Kind,
    Schema,
    array,
    described,
    mapping,
    object_schema,
    one_of,
    ref,
    string,
    whole,
)
from ussd_server.menus.document.nodes import NODES
from ussd_server.menus.document.rules import RULES
from ussd_server.menus.document.variables import MAX_DIGITS, MAX_ITEMS, MAX_TEXT, TYPES
from ussd_server.menus.text import MAX_SEPTETS, MAX_UCS2, MIN_SEPTETS, MIN_UCS2
from ussd_server.menus.tools.scripts import MAX_SCRIPTS, Script


def record(required: str, /, **fields: tuple[Kind | Schema, str]) -> Schema:
    """Return an object with these fields, each with its meaning; `required` names those that it needs."""
    schemas = {
        name: (kind.schema if isinstance(kind, Kind) else kind, meaning) for name, (kind, meaning) in fields.items()
    }
    return {
        "type": "object",
        "properties": {name: {**schema, "description": meaning} for name, (schema, meaning) in schemas.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


def when(tag: str, values: list[str], then: Schema, otherwise: Schema | None = None) -> Schema:
    """Return the part of a schema that depends on the value of the field `tag`."""
    return {"if": {"properties": {tag: {"enum": values}}, "required": [tag]}, "then": then, "else": otherwise or {}}


_MAGNITUDE: Schema = {"minimum": -expressions.MAX_MAGNITUDE, "maximum": expressions.MAX_MAGNITUDE}
_LABEL = mapping(string(20).schema)
_NAVIGATION_KEY: Schema = {"type": "string", "pattern": f"^{KEY.pattern}$"}

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
_VARIABLE = record(
    "",
    **_VARIABLE_FIELDS | {"type": (one_of(*TYPES), _VARIABLE_FIELDS["type"][1])},
    max_items=(whole(1, MAX_ITEMS), "of a list: how many items"),
    fields=(
        mapping({**record("", **_VARIABLE_FIELDS), "allOf": _OF_TYPES[1:]}, MAX_VARIABLES),
        "of a list: the variables of each item",
    ),
)
_BUDGET = {
    "septets": (whole(MIN_SEPTETS, MAX_SEPTETS), "length in the GSM alphabet, 80 to 182, default 160"),
    "ucs2": (whole(MIN_UCS2, MAX_UCS2), "length with other letters, 40 to 80, default 70"),
}
NODE_FIELDS = {name: described(kind) for name, kind in NODES.items()}
NODE_FIELDS["pay"] |= when(
    "kind",
    ["transfer"],
    {"properties": {"to_phone_number": {}}, "required": ["to_phone_number"]},
    {"properties": {"to_phone_number": False}},
)
RULE_FIELDS = {name: described(kind) for name, kind in RULES.items()}

DOCUMENT_FIELDS = record(
    "id start nodes",
    **{"$schema": (STRING, "the address of the schema, for editors of JSON")},
    id=(string(64), "the menu's id, 1 to 64 characters"),
    title=(
        string(100),
        'shown in the diagram and in "Your payment of UGX 5,000 to TITLE succeeded."',
    ),
    start=(NODE, "the first node"),
    default_language=(LANGUAGE, "the language of subscribers who chose none; default `en`"),
    languages=(
        {**array(LANGUAGE.schema, MAX_LANGUAGES), "uniqueItems": True},
        "codes such as `en`, `lg`; every text needs each of them",
    ),
    fallback=(BOOLEAN, "`true` lets a text that a language lacks appear in the default language"),
    limits=(
        record(
            "",
            **_BUDGET,
            networks=(
                mapping(record("", **_BUDGET), MAX_NETWORKS, "^[0-9A-Za-z]{1,10}$"),
                "other limits by network code",
            ),
        ),
        "how long a screen may be",
    ),
    nav=(
        record(
            "",
            back=(_NAVIGATION_KEY, "the key to the screen before, default `0`"),
            home=(_NAVIGATION_KEY, "the key to the first node, default `00`"),
            more=(_NAVIGATION_KEY, "the key to the next page, default `98`"),
            prev=(_NAVIGATION_KEY, "the key to the page before, default `99`"),
            labels=(
                record(
                    "",
                    **{name: (_LABEL, f"the name of the key `{name}`") for name in NAVIGATION},
                    yes=(_LABEL, "the first answer of a confirmation"),
                    no=(_LABEL, "the second answer of a confirmation"),
                    **{"continue": (_LABEL, "the key that leads on from a text")},
                ),
                "the names of the keys by language",
            ),
        ),
        "the keys that work on every screen, and their names",
    ),
    resume=(
        one_of("off", "auto", "confirm"),
        "after a dropped call: `off` begins again, `auto` continues, `confirm` (default) asks first",
    ),
    vars=(mapping(ref("variable"), MAX_VARIABLES, "^[a-z][a-z0-9_]{0,39}$"), "the variables by name"),
    nodes=(
        {**mapping(ref("node"), MAX_NODES, f"^{NAME_PATTERN.pattern}$"), "minProperties": 1},
        "the nodes by name",
    ),
    scripts=(
        array(ref("script"), MAX_SCRIPTS),
        "conversations that must go as written; they run when the menu is checked",
    ),
)


@lru_cache(maxsize=1)
def menu_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a menu document."""
    texts = {"type": "string", "maxLength": templates.MAX_CHARACTERS}
    end = (TEXT, "the text of a last screen")
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
            "branch": {"anyOf": [NODE.schema, record("goto", goto=(NODE, "the next node")), record("end", end=end)]},
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
