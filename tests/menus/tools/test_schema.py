"""The JSON Schema of a menu: valid, as strict as the readers, and with the same fields."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta

from tests.support.shop import shop_document
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import read
from ussd_server.menus.document.fields import DocumentFields
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.menus.tools.schema import DOCUMENT_FIELDS, menu_schema
from ussd_server.menus.tools.scripts import read_script

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
    assert meta.is_valid(menu_schema())
    for path in EXAMPLES:
        assert not list(SCHEMA.iter_errors(read_menu_file(path)[0])), path
        assert path.read_text().startswith("# yaml-language-server: $schema=")
        assert "/menu.schema.json\n" in path.read_text()
    assert not list(SCHEMA.iter_errors(shop_document()))


def test_the_document_has_the_same_fields_in_the_schema_and_in_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fields_read({"id": "m", "look_at": ""}, monkeypatch) == set(DOCUMENT_FIELDS["properties"])


VALUES: tuple[Any, ...] = (
    None, True, 0, 5, -1, 1.5, 10**16, "", "x", "0", "X y", "é", "x" * 2000, [], ["x"], [None], [True], {}, {"x": 1},
    {"en": None}, {"en": ""}, {"goto": None}, "vars.nope ==",
)  # fmt: skip
# What no schema can say: names within the document, two fields compared, and the grammar of expressions and texts.
BEYOND_A_SCHEMA = (
    "not in `languages`", "is above `max`", "need four different keys", "with a variable of type list",
    "is not an expression", "is not allowed; use", "more than one of send, retry", "it has to be one of en",
    "it has to be one of lg",
    "stands alone", "does not begin with vars.x", "nested deeper than", "belongs to a transfer", "pattern`:",
)  # fmt: skip


def mutated(document: dict[str, Any], random: Random) -> tuple[str, Any]:
    """Change one place of a document: set another value, remove a field, or add one. Returns what was done."""
    path = random.choice([path for path in places(document) if path])
    around = document
    for step in path[:-1]:
        around = around[step]
    last, value = path[-1], copy.deepcopy(random.choice(VALUES))
    match random.randrange(4):
        case 0:
            del around[last]
            value = "removed"
        case 1 if isinstance(around, dict):
            last = random.choice(["extra", *(name for *_, name in places(document) if isinstance(name, str))])
            around[last] = value
        case _:
            around[last] = value
    return ".".join(map(str, (*path[:-1], last))), value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    if path:
        yield path
    for name, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*path, name))


@cache
def documents() -> list[Any]:
    """The shop, the examples and the menu with every field."""
    files = (*EXAMPLES, Path(__file__).parents[3] / "docs" / "every-field.yaml")
    return [shop_document(), *(read_menu_file(path)[0] for path in files)]


def refusals(raw: Any) -> list[str]:
    """What the readers of the document and of its scripts refuse."""
    document, problems = read(raw)
    found = [*problems, *document.complaints]
    scripts = [] if found else [read_script(document, each, number) for number, each in enumerate(document.scripts, 1)]
    return [each.message for each in (*found, *(finding for _, findings in scripts for finding in findings))]


@pytest.mark.parametrize("seed", range(3))
def test_the_schema_and_the_readers_agree_about_every_change_of_a_document(
    seed: int, tries: Callable[[int], int]
) -> None:
    random = Random(seed)
    for _ in range(tries(250)):
        changed = copy.deepcopy(random.choice(documents()))
        what = mutated(changed, random)
        refused, by_schema = refusals(changed), list(SCHEMA.iter_errors(changed))
        if by_schema:
            assert refused, (what, by_schema[0].message)
        else:
            assert not [each for each in refused if not any(known in each for known in BEYOND_A_SCHEMA)], what


@pytest.mark.parametrize("value", [None, {}])
def test_an_empty_field_is_refused_by_both(value: Any) -> None:
    document = shop_document()
    document["nodes"]["root"]["invalid"] = value
    assert bool(list(SCHEMA.iter_errors(document))) == (value is None)
    messages = [each.message for each in check(document).errors]
    assert messages == ([] if value == {} else ["`invalid` is empty; write a value, or leave the field out"])


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
