"""Names use the words of the glossary in docs/ARCHITECTURE.md, and no two public classes share a name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("ussd_server", "schemas", "simulators", "scripts", "tests", "testbed")
SQL_FOLDERS = ("ussd_server", "deploy")
ARCHITECTURE = (REPOSITORY / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
GLOSSARY = ARCHITECTURE.partition("\n## Glossary\n")[2].partition("\n## ")[0]
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
STRING_OR_COMMENT = re.compile(r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
METRIC = re.compile(r'\b(?:Counter|Gauge|Histogram|Measure)\(\s*"(\w+)"')
# Names of the standard library.
FOREIGN = {"tell", "keep_blank_values"}


@dataclass(frozen=True)
class Source:
    """The names and the public classes of a file."""

    path: str
    names: frozenset[str]
    classes: tuple[str, ...] = ()


def retired_words() -> set[str]:
    """The words of the glossary's last column that are names in themselves."""
    rows = [line.split("|") for line in GLOSSARY.splitlines() if line.startswith("| ")]
    return {word for row in rows[1:] for word in re.findall(r"`([a-z]+)`", row[3])}


def python_source(path: str, text: str) -> Source:
    """Read a Python file without its strings and comments: `ast` takes five times as long."""
    code = STRING_OR_COMMENT.sub("", text)
    names = {*re.findall(r"\w+", code), *METRIC.findall(text), *Path(path).with_suffix("").parts}
    return Source(path, frozenset(names), tuple(re.findall(r"^class ([A-Z]\w*)", code, re.M)))


def sql_source(path: str, text: str) -> Source:
    """Read a SQL file without its comments."""
    return Source(path, frozenset(re.findall(r"\w+", re.sub("--.*", "", text))))


def with_retired_words(source: Source) -> Iterator[str]:
    """The names of a file of which a word is retired."""
    retired = retired_words()
    for name in source.names - FOREIGN:
        if retired & {word.lower() for word in WORD.findall(name)}:
            yield name


@cache
def sources() -> list[Source]:
    """Every Python and SQL file."""
    read = [(folder, "*.py", python_source) for folder in FOLDERS]
    read += [(folder, "*.sql", sql_source) for folder in SQL_FOLDERS]
    return [
        source_of(str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8"))
        for folder, pattern, source_of in read
        for path in sorted((REPOSITORY / folder).rglob(pattern))
    ]


def test_no_name_uses_a_retired_word() -> None:
    assert len(retired_words()) > 20
    assert [(source.path, name) for source in sources() for name in with_retired_words(source)] == []


def test_a_retired_word_is_found_in_code_and_metrics_and_not_in_sentences() -> None:
    python = python_source(
        "a.py", '"""The door."""\n# A wish.\nis_told = Door("house")\nGauge("pulse_seconds", "The picture.")\n'
    )
    sql = sql_source("a.sql", "CREATE TABLE t (\n    bell int -- a deed\n);\n")
    assert sorted(with_retired_words(python)) == ["Door", "is_told", "pulse_seconds"]
    assert sorted(with_retired_words(sql)) == ["bell"]


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources():
        if source.path.startswith(("ussd_server/", "schemas/", "simulators/")):
            for name in source.classes:
                places[name].append(source.path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_glossary_has_at_most_forty_rows() -> None:
    assert sum(line.startswith("| ") for line in GLOSSARY.splitlines()) - 1 <= 40
