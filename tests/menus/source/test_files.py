"""Menu documents in YAML files mean the same as those in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ussd_server.menus.checks.check import check
from ussd_server.menus.document.findings import Report
from ussd_server.menus.source.texts import read_menu_file

EXAMPLES = sorted((Path(__file__).parents[3] / "ussd_server" / "menus" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_passes_the_check_after_conversion_to_json(path: Path) -> None:
    document, _ = read_menu_file(path)
    assert json.loads(json.dumps(document)) == document
    assert check(json.loads(json.dumps(document))) == Report(())


def test_names_are_texts_and_only_true_and_false_are_truth_values(tmp_path: Path) -> None:
    path = tmp_path / "menu.yaml"
    path.write_text("yes: no\n64110: {on: true, off: [false, 7]}\n")
    assert read_menu_file(path)[0] == {"yes": "no", "64110": {"on": True, "off": [False, 7]}}


@pytest.mark.parametrize("text", ["[1, 2]", "{", "just words", "!!python/object:os.system {}"])
def test_a_file_without_a_document_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "menu.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"menu\.yaml"):
        read_menu_file(path)
