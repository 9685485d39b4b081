"""The pages of menus are made from the checker's declarations, with examples from a menu that passes."""

from __future__ import annotations

import re

from tests.documents.menus import EXPRESSIONS, FILTERS, FOLDER, PAGES, example_menu, objects, schemas, with_tables
from ussd_server.menus.checks.check import check
from ussd_server.menus.document import templates
from ussd_server.menus.document.expressions import _ARITHMETIC, _COMPARISONS, _FUNCTIONS
from ussd_server.menus.document.findings import Report
from ussd_server.menus.document.variables import TYPES, WIDEST_FACTS
from ussd_server.menus.source.yaml_text import read_yaml

TEXTS = [page.read_text(encoding="utf-8") for page in PAGES]


def test_the_tables_are_those_of_the_checker() -> None:
    assert [with_tables(text) for text in TEXTS] == TEXTS, "run scripts/document"


def test_every_field_has_a_meaning_and_stands_in_a_menu_that_passes_the_check() -> None:
    assert check(example_menu()) == Report(())
    fields = {(kind, field): said for kind, each in schemas().items() for field, said in each["properties"].items()}
    assert [place for place, said in fields.items() if not said["description"]] == []
    assert {(kind, field) for kind, found in objects(example_menu()) for field in found} == fields.keys()


def test_every_filter_function_operator_type_and_fact_stands_there() -> None:
    assert FILTERS.keys() == templates._FILTERS.keys()
    shown = " ".join(EXPRESSIONS)
    assert [name for name in _FUNCTIONS if f"{name}(" not in shown] == []
    assert len(set(re.findall(r" (not in|in|[-+*/%<>=!]+) ", shown))) >= len({*_ARITHMETIC, *_COMPARISONS})
    assert [name for name in [*TYPES, *map(str, WIDEST_FACTS)] if f"`{name}`" not in "".join(TEXTS)] == []


def test_every_menu_of_the_pages_passes_the_check() -> None:
    moved = (FOLDER / "guides/move-from-africas-talking.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", "".join([*TEXTS, moved]), re.DOTALL)
    assert [check(read_yaml(each)[0]).findings for each in examples] == [(), ()]
