"""docs/MENUS.md lacks nothing that a menu may have, and its example passes the check."""

from __future__ import annotations

import re
from pathlib import Path

from ussd_server.menus.checks.check import check
from ussd_server.menus.document import bounds, node_fields, templates
from ussd_server.menus.document.expressions import _FUNCTIONS
from ussd_server.menus.document.schema import DOCUMENT_FIELDS, NODE_FIELDS, RULE_FIELDS, menu_schema
from ussd_server.menus.document.variables import TYPES, WIDEST_FACTS
from ussd_server.menus.source.yaml_text import read_yaml

PAGE = (Path(__file__).parents[2] / "docs" / "MENUS.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    """Return the rows of the table below a heading, by the words of their first cell."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").partition("|") for line in section.splitlines() if line.startswith("| `")]
    return {name: rest for first, _, rest in lines for name in re.findall(r"`([^`]+)`", first)}


def words(text: str) -> set[str]:
    return set(re.findall(r"[$A-Za-z_]+", " ".join(re.findall(r"`([^`]+)`", text))))


def test_every_node_rule_and_field_has_its_row_and_no_row_is_invented() -> None:
    nodes = rows("Nodes")
    assert nodes.keys() == NODE_FIELDS.keys() | {"type"}
    for kind, schema in NODE_FIELDS.items():
        assert schema["properties"].keys() <= words(nodes[kind]), kind
        for name, field in schema["properties"].items():
            assert field.get("items", {}).get("properties", {}).keys() <= words(nodes[kind]), (kind, name)
    rules = rows("Rules of an input")
    assert RULE_FIELDS.keys() == rules.keys() - {"rule"}
    for rule, schema in RULE_FIELDS.items():
        assert schema["properties"].keys() <= words(rules[rule]), rule
    assert rows("The document").keys() == DOCUMENT_FIELDS["properties"].keys()
    assert rows("Variables").keys() - {"session"} == menu_schema()["$defs"]["variable"]["properties"].keys()


def test_every_filter_function_type_fact_and_script_word_is_named() -> None:
    known = words(re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))
    assert {*templates._FILTERS, *_FUNCTIONS, *TYPES} <= known
    assert [str(name) for name in WIDEST_FACTS if f"`{name}`" not in PAGE] == []
    script = menu_schema()["$defs"]["script"]["properties"]
    assert {name for name in script if name != "name"} <= known
    for part in (script["dial"], script["world"], script["after"], script["steps"]["items"]):
        assert part["properties"].keys() <= known


def test_the_limits_are_those_of_the_check() -> None:
    table = PAGE.partition("\n## Limits\n")[2]
    wanted = (
        f"{bounds.MAX_NODES}, {bounds.MAX_VARIABLES}, {bounds.MAX_LANGUAGES}, {bounds.MAX_NETWORKS}",
        f"{node_fields.MAX_OPTIONS}, {node_fields.MAX_RULES}", f"{bounds.MAX_ASSIGNMENTS} |",
        f"{node_fields.MAX_TIMEOUT_MS:,}", f"{bounds.MAX_WORK:,}", f"{templates.MAX_CHARACTERS:,}",
    )  # fmt: skip
    assert [each for each in wanted if each not in table] == []


def test_the_example_passes_the_check() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert check(read_yaml(example)[0]).findings == ()
