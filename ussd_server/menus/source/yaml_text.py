"""Reads YAML 1.2 with the core schema, limited to what JSON can say, and finds the line and column of each field."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from ussd_server.parsing.json_text import json_parts

Path = tuple[str, ...]


class Position(NamedTuple):
    """A position in a text; both numbers count from 1."""

    line: int
    column: int


class SourceError(ValueError):
    """A text that is not a document. The message is one sentence, which names line and column where they are known."""

    def __init__(self, message: str, place: Position | None = None) -> None:
        super().__init__(f"{message} (line {place.line}, column {place.column})" if place else message)
        self.place = place


@dataclass(slots=True)
class Places:
    """The positions of names and values, by path. List items are numbered from 1, as in the messages of a check."""

    names: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)

    def of_value(self, path: Path) -> Position | None:
        """Return where a value begins; of a missing one, where the innermost object around it begins."""
        if path in self.values:
            return self.values[path]
        return self.of_name(path[:-1]) if path else None

    def of_name(self, path: Path) -> Position | None:
        """Return where a name begins; without such a name, where the value or the object around it begins."""
        return self.names.get(path) or self.of_value(path)


def json_places(text: str) -> Places:
    """Return the positions in a valid JSON text."""
    places = Places()
    for part in json_parts(text):
        (places.names if part.is_name else places.values)[part.path] = Position(part.line, part.column)
    return places


MAX_DEPTH = 32
MAX_PARTS = 20_000
# For every bracket the parser reads all open ones again. Brackets in texts are counted too, for simplicity.
_MOST_OPEN_BRACKETS = 200
_BRACKET = re.compile(r"[\[\]{}]")
LONGEST_NUMBER = 30
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_UNWRITABLE = re.compile(r"[\x00\ud800-\udfff]")


def read_yaml(text: str) -> tuple[dict[str, Any], Places]:
    """Return the object in a YAML text, and the positions in it. Every name is a text: `64110:` is `"64110"`.

    Raises `SourceError` for anything that is not YAML 1.2, anchors,
    merge keys, tags, a second document, a name that is given twice, more than 32 levels or 20,000 parts, infinite
    numbers, NUL, lone surrogates, and anything but an object.
    """
    _refuse_open_brackets(text)
    try:
        document, places = _Reader(YAML(typ="safe", pure=True).parse(text)).read()
    except MarkedYAMLError as error:
        place = _place(error.problem_mark) if error.problem_mark else None
        raise SourceError(f"The text is not valid YAML: {_sentence(error.problem)}", place) from None
    except ReaderError as error:
        place = _place_at(text, error.position)
        raise SourceError("The text is not valid YAML: it contains a control character", place) from None
    except SourceError:
        raise
    except (YAMLError, RecursionError, ValueError, OverflowError):
        # Python itself refuses the numbers of `\U00110000` and of a long `%YAML`.
        raise SourceError("The text is not valid YAML") from None
    if not isinstance(document, dict):
        raise SourceError("The document has to be an object with fields such as `id`, `start` and `nodes`")
    return document, places


def _refuse_open_brackets(text: str) -> None:
    """Raise `SourceError` for brackets nested far deeper than any document."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
        if depth > _MOST_OPEN_BRACKETS:
            raise SourceError(f"The document is nested deeper than {MAX_DEPTH} levels", _place_at(text, match.start()))


