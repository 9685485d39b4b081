"""Names and sentences use the words of docs/GLOSSARY.md, and no two public classes share a name.

Sentences are docstrings, comments, names of tests, log lines, metrics, and the whole of the SQL files.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("ussd_server", "schemas", "simulators", "scripts", "tests", "testbed")
SQL_FOLDERS = ("ussd_server", "deploy")
GLOSSARY = (REPOSITORY / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
STRING_OR_COMMENT = re.compile(r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
REPORT = re.compile(r"\b(?:_?log\.\w+|Counter|Gauge|Histogram|Measure)\(")
FIELD = re.compile(r"\b(\w+)=")
TEST = re.compile(r"def (test_\w+)")
# Names of the standard library.
FOREIGN = {"tell", "keep_blank_values"}

# What a sentence may not say, and what it says instead. A space matches any white space, and a line break.
RETIRED_PHRASES = {
    r"\b(whoever|somebody|someone|nobody|anybody|everybody)('?s)?\b": "name the actor: client, worker, process, ...",
    r"\b(those|one|he) who\b": "name the actor",
    r"\b(told|tells?)\b": "reports, receives, shows, distinguishes",
    r"\bhears? of\b|\bheard of\b|\bhears what\b": "receives, sees, learns",
    r"\bgives? way\b|\btakes? (its|their) leave\b": "waits, yields the lock, ends",
    r"\bstands? in line\b|\bin line behind\b": "queues",
    r"\b(provider|worker|client|company)'s word\b|\ba word (about|from|with)\b": "report, reply",
    r"\b(a|one|another|no|more|second) look\b": "check, query",
    r"\bof (its|their) own accord\b": "by itself",
    r"\bturn(s|ed)? out\b": "say what is the case",
    r"\bmeanwhile\b": "say during what",
    r"\bcame to\b": "result",
    r"\bdoor(s|way|ways)?\b": "endpoint, authentication",
    r"\bhouses?\b": "service, bootstrap",
    r"\brooms\b|\b(the|a|waiting|this|each) room\b": "process, queue, place",
    r"\bstairs\b|\bbells?\b|\bnoticeboards?\b": "layers, wake-up signal, provider outages",
    r"\bpulses?\b": "heartbeat",
    r"\bdeeds?\b|\berrands?\b": "action",
    r"\bwish(es)?\b": "request",
    r"\bstor(y|ies)\b": "status history",
    r"\bseal(s|ed|ing)?\b": "encrypt",
    r"\brehearsals?\b|\brecollections?\b|\ballowances?\b|\bgatherings?\b": "simulator, cache, quota lease, batch",
    r"\bfan-?outs?\b|\bpictures?\b": "relay, diagram",
    r"\blanes?\b": "advisory lock, lease",
    r"\bverdicts? (about|of) (a|the) (call|limit)|\blimit(er)?('s)? verdict": "rate limit decision",
    r"\b(a|each|many|all|no|two|operator's) hands?\b|\bin the hands\b|^hands\b": "operator, worker, caller, client",
    r"\btenants?\b|\bcustomers?\b": "client, subscriber",
    r"(?<!client\s)\bcompan(y|ies)\b(?! that calls?)": "provider, gateway, or client",
}  # fmt: skip
PHRASES = [(re.compile(phrase.replace(" ", r"\s+"), re.I), better) for phrase, better in RETIRED_PHRASES.items()]


@dataclass
class Source:
    """What is written in a file: its names, its sentences by their first lines, and its public classes."""

    path: str
    names: set[str]
    sentences: list[tuple[int, str]]
    classes: list[str] = field(default_factory=list)


def retired_words() -> set[str]:
    """The words of the glossary's last column that are names in themselves."""
    rows = [line.split("|") for line in GLOSSARY.splitlines() if line.startswith("| ")]
    return {word for row in rows[1:] for word in re.findall(r"`([a-z]+)`", row[3])}


