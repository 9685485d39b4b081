"""Writes the tables of menus, from the declarations of the checker, with examples of docs/every-field.yaml."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ussd_server.menus.document import bounds, expressions, findings, nodes, rules, templates
from ussd_server.menus.document.kinds import Schema
from ussd_server.menus.document.variables import MAX_ITEMS, MAX_TEXT
from ussd_server.menus.source import yaml_text
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.menus.tools.schema import DOCUMENT_FIELDS, NODE_FIELDS, RULE_FIELDS, menu_schema
from ussd_server.menus.tools.scripts import MAX_STEPS

FOLDER = Path(__file__).resolve().parents[2] / "docs"
PAGES = (FOLDER / "MENUS.md", FOLDER / "reference" / "MENU_FIELDS.md")
_LONGEST_EXAMPLE = 100
_PLACE = re.compile(r"(<!-- menus (?P<table>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SCOPE = {
    "vars": {"amount": 5000, "name": "Achen", "empty": ""},
    "session": {"phone_number": "+256772123456", "network": "64110"},
    "provider": {"mtn.available": True},
    "subscriber": {"has_pin": False},
    "item": {"fee": 150000},
    "today": expressions.CalendarDay("2026-12-31"),
}
FILTERS = {
    "ugx": ("{{vars.amount|ugx}}", "thousands separators"),
    "local": ("{{session.phone_number|local}}", "a number as people write it"),
    "mask": ("{{session.phone_number|mask}}", "all but three characters hidden"),
    "trunc": ("{{vars.name|trunc:3}}", "the first characters"),
    "upper": ("{{vars.name|upper}}", "capitals"),
    "default": ("{{vars.empty|default:nobody}}", "another text for an empty one"),
}
EXPRESSIONS = (
    "vars.amount >= 500 and vars.amount <= 9000", "500 < vars.amount < 9000", "not vars.amount == 5000",
    "vars.amount != 5000 or vars.amount > 1", "session.network in ['64110', '64101']", "vars.name not in ['Okot']",
    "vars.amount + 500 - 100", "vars.amount * 2", "vars.amount / 2", "vars.amount % 1000", "len(vars.name)",
    "int('42')", "round(vars.amount / 3)", "ceil(vars.amount / 3)", "'UGX ' + str(vars.amount)", "lower(vars.name)",
    "item.fee", "provider.mtn.available", "not subscriber.has_pin", "today() + 30",
)  # fmt: skip
"""Each is shown with its value; every function and operator stands in one of them."""


def objects(menu: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a menu that has fields, with the name of its kind in `schemas`."""
    yield "document", menu
    limits, nav = menu["limits"], menu["nav"]
    yield from (("limits", each) for each in (limits, *limits["networks"].values()))
    yield from (("nav", nav), ("labels", nav["labels"]))
    for variable in menu["vars"].values():
        yield from (("variable", each) for each in (variable, *variable.get("fields", {}).values()))
    for node in menu["nodes"].values():
        kind = node["type"]
        yield kind, {name: value for name, value in node.items() if name != "type"}
        yield from (("branch", value) for value in node.values() if isinstance(value, dict) and value.keys() <= _BRANCH)
        yield from (("option" if kind == "menu" else "language option", each) for each in node.get("options", ()))
        yield from (("case", each) for each in node.get("cases", ()))
        yield from [("invalid", node["invalid"])] if "invalid" in node else []
        for rule in node.get("validate", ()):
            own = {name: value for name, value in rule.items() if name not in ("rule", "error")}
            yield f"rule {rule['rule']}", own
            yield "rule", {name: value for name, value in rule.items() if name == "error"}
    for script in menu["scripts"]:
        yield "script", script
        yield from ((part, script[part]) for part in ("dial", "world", "after") if part in script)
        yield from (("step", step) for step in script["steps"])


def schemas() -> dict[str, Schema]:
    """The schema of every kind of object, by its name."""
    definitions = menu_schema()["$defs"]
    script, menu = definitions["script"]["properties"], NODE_FIELDS["menu"]["properties"]
    within = DOCUMENT_FIELDS["properties"]
    branches = [each["properties"] for each in definitions["branch"]["anyOf"] if "properties" in each]
    rule = {"error": RULE_FIELDS["phone"]["properties"]["error"]}
    return {
        "document": DOCUMENT_FIELDS,
        "limits": within["limits"],
        "nav": within["nav"],
        "labels": within["nav"]["properties"]["labels"],
        "variable": definitions["variable"],
        "branch": {"properties": {**branches[0], **branches[1]}, "required": []},
        "invalid": menu["invalid"],
        "option": menu["options"]["items"],
        "case": NODE_FIELDS["router"]["properties"]["cases"]["items"],
        "language option": NODE_FIELDS["language"]["properties"]["options"]["items"],
        "rule": {"properties": rule, "required": []},
        "script": definitions["script"],
        "dial": script["dial"],
        "world": script["world"],
        "step": script["steps"]["items"],
        "after": script["after"],
        **NODE_FIELDS,
        **{f"rule {name}": _own_fields(schema) for name, schema in RULE_FIELDS.items()},
    }


def _own_fields(rule: Schema) -> Schema:
    """The schema of a rule without `error`, which every rule may have."""
    return {**rule, "properties": {name: each for name, each in rule["properties"].items() if name != "error"}}


_BRANCH = {"goto", "end"}
_SCHEMAS = schemas()