class _Reader:
    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._count = self._documents = 0
        self.places = Places()

    def read(self) -> tuple[Any, Places]:
        """Return the only document of the text, None for an empty text."""
        document = None
        for event in self._counted():
            if isinstance(event, DocumentStartEvent):
                self._documents += 1
                if self._documents > 1:
                    raise SourceError("The text holds more than one document", _place(event.start_mark))
            elif isinstance(event, ScalarEvent | AliasEvent | MappingStartEvent | SequenceStartEvent):
                document = self._value(event, ())
        return document, self.places

    def _counted(self) -> Iterator[Event]:
        for event in self._events:
            self._count += 1
            if self._count > MAX_PARTS:
                raise SourceError(f"The text has more than {MAX_PARTS:,} names and values", _place(event.start_mark))
            yield event

    def _next(self) -> Event:
        return next(self._counted())

    def _value(self, event: Event, path: Path) -> Any:
        place = _place(event.start_mark)
        _refuse_references(event, place)
        self.places.values[path] = place
        if isinstance(event, ScalarEvent):
            return _scalar(event, place)
        if len(path) >= MAX_DEPTH:
            raise SourceError(f"The document is nested deeper than {MAX_DEPTH} levels", place)
        return self._object(path) if isinstance(event, MappingStartEvent) else self._list(path)

    def _object(self, path: Path) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            place = _place(event.start_mark)
            _refuse_references(event, place)
            if not isinstance(event, ScalarEvent):
                raise SourceError("A name has to be a text", place)
            name = _written(event, place)
            if name == "<<" and event.style is None:
                raise SourceError("Merge keys (`<<`) are not allowed; write the fields out", place)
            if name in members:
                raise SourceError(f"The name `{name[:64]}` is given twice in one object", place)
            self.places.names[*path, name] = place
            members[name] = self._value(self._next(), (*path, name))
        return members

    def _list(self, path: Path) -> list[Any]:
        read: list[Any] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            read.append(self._value(event, (*path, str(len(read) + 1))))
        return read


def _refuse_references(event: Event, place: Position) -> None:
    if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
        raise SourceError("Anchors and aliases (`&x`, `*x`) are not allowed; write the value out", place)
    if getattr(event, "tag", None) not in (None, "!"):
        raise SourceError("Tags (`!x`) are not allowed", place)


def _written(event: ScalarEvent, place: Position) -> str:
    text = str(event.value)
    if _UNWRITABLE.search(text):
        raise SourceError("The text contains a NUL character or half of a surrogate pair", place)
    return text


def _scalar(event: ScalarEvent, place: Position) -> Any:
    """Return the value of a scalar; one without quotes may be a number, true, false or null."""
    text = _written(event, place)
    if event.style is not None or getattr(event, "tag", None) == "!":
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    is_number = _WHOLE.fullmatch(text) or _OTHER_BASE.fullmatch(text) or _DECIMAL.fullmatch(text)
    if _NOT_FINITE.fullmatch(text) or (is_number and len(text) > LONGEST_NUMBER):
        raise SourceError(f"A number has at most {LONGEST_NUMBER} digits; write a text in quotes", place)
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if is_number:
        number = float(text)
        if math.isfinite(number):
            return number
        raise SourceError("The number is too large; write a text in quotes", place)
    return text


def _place_at(text: str, index: int) -> Position:
    before = text[:index]
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _place(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


_MEANINGS = (
    ("mapping values are not allowed", "a `:` stands within a text; put the text in quotes"),
    ("could not find expected ':'", "a `:` is missing after a name, or a line is not indented as the one above"),
    (
        "expected <block end>",
        "what stands here does not belong to the value before it; look at indentation, quotes and brackets",
    ),
    ("expected ',' or", "a comma or the closing bracket is missing"),
    (r"'\\t'", "a tab stands here; indent with spaces"),
    ("unexpected end of stream", "a quote is not closed"),
    ("cannot start any token", "this character cannot begin a text; put the text in quotes"),
    ("escape", "the backslash begins no known letter; write two of them, or use single quotes"),
    ("node content", "a value is missing"),
)
"""By what the parser says: what is wrong, and what to do."""


def _sentence(problem: str | None) -> str:
    return next((meaning for said, meaning in _MEANINGS if re.search(said, problem or "")), "it cannot be read here")


def write_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML that `read_yaml` reads back unchanged."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 120
    writer.representer.ignore_aliases = lambda _: True
    written = io.StringIO()
    writer.dump(document, written)
    return written.getvalue()
