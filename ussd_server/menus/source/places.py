"""Lines and columns in the text of a document, found by the path of a field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ussd_server.json_text import json_parts

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