def python_source(path: str, text: str) -> Source:
    """Read a Python file by its strings and comments: `ast` and `tokenize` take five times as long."""
    literals = [(found.start(), found.group()) for found in STRING_OR_COMMENT.finditer(text)]
    code = STRING_OR_COMMENT.sub(lambda found: " " * len(found.group()), text)
    reports = [(call.start(), end_of_call(code, call.end())) for call in REPORT.finditer(code)]
    reported = [
        (start, literal.strip("\"'"))
        for start, literal in literals
        if any(first < start < last for first, last in reports) and literal[0] != "#"
    ]
    sentences = [
        *joined_comments(text, literals),
        *((start, literal) for start, literal in literals if is_docstring(text, start, literal)),
        *((test.start(), spoken(test.group(1))) for test in TEST.finditer(code)),
        *((start, spoken(literal)) for start, literal in reported),
        *((name.start(), spoken(name.group(1))) for call in reports for name in FIELD.finditer(code, *call)),
    ]
    return Source(
        path,
        names={*re.findall(r"\w+", code), *Path(path).with_suffix("").parts, *(word for _, word in reported)},
        sentences=[(text.count("\n", 0, start) + 1, sentence) for start, sentence in sentences],
        classes=re.findall(r"^class ([A-Z]\w*)", code, re.M),
    )


def spoken(name: str) -> str:
    """A name as words."""
    return name.replace("_", " ")


def end_of_call(code: str, start: int) -> int:
    """Where the parenthesis that was opened before `start` closes."""
    depth = 1
    for found in re.compile(r"[()]").finditer(code, start):
        depth += 1 if found.group() == "(" else -1
        if not depth:
            return found.start()
    return len(code)


def is_docstring(text: str, start: int, literal: str) -> bool:
    """Whether a literal is a docstring: in this repository, one in three quotes that begins its line."""
    return literal.startswith('"""') and not text[text.rfind("\n", 0, start) + 1 : start].strip()


def joined_comments(text: str, literals: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The comments; one that goes on for several lines is one."""
    block, end = (0, ""), -1
    for start, comment in literals:
        if comment[0] == "#":
            if end >= 0 and not text[end:start].strip() and text.count("\n", end, start) == 1:
                block = block[0], f"{block[1]}\n{comment[1:]}"
            else:
                yield block
                block = start, comment[1:]
            end = start + len(comment)
    yield block


def sql_source(path: str, text: str) -> Source:
    """Read a SQL file: every word of it is a name or part of a sentence."""
    return Source(path, set(re.findall(r"\w+", re.sub("--.*", "", text))), [(1, text.replace("--", ""))])


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


def retired_phrases(read: Iterable[Source]) -> Iterator[str]:
    """Each retired phrase with its place and what to write instead."""
    for source in read:
        for first_line, sentence in source.sentences:
            for phrase, better in PHRASES:
                for found in phrase.finditer(sentence):
                    line = first_line + sentence.count("\n", 0, found.start())
                    yield f"{source.path}:{line}: {found.group()!r}: {better}"


def test_no_name_uses_a_retired_word() -> None:
    retired = retired_words()
    assert len(retired) > 20
    found = {
        (source.path, name)
        for source in sources()
        for name in source.names - FOREIGN
        if retired & {word.lower() for word in WORD.findall(name)}
    }
    assert not found


def test_no_sentence_uses_a_retired_phrase() -> None:
    found = list(retired_phrases(sources()))
    assert not found, "\n".join(found)


def test_retired_phrases_are_found_with_their_lines() -> None:
    python = python_source(
        "a.py",
        '"""Plain.\n\nA worker is told.\n"""\n'
        "# Plain, for those\n# who read it.\n"
        'log.info("it came meanwhile", whoever=1)\n'
        'Counter("calls", "Calls.", ["company"])\n'
        "def test_nobody_waits():\n    pass\n",
    )
    sql = sql_source("a.sql", "CREATE TABLE t (\n    pulse int -- of its own accord\n);\n")
    places = [found.split(": ")[:2] for found in retired_phrases([python, sql])]
    assert sorted(places) == [
        ["a.py:3", "'told'"],
        ["a.py:5", r"'those\n who'"],
        ["a.py:7", "'meanwhile'"],
        ["a.py:7", "'whoever'"],
        ["a.py:8", "'company'"],
        ["a.py:9", "'nobody'"],
        ["a.sql:2", "'of its own accord'"],
        ["a.sql:2", "'pulse'"],
    ]


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources():
        if source.path.startswith(("ussd_server/", "schemas/", "simulators/")):
            for name in source.classes:
                places[name].append(source.path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_glossary_has_at_most_forty_rows() -> None:
    assert sum(line.startswith("| ") for line in GLOSSARY.splitlines()) - 1 <= 40
