"""Reads one object of a menu document field by field and collects its problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.expressions import Expression, ExpressionError, Name, compile_expression, constant
from ussd_server.menus.document.findings import shorten
from ussd_server.menus.document.nodes import LocalizedText
from ussd_server.menus.document.templates import Template, compile_template

_UNITS_OF_AN_OBJECT = 20
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a document that cannot be read: its place, and what the author can do."""

    rule: str
    node: str | None
    message: str


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """The shared state while one document is read: languages, widths of variables, problems and work."""

    languages: tuple[str, ...]
    default_language: str
    widest: Mapping[Name, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    work: WorkBudget | None = None

    def spend(self, units: int) -> None:
        """Count work, if the reading has a work budget."""
        if self.work is not None:
            self.work.spend(units)


class DocumentFields:
    """One JSON object of the document. `refuse_others` reports every field that was never read."""

    def __init__(self, raw: Any, reading: DocumentReading, node: str | None = None, place: str = "") -> None:
        self.reading, self.node, self.place = reading, node, place
        self._raw: Mapping[str, Any] = {}
        reading.spend(_UNITS_OF_AN_OBJECT)
        self._read_names: set[str] = set()
        if isinstance(raw, Mapping):
            self._raw = _named(raw)
        else:
            self.refuse(f"{place or 'this'} has to be an object")

    def refuse(self, message: str, rule: str = "document") -> None:
        """Add a problem at this place."""
        # The author chooses the names, which may be long, and every message about a part below repeats them.
        self.reading.problems.append(Problem(rule, self.node, shorten(message)))

    def within(self, raw: Any, place: str) -> DocumentFields:
        """Return the fields of an object inside this one."""
        return DocumentFields(raw, self.reading, self.node, self._path(place))

    def refuse_others(self) -> None:
        """Add a problem for every field that was not read."""
        for name in self._raw:
            if name not in self._read_names:
                known = ", ".join(f"`{each}`" for each in sorted(self._read_names))
                self.refuse(f"unknown field `{self._path(str(name))}`; the fields here are {known}")

    def value(self, name: str) -> Any:
        """Return the raw value of a field, or None when it is absent or null."""
        self._read_names.add(name)
        return self._raw.get(name)

    def string(self, name: str, default: str | None = None, choices: Sequence[str] = (), longest: int = 200) -> str:
        """Return a text field; one without `default` is required."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            self.refuse(f"`{self._path(name)}` has to be a text of 1 to {longest} characters")
        elif choices and value not in choices:
            self.refuse(f"`{self._path(name)}` is `{value}`; it has to be one of {', '.join(choices)}")
        else:
            return value
        return default or ""

    def integer(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`, or `default` when the field is absent."""
        value = self.value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(f"`{self._path(name)}` has to be a whole number from {low} to {high}")
            return default
        return value

    def boolean(self, name: str) -> bool:
        """Return a true or false field; absent means false."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            self.refuse(f"`{self._path(name)}` has to be true or false")
        return value is True

    def items(self, name: str, maximum: int = 100) -> list[Any]:
        """Return a list field of at most `maximum` items; absent means empty."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.refuse(f"`{self._path(name)}` has to be a list")
            return []
        if len(value) > maximum:
            self.refuse(f"`{self._path(name)}` has {len(value)} items; at most {maximum} are allowed")
        return list(value[:maximum])

    def entries(self, name: str) -> dict[str, Any]:
        """Return an object field with free names; absent means empty."""
        value = self.value(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(f"`{self._path(name)}` has to be an object")
            return {}
        return _named(value)

    def identifier(self, name: str) -> str:
        """Return a required name of a node or variable."""
        value = self.string(name)
        if value and not NAME.fullmatch(value):
            self.refuse(
                f"`{self._path(name)}` is `{value}`; a name has letters, digits, - and _, and begins with a letter"
            )
        return value

    def optional_identifier(self, name: str) -> str | None:
        """Return a name, or None when the field is absent."""
        return None if self.value(name) is None else self.identifier(name)

    def expression(self, name: str) -> Expression:
        """Return a required expression; a number is a constant."""
        return self.optional_expression(name, required=True) or constant(None)

    def optional_expression(self, name: str, *, required: bool = False) -> Expression | None:
        """Return an expression, or None when the field is absent."""
        value = self.value(name)
        if value is None and not required:
            return None
        return self.compiled(value, name)

    def compiled(self, value: Any, name: str) -> Expression | None:
        """Compile `value`, from the field `name`, as an expression. None, and a problem, when it is not one."""
        if isinstance(value, int | float):
            value = repr(value)
        if not isinstance(value, str) or not value:
            self.refuse(f"`{self._path(name)}` has to be an expression, such as `vars.amount`")
            return None
        try:
            return compile_expression(value)
        except ExpressionError as error:
            self.refuse(f"`{self._path(name)}`: {error}", "expression")
            return None

    def template(self, value: Any, name: str) -> Template:
        """Compile `value`, from the field `name`, as a text with slots."""
        if not isinstance(value, str):
            self.refuse(f"`{self._path(name)}` has to be a text")
            return Template("", ())
        try:
            return compile_template(value, self.reading.widest)
        except ExpressionError as error:
            self.refuse(f"`{self._path(name)}`: {error}", "expression")
            return Template("", ())

    def text(self, name: str) -> LocalizedText:
        """Return a required text: an object by language, or one text for the default language."""
        if self.value(name) is None:
            self.refuse(f'`{self._path(name)}` is missing; write it as {{"{self.reading.default_language}": "..."}}')
        return self.optional_text(name) or LocalizedText({}, self.reading.default_language)

    def optional_text(self, name: str) -> LocalizedText | None:
        """Return a text, or None when the field is absent."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, str):
            value = {self.reading.default_language: value}
        if not isinstance(value, Mapping):
            self.refuse(f"`{self._path(name)}` has to be a text, or an object with a text for each language")
            return None
        for language in value:
            if language not in self.reading.languages:
                self.refuse(f"`{self._path(name)}` has the language `{language}`, which is not in `languages`")
        return LocalizedText(
            {language: self.template(source, f"{name}.{language}") for language, source in value.items()},
            self.reading.default_language,
        )

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def _named(raw: Mapping[Any, Any]) -> dict[str, Any]:
    """Return an object with its names as texts: YAML reads `yes` as true and a network code as a number."""
    return {"yes" if key is True else "no" if key is False else str(key): value for key, value in raw.items()}
