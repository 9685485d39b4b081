"""Reads one object of a menu document field by field and collects its problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ussd_server.menus.document.expressions import Expression, ExpressionError, Name, compile_expression, constant
from ussd_server.menus.document.findings import Finding, Spelling, did_you_mean, node_path, shorten
from ussd_server.menus.document.templates import LocalizedText, Template, compile_template
from ussd_server.menus.document.variables import Variable

_UNITS_OF_AN_OBJECT = 20
_UNITS_OF_AN_UNKNOWN_FIELD = 12
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """The shared state while one document is read: languages, variables and their widths, problems and work."""

    languages: tuple[str, ...] = ()
    default_language: str = "en"
    variables: Mapping[str, Variable] = field(default_factory=dict)
    widest: Mapping[Name, str] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)
    spend: Callable[[int], object] = lambda _: None
    spelling: Spelling = field(default_factory=Spelling)
    foreign_languages: set[str] = field(default_factory=set)
    # Problems that block publishing. Versions published before these rules were made keep running.
    complaints: list[Finding] = field(default_factory=list)
    # The texts of the last screens that are written inside other nodes, by `node.outcome`.
    last_screens: dict[str, LocalizedText] = field(default_factory=dict)
    # The nodes that cannot be read.
    unread: set[str] = field(default_factory=set)


class DocumentFields:
    """One JSON object of the document. `refuse_others` reports every field that was never read."""

    def __init__(self, raw: Any, reading: DocumentReading, path: tuple[str, ...] = (), node: str | None = None) -> None:
        """`path` leads to this object from the root of the document; `node` is the node that it is in."""
        self.reading, self.node, self.path = reading, node, path
        self._raw: Mapping[str, Any] = {}
        reading.spend(_UNITS_OF_AN_OBJECT)
        self._read_names: set[str] = set()
        if isinstance(raw, Mapping):
            self._raw = _named(raw)
        else:
            self.refuse(f"{self.place or 'this'} has to be an object")

    @property
    def place(self) -> str:
        """The name of this object in messages: its path in the document or in the node."""
        return ".".join(self.path if self.node is None else self.path[len(node_path(self.node)) :])

    def refuse(self, message: str, rule: str = "document", at: str = "", suggestion: str | None = None) -> None:
        """Add a problem with the field `at` of this object, or with the object itself."""
        self.reading.problems.append(self._finding(rule, message, self._path_to(at), suggestion))

    def complain(self, message: str, at: str, rule: str = "text") -> None:
        """Add a problem that blocks publishing, although the document can be used."""
        self.reading.complaints.append(self._finding(rule, message, self._path_to(at)))

    def within(self, raw: Any, place: str) -> DocumentFields:
        """Return the fields of an object inside this one."""
        return DocumentFields(raw, self.reading, self._path_to(place), self.node)

    def refuse_others(self) -> None:
        """Add a problem for every field that was not read; leaves out that the field it should be is missing."""
        absent = sorted(self._read_names - self._raw.keys())
        for name in self._raw:
            if name not in self._read_names:
                self.reading.spend(_UNITS_OF_AN_UNKNOWN_FIELD)
                names = ", ".join(f"`{each}`" for each in sorted(self._read_names))
                spelling = self.reading.spelling
                suggestion = spelling.nearest(name, absent) or spelling.nearest(name, sorted(self._read_names))
                message = f"unknown field `{self._path(name)}`; the fields here are {names}{did_you_mean(suggestion)}"
                self._refuse_name(name, message, suggestion)

    def refuse_misspelt(self, name: str) -> None:
        """Say that the missing field `name` is misspelt, where another field is written nearly like it."""
        for written in self._raw:
            if written not in self._read_names and self.reading.spelling.nearest(written, (name,)):
                self._refuse_name(written, f"unknown field `{self._path(written)}`{did_you_mean(name)}", name)
                return

    def _refuse_name(self, name: str, message: str, suggestion: str | None) -> None:
        path = (*self.path, name)
        if suggestion is not None and suggestion not in self._raw:
            missing = self._path_to(suggestion)
            self.reading.problems[:] = [each for each in self.reading.problems if each.path != missing]
        problem = replace(self._finding("document", message, path, suggestion), is_at_name=True)
        self.reading.problems.append(problem)

    def _finding(self, rule: str, message: str, path: tuple[str, ...], suggestion: str | None = None) -> Finding:
        # Cut names: authors choose them, they may be long, and every message about a part below repeats them.
        node = None if self.node is None else shorten(self.node)
        return Finding("error", rule, shorten(message), node, suggestion=suggestion, path=path)

    def _path_to(self, place: str) -> tuple[str, ...]:
        return (*self.path, *place.split(".")) if place else self.path

    def value(self, name: str) -> Any:
        """Return the raw value of a field, or None when it is absent. An empty one blocks publishing."""
        self._read_names.add(name)
        value = self._raw.get(name)
        if value is None and name in self._raw:
            self.complain(f"`{self._path(name)}` is empty; write a value, or leave the field out", name, "document")
        return value

    def string(self, name: str, default: str | None = None, choices: Sequence[str] = (), longest: int = 200) -> str:
        """Return a text field; one without `default` is required."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            self.refuse(f"`{self._path(name)}` has to be a text of 1 to {longest} characters", at=name)
        elif choices and value not in choices:
            nearest = self.reading.spelling.nearest(value, choices)
            allowed = f"it has to be one of {', '.join(choices)}"
            message = f"`{self._path(name)}` is `{value}`; {allowed}{did_you_mean(nearest)}"
            self.refuse(message, at=name, suggestion=nearest)
        else:
            return value
        return default or ""

    def integer(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`, or `default` when the field is absent; without one it may not."""
        value = self.value(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(f"`{self._path(name)}` has to be a whole number from {low} to {high}", at=name)
            return default
        return value

    def boolean(self, name: str) -> bool:
        """Return a true or false field; absent means false."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            self.refuse(f"`{self._path(name)}` has to be true or false", at=name)
        return value is True

    def items(self, name: str, maximum: int = 100) -> list[Any]:
        """Return a list field of at most `maximum` items; absent means empty."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.refuse(f"`{self._path(name)}` has to be a list", at=name)
            return []
        if len(value) > maximum:
            self.refuse(f"`{self._path(name)}` has {len(value)} items; at most {maximum} are allowed", at=name)
        return list(value[:maximum])

    def entries(self, name: str) -> dict[str, Any]:
        """Return an object field with free names; absent means empty."""
        value = self.value(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(f"`{self._path(name)}` has to be an object", at=name)
            return {}
        return _named(value)

    def identifier(self, name: str) -> str:
        """Return a required name of a node or variable."""
        value = self.string(name)
        if value and not NAME.fullmatch(value):
            self.refuse(
                f"`{self._path(name)}` is `{value}`; a name has letters, digits, - and _, and begins with a letter",
                at=name,
            )
        return value

    def expression(self, name: str) -> Expression:
        """Return a required expression; a number is a constant."""
        return self.compiled(self.value(name), name) or constant(None)

    def compiled(self, value: Any, name: str) -> Expression | None:
        """Compile `value`, from the field `name`, as an expression. None, and a problem, when it is not one."""
        if isinstance(value, int | float):
            value = repr(value)
        if not isinstance(value, str) or not value:
            self.refuse(f"`{self._path(name)}` has to be an expression, such as `vars.amount`", at=name)
            return None
        try:
            return compile_expression(value)
        except ExpressionError as refusal:
            self.refuse(f"`{self._path(name)}`: {refusal}", "expression", name, refusal.suggestion)
            return None

    def template(self, value: Any, name: str) -> Template:
        """Compile `value`, from the field `name`, as a text with slots."""
        if not isinstance(value, str):
            self.refuse(f"`{self._path(name)}` has to be a text; write it in quotes", at=name)
            return Template("", ())
        try:
            return compile_template(value, self.reading.widest)
        except ExpressionError as refusal:
            self.refuse(f"`{self._path(name)}`: {refusal}", "expression", name, refusal.suggestion)
            return Template("", ())

    def text(self, name: str) -> LocalizedText:
        """Return a required text: an object by language, or one text for the default language."""
        value, default_language = self.value(name), self.reading.default_language
        if isinstance(value, str):
            value = {default_language: value}
        if value is None:
            self.refuse(f'`{self._path(name)}` is missing; write it as {{"{default_language}": "..."}}', at=name)
        elif not isinstance(value, Mapping):
            self.refuse(f"`{self._path(name)}` has to be a text, or an object with a text for each language", at=name)
        if not isinstance(value, Mapping):
            return LocalizedText({}, default_language)
        for language in value:
            if language not in self.reading.languages and language not in self.reading.foreign_languages:
                # One declaration mends all texts in the language.
                self.reading.foreign_languages.add(language)
                where = f"{name}.{language}"
                message = f"`{self._path(name)}` has the language `{language}`, which is not in `languages`"
                self.refuse(
                    message, at=where, suggestion=self.reading.spelling.nearest(str(language), self.reading.languages)
                )
        return LocalizedText(
            {language: self.template(source, f"{name}.{language}") for language, source in value.items()},
            default_language,
        )

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def _named(raw: Mapping[Any, Any]) -> dict[str, Any]:
    """Return an object with its names as texts: YAML reads `yes` as true and a network code as a number."""
    return {"yes" if key is True else "no" if key is False else str(key): value for key, value in raw.items()}
