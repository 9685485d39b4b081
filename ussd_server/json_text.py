"""Positions in a JSON text: line and column of every name and value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(r'[ \t\r\n]*+("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++)', re.DOTALL)

# An unterminated string matches to the end: otherwise every quote in it would start another search.
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


class JsonPart(NamedTuple):
    """A name (`is_name`) or a value, its path from the root, and its position; list items are numbered from 1."""

    path: tuple[str, ...]
    is_name: bool
    line: int
    column: int


def bracket_depth(text: str) -> int:
    """Return how deep brackets nest outside strings, without parsing."""
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        if bracket in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def duplicate_name(text: str) -> JsonPart | None:
    """Return the first name that is given twice in one object of a valid JSON text, or None."""
    seen: set[tuple[str, ...]] = set()
    for part in json_parts(text):
        if part.is_name:
            if part.path in seen:
                return part
            seen.add(part.path)
    return None


def json_parts(text: str) -> Iterator[JsonPart]:
    """Yield every name and value of a valid JSON text in its order; lines and columns count from 1."""
    path: list[str] = []
    counts: list[int] = []  # for each open list the number of its present item, for each open object 0
    is_name, line, line_start, position = False, 1, 0, 0
    while (match := _TOKEN.match(text, position)) is not None:
        start, position = match.start(1), match.end()
        skipped = text.count("\n", match.start(), start)
        if skipped:
            line, line_start = line + skipped, text.rindex("\n", match.start(), start) + 1
        part_text = match.group(1)
        if part_text in ("}", "]"):
            is_name = False
            if len(path) > len(counts) - 1:
                path.pop()
            counts.pop()
        elif part_text == ",":
            path.pop()
            is_name = counts[-1] == 0
            if not is_name:
                counts[-1] += 1
        elif part_text == ":":
            is_name = False
        elif is_name:
            path.append(str(json.loads(part_text)))
            yield JsonPart(tuple(path), True, line, start - line_start + 1)
        else:
            if counts and counts[-1]:
                path.append(str(counts[-1]))
            yield JsonPart(tuple(path), False, line, start - line_start + 1)
            if part_text in ("{", "["):
                counts.append(0 if part_text == "{" else 1)
                is_name = part_text == "{"
