"""The JSON Schema of a menu: valid, as strict as the readers, and with the same fields."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.shop import shop_document
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import read
from ussd_server.menus.document.fields import DocumentFields
from ussd_server.menus.document.node_fields import RULES
from ussd_server.menus.document.schema import DOCUMENT_FIELDS, NODE_FIELDS, RULE_FIELDS, menu_schema
from ussd_server.menus.source.texts import read_menu_file

EXAMPLES = sorted((Path(__file__).parents[3] / "ussd_server" / "menus" / "examples").glob("*.yaml"))
SCHEMA = Draft202012Validator(menu_schema())


def fields_read(raw: Any, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the fields that the reader of the innermost named object asks for."""
    seen: list[tuple[str, set[str]]] = []
    refuse_others = DocumentFields.refuse_others

    def note(self: DocumentFields) -> None:
        seen.append((".".join(self.path), set(self._read_names)))
        refuse_others(self)

    monkeypatch.setattr(DocumentFields, "refuse_others", note)
    read(raw)
    return next(names for path, names in seen if path == raw["look_at"])


def test_the_schema_is_valid_and_the_examples_and_the_shop_pass() -> None:
    Draft202012Validator.check_schema(menu_schema())
    for path in EXAMPLES:
        assert not list(SCHEMA.iter_errors(read_menu_file(path)[0])), path
        assert path.read_text().startswith("# yaml-language-server: $schema=")
        assert "/menu.schema.json\n" in path.read_text()
    assert not list(SCHEMA.iter_errors(shop_document()))


@pytest.mark.parametrize("kind", NODE_FIELDS)
def test_a_node_has_the_same_fields_in_the_schema_and_in_its_reader(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"id": "m", "start": "n", "nodes": {"n": {"type": kind}}, "look_at": "nodes.n"}
    assert fields_read(raw, monkeypatch) == {"type", *NODE_FIELDS[kind]["properties"]}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_the_same_fields_in_the_schema_and_in_its_reader(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"type": "input", "text": "?", "var": "v", "goto": "n", "validate": [{"rule": rule}]}
    raw = {"id": "m", "start": "n", "nodes": {"n": node}, "look_at": "nodes.n.validate.1"}
    assert fields_read(raw, monkeypatch) == {"rule", "error", *RULE_FIELDS[rule]["properties"]}


def test_the_document_has_the_same_fields_in_the_schema_and_in_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fields_read({"id": "m", "look_at": ""}, monkeypatch) == set(DOCUMENT_FIELDS["properties"])


WRONG: list[tuple[tuple[Any, ...], Any]] = [
    (("colour",), "red"),
    (("id",), 5),
    (("start",), "1 x"),
    (("languages",), ["english"]),
    (("languages",), ["en", "en"]),
    (("fallback",), "yes"),
    (("resume",), "maybe"),
    (("limits",), {"septets": 183}),
    (("limits",), {"networks": {"64110": {"ucs2": 39}}}),
    (("nav",), {"back": "*"}),
    (("nav",), {"labels": {"go": {"en": "Go"}}}),
    (("vars", "amount", "type"), "amuont"),
    (("vars", "Amount"), {"type": "text"}),
    (("nodes",), {}),
    (("nodes", "root", "type"), "mneu"),
    (("nodes", "root", "options"), []),
    (("nodes", "root", "options", 0, "goot"), "amount"),
    (("nodes", "root", "text"), True),
    (("nodes", "root", "text"), {"en": 5}),
    (("nodes", "amount", "validate", 0, "rule"), "amnt"),
    (("nodes", "amount", "validate", 0, "pattern"), "[0-9]+"),
    (("nodes", "amount", "validate"), [{"rule": "regex", "pattern": "a" * 65}]),
    (("nodes", "amount", "secret"), "no"),
    (("nodes", "sure", "yes"), {"goto": "pay", "end": "Bye"}),
    (("nodes", "pay", "kind"), "gift"),
    (("nodes", "pay", "accepted"), None),
    (("nodes", "bye", "goto"), "root"),
    (("nodes", "h"), {"type": "http", "url": "https://a.example/", "goto": "bye", "timeout_ms": 2501}),
    (("scripts",), [{"name": "x", "dial": {"phone": "0772", "code": "*1#"}, "steps": [{"send": "1"}]}]),
    (("scripts",), [{"dial": {"phone": "+256772123456", "code": "*1#"}, "steps": [{"send": 1}]}]),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=[f"{'.'.join(map(str, path))}={value}" for path, value in WRONG])
def test_what_the_schema_refuses_the_check_refuses_too(path: tuple[Any, ...], value: Any) -> None:
    document: Any = copy.deepcopy(shop_document())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert list(SCHEMA.iter_errors(document))
    assert check(document).errors
