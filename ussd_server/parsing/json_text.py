"""JSON texts: bounds on the work that they make, and the line and column of every name and value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from ussd_server.threads import in_native_thread

_TOKEN = re.compile(r'[ \t\r\n]*+("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++)', re.DOTALL)

# Every pattern is possessive, and takes an unterminated string or text to its end: none reads a character twice.
_VALUE_ENDS = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"?|[^"\[{,]++)*+(?:[\[{,]|\Z)', re.DOTALL)
_NAME_OR_BRACE = re.compile(
    r'(?:"(?:[^"\\]++|\\.)*+"(?!\s*+:)|[^"{}]++)*+(?:("(?:[^"\\]++|\\.)*+")\s*+:|[{}])', re.DOTALL
)
# Pieces of a text whose escapes can be stored: no NUL, and surrogates in pairs.
_STORABLE = re.compile(
    rb"(?:[^\\]++|(?:\\[^u]){1,1000}+|(?:\\u(?!0000|[dD][89a-fA-F])....){1,1000}+"
    rb"|\\u[dD][89abAB]..\\u[dD][c-fC-F]..){0,20}+",
    re.DOTALL,
)
# Commas and brackets, in texts too. 64 KiB of decimals cost 62 times as much as one text of that size.
_USUAL_MARKS, _USUAL_BYTES = 700, 64 * 1024

_Parsed = TypeVar("_Parsed")


class JsonPart(NamedTuple):
    """A name (`is_name`) or a value, its path from the root, and its position; list items are numbered from 1."""

    path: tuple[str, ...]
    is_name: bool
    line: int
    column: int


class DuplicateName(NamedTuple):
    """A name that an object has already, and its position."""

    name: str
    line: int
    column: int


class DuplicateNameError(ValueError):
    """A name is given twice in one JSON object."""


def parsed(text: bytes, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    """Return `parse(text)`; a long text and one of many values are parsed in a native thread, beside other requests.

    `parse` is as the work of `in_native_thread`.
    """
    if len(text) <= _USUAL_BYTES and value_marks(text) <= _USUAL_MARKS:
        return parse(text)
    return in_native_thread(parse, text, pool="documents")


def value_marks(text: bytes) -> int:
    """Return how many commas and opening brackets a JSON text has: no more values can be in its lists and objects."""
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether a JSON text has more than `most` values in its lists and objects. Costs at most 0.1 us a value."""
    # The end of the text matches too.
    return next(islice(_VALUE_ENDS.finditer(text), most + 1, None), None) is not None


def is_deeper(document: object, most: int) -> bool:
    """Return whether lists and objects are nested in each other more than `most` times."""
    level = [document]
    for _ in range(most):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def unstorable_escape(text: bytes) -> bytes:
    """Return the first escape of a valid JSON text that no database stores: NUL or half of a surrogate pair; or b""."""
    position = 0
    while position < len(text):
        match = _STORABLE.match(text, position)
        if match is None or match.end() == position:
            return text[position : position + 6]
        position = match.end()
    return b""


def object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of its pairs, for `object_pairs_hook` of `json.loads`. DuplicateNameError for a name twice."""
    document = dict(pairs)
    if len(document) != len(pairs):
        raise DuplicateNameError
    return document


def duplicate_name(text: str) -> DuplicateName | None:
    """Return the first name that is given twice in one object of a JSON text, or None. Costs 0.3 us a name."""
    objects: list[set[str]] = [set()]
    for match in _NAME_OR_BRACE.finditer(text):
        written = match[1]
        if written is None:
            if text[match.end() - 1] == "{":
                objects.append(set())
            elif len(objects) > 1:
                objects.pop()
            continue
        name = json.loads(written) if "\\" in written else written[1:-1]
        if name in objects[-1]:
            start = match.start(1)
            return DuplicateName(name, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        objects[-1].add(name)
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
