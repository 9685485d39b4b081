"""The JSON Schema of a menu document, for editors: it has the fields and bounds of the readers beside it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ussd_server.menus.document import expressions, templates
from ussd_server.menus.document.bounds import MAX_ASSIGNMENTS, MAX_LANGUAGES, MAX_NETWORKS, MAX_NODES, MAX_VARIABLES
from ussd_server.menus.document.document import LABELS, NAVIGATION
from ussd_server.menus.document.fields import NAME
from ussd_server.menus.document.meanings import FIELD_MEANINGS
from ussd_server.menus.document.node_fields import (
    KEY,
    MAX_AMOUNT,
    MAX_OPTIONS,
    MAX_RULES,
    MAX_TIMEOUT_MS,
    METHODS,
    PAYMENT_KINDS,
    PROTOCOLS,
    RULES,
)
from ussd_server.menus.document.patterns import MAX_CHARACTERS as MAX_PATTERN
from ussd_server.menus.document.variables import MAX_DIGITS, MAX_ITEMS, MAX_TEXT, TYPES
from ussd_server.menus.text.screen import MAX_SEPTETS, MAX_UCS2, MIN_SEPTETS, MIN_UCS2
from ussd_server.values import PHONE_NUMBER

Schema = dict[str, Any]

_LANGUAGE, _VARIABLE, _PHONE = "^[a-z]{2,3}$", "^[a-z][a-z0-9_]{0,39}$", f"^{PHONE_NUMBER.pattern}$"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def _list(items: Schema, most: int = 100, fewest: int = 0) -> Schema:
    return {"type": "array", "items": items, "maxItems": most, "minItems": fewest}


def _map(values: Schema, most: int | None = None, names: str | None = None) -> Schema:
    found: Schema = {"type": "object", "additionalProperties": values}
    if most is not None:
        found["maxProperties"] = most
    return found if names is None else {**found, "propertyNames": {"pattern": names}}


def _object(name: str, required: str, /, **properties: Schema) -> Schema:
    """Return the schema of an object whose fields are described under `name`."""
    meanings = FIELD_MEANINGS[name]
    described = {field: {**schema, "description": meanings[field]} for field, schema in properties.items()}
    return {
        "type": "object",
        "properties": described,
        "required": required.split(),
        "additionalProperties": False,
    }


def _when(tag: str, values: list[str], then: Schema, otherwise: Schema | None = None) -> Schema:
    """Return the part of a schema that depends on the value of the field `tag`."""
    return {"if": {"properties": {tag: {"enum": values}}, "required": [tag]}, "then": then, "else": otherwise or {}}


_TEXT, _NAME, _EXPRESSION, _BRANCH = _ref("text"), _ref("name"), _ref("expression"), _ref("branch")
_BOOLEAN: Schema = {"type": "boolean"}
_STRING: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_ANYTHING: Schema = {}
_WRITTEN_EXPRESSION: Schema = {"type": "string", "minLength": 1, "maxLength": expressions.MAX_CHARACTERS}
_MAGNITUDE: Schema = {"minimum": -expressions.MAX_MAGNITUDE, "maximum": expressions.MAX_MAGNITUDE}
_ASSIGNMENTS = _map(_EXPRESSION, MAX_ASSIGNMENTS)
_KEY: Schema = {"type": ["string", "integer"], "pattern": f"^{KEY.pattern}$", "minimum": 0, "maximum": 9999}
_ITEM: Schema = {"type": ["string", "number"], "maxLength": MAX_TEXT}
_LABEL = _map({"type": "string", "minLength": 1, "maxLength": 20})
_INVALID = _object("invalid", "", text=_TEXT, max=_whole(1, 20), goto=_NAME)
_ASKING = {"of": _EXPRESSION, "var": _NAME, "goto": _NAME, "on_error": _BRANCH}
_WHOLE_RULE = {"min": _whole(-MAX_AMOUNT, MAX_AMOUNT), "max": _whole(-MAX_AMOUNT, MAX_AMOUNT)}

RULE_FIELDS: dict[str, Schema] = {
    "amount": _object("rule amount", "", min=_whole(0, MAX_AMOUNT), max=_whole(0, MAX_AMOUNT)),
    "integer": _object("rule integer", "", **_WHOLE_RULE),
    "length": _object("rule length", "", min=_whole(0, MAX_TEXT), max=_whole(1, MAX_TEXT)),
    "regex": _object("rule regex", "pattern", pattern={"type": "string", "minLength": 1, "maxLength": MAX_PATTERN}),
    "one_of": _object("rule one_of", "values", values=_list({"type": "string"}, fewest=1)),
    "expr": _object("rule expr", "expr", expr=_EXPRESSION),
    "phone": _object("rule phone", ""),
    "date": _object("rule date", ""),
}

NODE_FIELDS: dict[str, Schema] = {
    "menu": _object(
        "menu",
        "text options",
        text=_TEXT,
        invalid=_INVALID,
        options=_list(
            _object("option", "label goto", key=_KEY, label=_TEXT, goto=_NAME, when=_EXPRESSION, set=_ASSIGNMENTS),
            MAX_OPTIONS,
            1,
        ),
    ),
    "input": _object(
        "input",
        "text var goto",
        text=_TEXT,
        var=_NAME,
        goto=_NAME,
        secret=_BOOLEAN,
        invalid=_INVALID,
        validate=_list(_ref("rule"), MAX_RULES),
    ),
    "confirm": _object("confirm", "text yes no", text=_TEXT, yes=_BRANCH, no=_BRANCH, invalid=_INVALID),
    "list": _object(
        "list",
        "text items label goto",
        text=_TEXT,
        label=_TEXT,
        goto=_NAME,
        value=_EXPRESSION,
        var=_NAME,
        empty=_BRANCH,
        invalid=_INVALID,
        items={"anyOf": [_WRITTEN_EXPRESSION, _list({"anyOf": [_ITEM, _map(_ITEM)]}, MAX_ITEMS, 1)]},
    ),
    "text": _object("text", "text goto", text=_TEXT, goto=_NAME),
    "router": _object(
        "router",
        "else",
        cases=_list(_object("case", "when goto", when=_EXPRESSION, goto=_NAME)),
        **{"else": _BRANCH},
    ),
    "set": _object("set", "values goto", values={**_ASSIGNMENTS, "minProperties": 1}, goto=_NAME),
    "language": _object(
        "language",
        "goto",
        text=_TEXT,
        goto=_NAME,
        invalid=_INVALID,
        options=_list(
            _object(
                "language option",
                "language",
                key=_KEY,
                language={"type": "string", "pattern": _LANGUAGE},
                label={"type": "string", "minLength": 1, "maxLength": 40},
            )
        ),
    ),
    "balance": _object("balance", "var goto", **_ASKING),
    "lookup_name": _object("lookup_name", "of var goto", **_ASKING),
    "sms": _object("sms", "to text goto", to=_EXPRESSION, text=_TEXT, goto=_NAME),
    "http": _object(
        "http",
        "url goto",
        method=_one_of(*METHODS),
        url={"type": "string"},
        headers=_map({"type": "string"}),
        body={"type": ["object", "array", "string", "number", "boolean"]},
        timeout_ms=_whole(100, MAX_TIMEOUT_MS),
        goto=_NAME,
        on_error=_BRANCH,
        on_timeout=_BRANCH,
        map=_map({"type": "string", "minLength": 1, "maxLength": 100}, MAX_ASSIGNMENTS),
    ),
    "pay": {
        **_object(
            "pay",
            "kind amount phone_number accepted rejected",
            kind=_one_of(*PAYMENT_KINDS),
            amount=_EXPRESSION,
            phone_number=_EXPRESSION,
            to_phone_number=_EXPRESSION,
            account=_EXPRESSION,
            accepted=_BRANCH,
            rejected=_BRANCH,
        ),
        **_when(
            "kind",
            ["transfer"],
            {"properties": {"to_phone_number": {}}, "required": ["to_phone_number"]},
            {"properties": {"to_phone_number": False}},
        ),
    },
    "handover": _object("handover", "url", url=_STRING, protocol=_one_of(*PROTOCOLS), on_error=_BRANCH),
    "end": _object("end", "text", text=_TEXT),
}

_VALUE_TYPES = [name for name in TYPES if name != "list"]
_VARIABLE_FIELDS = {
    "type": _one_of(*_VALUE_TYPES),
    "max_len": _whole(1, MAX_TEXT),
    "overflow": _one_of("refuse", "truncate"),
    "given": _BOOLEAN,
}
_NO_LENGTH: Schema = {"properties": {"max_len": False}}
_OF_TYPES = [
    _when("type", ["list"], _NO_LENGTH, {"properties": {"max_items": False, "fields": False}}),
    _when("type", ["phone", "date"], _NO_LENGTH),
    _when("type", ["amount", "integer"], {"properties": {"max_len": {"maximum": MAX_DIGITS}}}),
]
"""The fields that belong to some types of variables."""
_BUDGET = {"septets": _whole(MIN_SEPTETS, MAX_SEPTETS), "ucs2": _whole(MIN_UCS2, MAX_UCS2)}
_SCRIPT = _object(
    "script",
    "dial steps",
    name=_STRING,
    language={"type": "string", "pattern": _LANGUAGE},
    dial=_object(
        "dial",
        "phone code",
        phone={"type": "string", "pattern": _PHONE},
        code=_STRING,
        network=_STRING,
        text={"type": ["string", "integer"]},
    ),
    world=_object(
        "world",
        "",
        balances=_map(_ANYTHING),
        names=_map(_ANYTHING),
        answers=_map(_ANYTHING),
        given=_map(_ANYTHING),
        payments=_one_of("accepted", "rejected"),
    ),
    steps=_list(
        _object(
            "step",
            "",
            send={"type": "string"},
            retry=_BOOLEAN,
            redial=_BOOLEAN,
            wait=_whole(0, 86_400),
            expect={"type": "string"},
            end=_BOOLEAN,
        ),
        100,
        1,
    ),
    after=_object(
        "after",
        "",
        transaction={"anyOf": [_one_of("none"), {"type": "object"}]},
        node=_STRING,
        language=_STRING,
        vars=_map(_ANYTHING),
    ),
)

DOCUMENT_FIELDS = _object(
    "document",
    "id start nodes",
    **{"$schema": _STRING},
    id={"type": "string", "minLength": 1, "maxLength": 64},
    title={"type": "string", "minLength": 1, "maxLength": 100},
    start=_NAME,
    default_language={"type": "string", "pattern": _LANGUAGE},
    languages={**_list({"type": "string", "pattern": _LANGUAGE}, MAX_LANGUAGES), "uniqueItems": True},
    fallback=_BOOLEAN,
    limits=_object(
        "limits", "", **_BUDGET, networks=_map(_object("limits", "", **_BUDGET), MAX_NETWORKS, "^[0-9A-Za-z]{1,10}$")
    ),
    nav=_object(
        "nav",
        "",
        **{name: {"type": "string", "pattern": f"^{KEY.pattern}$"} for name in NAVIGATION},
        labels=_object("labels", "", **dict.fromkeys(LABELS, _LABEL)),
    ),
    resume=_one_of("off", "auto", "confirm"),
    vars=_map(_ref("variable"), MAX_VARIABLES, _VARIABLE),
    nodes={**_map(_ref("node"), MAX_NODES, f"^{NAME.pattern}$"), "minProperties": 1},
    scripts=_list(_ref("script"), 50),
)


@lru_cache(maxsize=1)
def menu_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a menu document."""
    texts = {"type": "string", "maxLength": templates.MAX_CHARACTERS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "/menu.schema.json",
        "title": "USSD menu",
        "description": "A menu as a client publishes it. The check of a menu finds more than this schema can say.",
        **DOCUMENT_FIELDS,
        "$defs": {
            "text": {"anyOf": [texts, {**_map(texts, MAX_LANGUAGES, _LANGUAGE)}]},
            "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
            "expression": {"anyOf": [_WRITTEN_EXPRESSION, {"type": ["number", "boolean"], **_MAGNITUDE}]},
            "branch": {"anyOf": [_NAME, _object("branch", "goto", goto=_NAME), _object("branch", "end", end=_TEXT)]},
            "variable": {
                **_object(
                    "variable",
                    "",
                    **_VARIABLE_FIELDS | {"type": _one_of(*TYPES), "max_items": _whole(1, MAX_ITEMS)},
                    fields=_map({**_object("variable", "", **_VARIABLE_FIELDS), "allOf": _OF_TYPES[1:]}, MAX_VARIABLES),
                ),
                "allOf": _OF_TYPES,
            },
            "rule": _kinds("rule", {name: _with_error(fields) for name, fields in RULE_FIELDS.items()}, RULES),
            "node": _kinds("type", NODE_FIELDS, tuple(NODE_FIELDS)),
            "script": _SCRIPT,
        },
    }


def _with_error(fields: Schema) -> Schema:
    error = {**_TEXT, "description": FIELD_MEANINGS["rule"]["error"]}
    return {**fields, "properties": {**fields["properties"], "error": error}}


def _kinds(tag: str, kinds: dict[str, Schema], names: tuple[str, ...]) -> Schema:
    """Return the schema of an object whose fields depend on its field `tag`."""
    cases = [
        {
            "if": {"properties": {tag: {"const": name}}, "required": [tag]},
            "then": {**kinds[name], "properties": {tag: {}, **kinds[name]["properties"]}},
        }
        for name in names
    ]
    return {"type": "object", "required": [tag], "properties": {tag: _one_of(*names)}, "allOf": cases}
