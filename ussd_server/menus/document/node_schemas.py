"""The JSON Schemas of nodes and rules: each field with its bounds and its meaning.

Editors show the meanings, and docs/MENUS.md lists them.
"""

from __future__ import annotations

from typing import Any

from ussd_server.menus.document import expressions
from ussd_server.menus.document.bounds import MAX_ASSIGNMENTS
from ussd_server.menus.document.node_fields import KEY, MAX_OPTIONS, MAX_TIMEOUT_MS, METHODS, PAYMENT_KINDS, PROTOCOLS
from ussd_server.menus.document.rules import MAX_AMOUNT, MAX_RULES
from ussd_server.menus.document.rules import MAX_CHARACTERS as MAX_PATTERN
from ussd_server.menus.document.variables import MAX_ITEMS, MAX_TEXT

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """Refer to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def whole(low: int, high: int) -> Schema:
    """A whole number within bounds."""
    return {"type": "integer", "minimum": low, "maximum": high}


def one_of(*values: str) -> Schema:
    """One of a few texts."""
    return {"enum": list(values)}


def array(items: Schema, most: int = 100, fewest: int = 0) -> Schema:
    """A list."""
    return {"type": "array", "items": items, "maxItems": most, "minItems": fewest}


def mapping(values: Schema, most: int | None = None, names: str | None = None) -> Schema:
    """An object whose names the author chooses."""
    found: Schema = {"type": "object", "additionalProperties": values}
    if most is not None:
        found["maxProperties"] = most
    return found if names is None else {**found, "propertyNames": {"pattern": names}}


def record(required: str, /, **fields: tuple[Schema, str]) -> Schema:
    """An object with these fields, each with its schema and its meaning; `required` names those that it needs."""
    return {
        "type": "object",
        "properties": {name: {**schema, "description": meaning} for name, (schema, meaning) in fields.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


def when(tag: str, values: list[str], then: Schema, otherwise: Schema | None = None) -> Schema:
    """Return the part of a schema that depends on the value of the field `tag`."""
    return {"if": {"properties": {tag: {"enum": values}}, "required": [tag]}, "then": then, "else": otherwise or {}}


def _kind(meaning: str, required: str, /, **fields: tuple[Schema, str]) -> Schema:
    return {"description": meaning, **record(required, **fields)}


TEXT, NAME, EXPRESSION, BRANCH = ref("text"), ref("name"), ref("expression"), ref("branch")
BOOLEAN: Schema = {"type": "boolean"}
STRING: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
LANGUAGE: Schema = {"type": "string", "pattern": "^[a-z]{2,3}$"}
WRITTEN_EXPRESSION: Schema = {"type": "string", "minLength": 1, "maxLength": expressions.MAX_CHARACTERS}
GOTO = (NAME, "the next node")

_SCREEN = (TEXT, "the text of the screen")
_ON_ERROR = (BRANCH, "the next node where there is no answer; without it, the polite last screen")
_ASSIGNMENTS = mapping(EXPRESSION, MAX_ASSIGNMENTS)
_ITEM: Schema = {"type": ["string", "number"], "maxLength": MAX_TEXT}
_KEY = (
    {"type": ["string", "integer"], "pattern": f"^{KEY.pattern}$", "minimum": 0, "maximum": 9999},
    "what to type; numbered when absent",
)
_PHONE = "an expression that gives a phone number"
_ACCOUNT = (EXPRESSION, f"`main` (default), or {_PHONE}")
_INVALID = (
    record(
        "",
        text=(TEXT, "the notice above the repeated screen"),
        max=(whole(1, 20), "how many invalid entries are taken, 1 to 20, default 3"),
        goto=(NAME, "where too many invalid entries lead; without it, the screen is repeated without end"),
    ),
    "what happens after an entry that is not accepted",
)

RULE_FIELDS: dict[str, Schema] = {
    "amount": _kind(
        "whole shillings, with or without commas",
        "",
        min=(whole(0, MAX_AMOUNT), "the least amount, default 1"),
        max=(whole(0, MAX_AMOUNT), "the largest amount"),
    ),
    "phone": _kind("`0772123456`, `256772123456`, `+256772123456`; keeps `+256...`", ""),
    "length": _kind(
        "texts of this length",
        "",
        min=(whole(0, MAX_TEXT), "the fewest characters"),
        max=(whole(1, MAX_TEXT), "the most characters"),
    ),
    "regex": _kind(
        "a whole match of a pattern",
        "pattern",
        pattern=(
            {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN},
            "the pattern, at most 64 characters; it must match the whole entry",
        ),
    ),
    "integer": _kind(
        "whole numbers",
        "",
        min=(whole(-MAX_AMOUNT, MAX_AMOUNT), "the least number"),
        max=(whole(-MAX_AMOUNT, MAX_AMOUNT), "the largest number"),
    ),
    "date": _kind("day, month and year (31/12/2026), or 2026-12-31; keeps the latter", ""),
    "one_of": _kind(
        "one of these texts", "values", values=(array({"type": "string"}, fewest=1), "the texts that are accepted")
    ),
    "expr": _kind(
        "what makes an expression true",
        "expr",
        expr=(EXPRESSION, "the condition; the entry is already in its variable"),
    ),
}

NODE_FIELDS: dict[str, Schema] = {
    "menu": _kind(
        "Choices.",
        "text options",
        text=_SCREEN,
        options=(
            array(
                record(
                    "label goto",
                    key=_KEY,
                    label=(TEXT, "the text of the choice"),
                    goto=GOTO,
                    when=(EXPRESSION, "a condition; the option is shown where it holds"),
                    set=(_ASSIGNMENTS, "variables that the choice changes, each by an expression"),
                ),
                MAX_OPTIONS,
                1,
            ),
            "the choices",
        ),
        invalid=_INVALID,
    ),
    "input": _kind(
        "A question. Its rules check the entry, and a variable keeps it.",
        "text var goto",
        text=_SCREEN,
        var=(NAME, "the variable that keeps the entry"),
        goto=GOTO,
        validate=(array(ref("rule"), MAX_RULES), "rules, all of which must accept the entry"),
        secret=(BOOLEAN, "`true`: the entry is never stored or shown"),
        invalid=_INVALID,
    ),
    "confirm": _kind(
        "Yes or no. It stands before every payment, and is never skipped.",
        "text yes no",
        text=_SCREEN,
        yes=(BRANCH, "the node or last screen after 1"),
        no=(BRANCH, "the node or last screen after 2"),
        invalid=_INVALID,
    ),
    "list": _kind(
        "A choice of one item of many, in pages.",
        "text items label goto",
        text=_SCREEN,
        items=(
            {"anyOf": [WRITTEN_EXPRESSION, array({"anyOf": [_ITEM, mapping(_ITEM)]}, MAX_ITEMS, 1)]},
            "a list variable, or the items themselves",
        ),
        label=(TEXT, "the text of an item; it reads `item`"),
        goto=GOTO,
        value=(EXPRESSION, "an expression of `item`, kept in `var`"),
        var=(NAME, "the variable that keeps the choice"),
        empty=(BRANCH, "the node or last screen when there are no items"),
        invalid=_INVALID,
    ),
    "text": _kind("A long text, in pages.", "text goto", text=(TEXT, "a long text, shown in pages"), goto=GOTO),
    "router": _kind(
        "No screen: the next node depends on conditions.",
        "else",
        cases=(
            array(record("when goto", when=(EXPRESSION, "the condition"), goto=GOTO)),
            "conditions in their order; the first that holds decides",
        ),
        **{"else": (BRANCH, "where none holds")},
    ),
    "set": _kind(
        "No screen: changes variables.",
        "values goto",
        values=({**_ASSIGNMENTS, "minProperties": 1}, "variables to change, each by an expression"),
        goto=GOTO,
    ),
    "language": _kind(
        "A choice of the language, which is remembered for the phone number.",
        "goto",
        text=_SCREEN,
        options=(
            array(
                record(
                    "language",
                    key=_KEY,
                    language=(LANGUAGE, "the code of the language"),
                    label=(
                        {"type": "string", "minLength": 1, "maxLength": 40},
                        "its name on the screen; without it, its own name",
                    ),
                )
            ),
            "the languages to choose from; without it, all of the menu",
        ),
        goto=GOTO,
        invalid=_INVALID,
    ),
    "balance": _kind(
        "No screen: reads a balance.",
        "var goto",
        of=_ACCOUNT,
        var=(NAME, "the variable that keeps the balance, in whole shillings"),
        goto=GOTO,
        on_error=_ON_ERROR,
    ),
    "lookup_name": _kind(
        "No screen: asks the provider for the name of a subscriber.",
        "of var goto",
        of=(EXPRESSION, _PHONE),
        var=(NAME, "the variable that keeps the name"),
        goto=GOTO,
        on_error=_ON_ERROR,
    ),
    "sms": _kind(
        "No screen: sends a message. The session goes on also where it cannot be sent.",
        "to text goto",
        to=(EXPRESSION, _PHONE),
        text=(TEXT, "the message, at most three parts long with every variable at its maximum"),
        goto=GOTO,
    ),
    "http": _kind(
        "No screen: calls your server, signed like a webhook.",
        "url goto",
        method=(one_of(*METHODS), "`GET` (default), `POST`, `PUT`, `PATCH` or `DELETE`"),
        url=({"type": "string"}, "the address on an allowed host; it may show variables"),
        headers=(mapping({"type": "string"}), "headers of the request"),
        body=(
            {"type": ["object", "array", "string", "number", "boolean"]},
            "a JSON body; its texts may show variables",
        ),
        timeout_ms=(whole(100, MAX_TIMEOUT_MS), "100 to 2500 milliseconds, default 2000"),
        map=(
            mapping({"type": "string", "minLength": 1, "maxLength": 100}, MAX_ASSIGNMENTS),
            "for each variable the path of its value in the JSON of the reply",
        ),
        goto=GOTO,
        on_error=_ON_ERROR,
        on_timeout=(BRANCH, "the next node where the reply comes too late; without it, that of `on_error`"),
    ),
    "pay": {
        **_kind(
            "No screen: creates a payment, once for each confirmation.",
            "kind amount phone_number accepted rejected",
            kind=(one_of(*PAYMENT_KINDS), "`collection` (the subscriber pays), `disbursement` (is paid) or `transfer`"),
            amount=(EXPRESSION, "an expression, in shillings"),
            phone_number=(EXPRESSION, "an expression: who pays or is paid"),
            to_phone_number=(EXPRESSION, "of a transfer: an expression, who receives"),
            account=_ACCOUNT,
            accepted=(BRANCH, "the node or last screen when the payment was created"),
            rejected=(BRANCH, "the node or last screen when it was refused"),
        ),
        **when(
            "kind",
            ["transfer"],
            {"properties": {"to_phone_number": {}}, "required": ["to_phone_number"]},
            {"properties": {"to_phone_number": False}},
        ),
    },
    "handover": _kind(
        "Your server writes the screens from here on.",
        "url",
        url=(STRING, "the address of your server on an allowed host"),
        protocol=(one_of(*PROTOCOLS), "`neutral` (default) or `africastalking`"),
        on_error=_ON_ERROR,
    ),
    "end": _kind("The last screen.", "text", text=(TEXT, "the text of the last screen")),
}