def with_tables(page: str) -> str:
    """Return the page with each marked table made anew."""
    made = {
        "document": _tables(("document", ""), ("limits", "limits"), ("nav", "nav"), ("labels", "nav.labels")),
        "nodes": _nodes(),
        "branch": _table("branch"),
        "rules": _rules(),
        "variables": _table("variable"),
        "filters": _rows(
            ("filter", "example", "shows", "does"),
            ((f"`{name}`", *_shown(example), does) for name, (example, does) in FILTERS.items()),
        ),
        "expressions": _rows(("expression", "value"), ((f"`{each}`", f"`{_value(each)}`") for each in EXPRESSIONS)),
        "scripts": _tables(("script", ""), ("dial", "dial"), ("world", "world"), ("step", "steps"), ("after", "after")),
        "limits": _limits(),
    }
    return _PLACE.sub(lambda place: f"{place[1]}\n{made[place['table']].strip()}\n\n{place[3]}", page)


def write_menu_tables() -> None:
    """Write the tables into both pages."""
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


def _tables(*kinds: tuple[str, str]) -> str:
    return "\n".join((f"Fields of `{title}`:\n\n" if title else "") + _table(kind) for kind, title in kinds)


def _nodes() -> str:
    within = {
        "menu": [("option", "options")],
        "router": [("case", "cases")],
        "language": [("language option", "options")],
    }
    return (
        "\n".join(
            f"### `{kind}`\n\n{schema['description']}\n\n{_tables((kind, ''), *within.get(kind, []))}"
            for kind, schema in NODE_FIELDS.items()
        )
        + f"\nFields of every `invalid`:\n\n{_table('invalid')}"
    )


def _rules() -> str:
    accepted = ((f"`{name}`", schema["description"]) for name, schema in RULE_FIELDS.items())
    fields = (
        (f"`{name}`", *_fields(f"rule {name}", field))
        for name, schema in RULE_FIELDS.items()
        for field in _own_fields(schema)["properties"]
    )
    every = (("every", *_fields("rule", "error")),)
    headings = ("`rule`", "field", "needed", "means", "example")
    return f"{_rows(('`rule`', 'accepts'), accepted)}\n{_rows(headings, (*fields, *every))}"


def _limits() -> str:
    return _rows(
        ("what", "at most"),
        (
            ("nodes", bounds.MAX_NODES),
            ("variables, with the fields of lists", bounds.MAX_VARIABLES),
            ("languages", bounds.MAX_LANGUAGES),
            ("networks", bounds.MAX_NETWORKS),
            ("options of a menu", nodes.MAX_OPTIONS),
            ("rules of an input", rules.MAX_RULES),
            ("assignments of a node or option, and of `map`", bounds.MAX_ASSIGNMENTS),
            ("items of a list", MAX_ITEMS),
            ("characters of a text variable", MAX_TEXT),
            ("characters of a text", f"{templates.MAX_CHARACTERS:,}"),
            ("characters of an expression", expressions.MAX_CHARACTERS),
            ("depth of an expression", expressions.MAX_DEPTH),
            ("characters of a pattern", rules.MAX_CHARACTERS),
            ("characters of a range in a pattern, such as `[a-z]`", rules.MAX_RANGE),
            ("`timeout_ms` of `http`", f"{nodes.MAX_TIMEOUT_MS:,}"),
            ("scripts", bounds.MAX_SCRIPTS),
            ("steps of a script", MAX_STEPS),
            ("findings of a report", findings.MAX_FINDINGS),
            ("suggestions for misspelt names", findings.MOST_SUGGESTIONS),
            ("depth of a document", yaml_text.MAX_DEPTH),
            ("names and values of a document in YAML", f"{yaml_text.MAX_PARTS:,}"),
            ("work of a check, in units of about a microsecond", f"{bounds.MAX_WORK:,}"),
        ),
    )


def _table(kind: str) -> str:
    fields = _SCHEMAS[kind]["properties"]
    return _rows(("field", "needed", "means", "example"), (_fields(kind, field) for field in fields)) if fields else ""


def _fields(kind: str, field: str) -> tuple[str, str, str, str]:
    schema = _SCHEMAS[kind]
    needed = "yes" if field in schema["required"] else ""
    return f"`{field}`", needed, schema["properties"][field]["description"], _example(kind, field)


@cache
def example_menu() -> Any:
    """Return the menu with every field."""
    return read_menu_file(FOLDER / "every-field.yaml")[0]


def _example(kind: str, field: str) -> str:
    """The shortest example of a field in the menu with every field."""
    found = [_flow({field: each[field]}) for name, each in objects(example_menu()) if name == kind and field in each]
    written = min(found, key=len)
    return _code(written) if len(written) <= _LONGEST_EXAMPLE else "[every-field.yaml](../every-field.yaml)"


def _flow(value: dict[str, Any]) -> str:
    yaml, out = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.width, yaml.allow_unicode = True, 10_000, True
    yaml.sort_base_mapping_type_on_output = False
    yaml.dump(value, out)
    return out.getvalue().strip()[1:-1]


def _shown(example: str) -> tuple[str, str]:
    template = templates.compile_template(example, dict.fromkeys(_names(example), "W" * 30))
    return _code(example), f"`{template.phone_text(_SCOPE)}`"


def _names(example: str) -> Iterable[expressions.Name]:
    return templates.compile_template(example, {}).names


def _value(expression: str) -> Any:
    return expressions.compile_expression(expression).value(_SCOPE)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _rows(headings: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
