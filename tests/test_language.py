"""Names use the words of docs/GLOSSARY.md: no retired word, and no two public classes of one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("ussd_server", "schemas", "simulators", "scripts", "tests")
GLOSSARY = (REPOSITORY / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def retired_words() -> set[str]:
    """The words of the glossary's last column that are names in themselves."""
    rows = [line.split("|") for line in GLOSSARY.splitlines() if line.startswith("| ")]
    return {word for row in rows[1:] for word in re.findall(r"`([a-z]+)`", row[3])}


def trees(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    """Every Python file of the folders."""
    for folder in folders:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            yield path.relative_to(REPOSITORY), ast.parse(path.read_text(encoding="utf-8"))


def names_of(path: Path, tree: ast.Module) -> Iterator[str]:
    """The names that a file defines, its own among them."""
    yield from path.with_suffix("").parts
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_no_name_uses_a_retired_word() -> None:
    retired = retired_words()
    assert len(retired) > 20
    found = {
        (str(path), name)
        for path, tree in trees(*FOLDERS)
        for name in names_of(path, tree)
        if retired & {word.lower() for word in WORD.findall(name)}
    }
    assert not found


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees("ussd_server", "schemas", "simulators"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_glossary_has_at_most_forty_rows() -> None:
    assert sum(line.startswith("| ") for line in GLOSSARY.splitlines()) - 1 <= 40
