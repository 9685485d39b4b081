"""Texts with `{{name|filter}}` slots, and the longest text that each can become."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ussd_server.menus.document.expressions import SCOPES, WIDEST_DATE, ExpressionError, Name, Scope
from ussd_server.menus.document.findings import Spelling, did_you_mean
from ussd_server.menus.text import drop_controls, plain
from ussd_server.values import PHONE_NUMBER, national_number

MAX_CHARACTERS = 1600

_NAME = re.compile(r"(vars|session|item)\.([a-z][a-z0-9_]*)|(item)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter with its argument, as in `trunc:10`."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder for a value in a text; it never takes more than `len(widest)` septets."""

    name: Name
    filters: tuple[Filter, ...]
    widest: str
    is_date: bool = False

    @property
    def has_default(self) -> bool:
        """Whether a text stands in for a value that was never set."""
        return any(each.name == "default" for each in self.filters)

    def phone_text(self, scope: Scope) -> str:
        """Return the value for a phone: as people read it, in the GSM alphabet, cut to the declared width."""
        return plain(self.written(scope))[: len(self.widest)]

    def written(self, scope: Scope) -> str:
        """Return the value as people read it: filtered; a date day first."""
        return self.value(scope, _day_first if self.is_date else drop_controls)

    def value(self, scope: Scope, clean: Callable[[str], str]) -> str:
        """Return the value as text, cleaned by `clean` and then filtered."""
        value = self.name.look_up(scope)
        text = "" if value is None or isinstance(value, list | tuple | Mapping) else clean(str(value))
        for each in self.filters:
            text = _FILTERS[each.name](text, each.argument)
        return text


@dataclass(frozen=True, slots=True)
class Template:
    """A text of the document: literal parts and slots in their order."""

    source: str
    parts: tuple[str | Slot, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The places where values are shown."""
        return tuple(part for part in self.parts if isinstance(part, Slot))

    @property
    def names(self) -> frozenset[Name]:
        """The variables that the text shows."""
        return frozenset(slot.name for slot in self.slots)

    @property
    def widest(self) -> str:
        """The text at its longest: every variable at its declared maximum."""
        return "".join(part.widest if isinstance(part, Slot) else part for part in self.parts)

    def phone_text(self, scope: Scope) -> str:
        """Return the text for a screen; it never takes more septets than `widest`."""
        return "".join(part.phone_text(scope) if isinstance(part, Slot) else part for part in self.parts)

    def written(self, scope: Scope) -> str:
        """Return the text for people who read it elsewhere than on a screen: values keep their letters."""
        return "".join(part.written(scope) if isinstance(part, Slot) else part for part in self.parts)

    def filled(self, scope: Scope, clean: Callable[[str], str] = drop_controls) -> str:
        """Return the text for a server: values keep their letters; `clean` is applied to each."""
        return "".join(part.value(scope, clean) if isinstance(part, Slot) else part for part in self.parts)

    def raw(self, scope: Scope) -> Any:
        """Return the bare value when the text is one slot without a filter, else the filled text."""
        match self.parts:
            case (Slot(name=name, filters=()),):
                return name.look_up(scope)
        return self.filled(scope)


_EMPTY = Template("", ())


@dataclass(frozen=True, slots=True)
class LocalizedText:
    """A text in several languages; a missing language gets the default language."""

    by_language: Mapping[str, Template]
    default_language: str

    def in_language(self, language: str) -> Template:
        """Return the text in `language`, or in the default language."""
        return self.by_language.get(language) or self.by_language.get(self.default_language) or _EMPTY

    @property
    def names(self) -> frozenset[Name]:
        """The variables that the text shows in any language."""
        return frozenset().union(*(template.names for template in self.by_language.values()))


def compile_template(source: str, widest: Mapping[Name, str]) -> Template:
    """Compile a text; `widest` gives each known variable at its longest.

    Raises `ExpressionError` for a slot or filter that cannot be read. A variable that is not in `widest` counts as
    empty; the check reports it as undeclared.
    """
    if len(source) > MAX_CHARACTERS:
        raise ExpressionError(f"the text has {len(source)} characters; at most {MAX_CHARACTERS} are allowed")
    parts: list[str | Slot] = []
    position = 0
    while (start := source.find("{{", position)) >= 0 and (end := source.find("}}", start + 2)) >= 0:
        parts.append(source[position:start])
        parts.append(_slot(source[start + 2 : end], widest))
        position = end + 2
    parts.append(source[position:])
    literals = "".join(part for part in parts if isinstance(part, str))
    if "{{" in literals or "}}" in literals:
        raise ExpressionError("a `{{` or `}}` stands alone; write `{{vars.name}}`")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in literals if character != "\n"):
        raise ExpressionError("the text holds a control character; only line breaks are allowed")
    return Template(source, tuple(part for part in parts if part != ""))


def _slot(source: str, widest: Mapping[Name, str]) -> Slot:
    written, *filters = source.split("|")
    match = _NAME.fullmatch(written.strip())
    if match is None:
        raise ExpressionError(f"`{{{{{source}}}}}` does not begin with {', '.join(f'{scope}.x' for scope in SCOPES)}")
    name = Name(match.group(1) or match.group(3), match.group(2) or "")
    read = tuple(_filter(each) for each in filters)
    return Slot(name, read, _widest(widest.get(name, ""), read), widest.get(name) == WIDEST_DATE)


def _filter(source: str) -> Filter:
    name, _, argument = source.partition(":")
    name = name.strip()
    if name not in _FILTERS:
        nearest = Spelling().nearest(name, _FILTERS)
        message = f"there is no filter `{name}`; use one of {', '.join(_FILTERS)}{did_you_mean(nearest)}"
        raise ExpressionError(message, nearest)
    if name == "trunc" and not (
        argument.isascii() and argument.isdigit() and len(argument) <= 3 and 0 < int(argument) <= 160
    ):
        raise ExpressionError("`trunc` needs a number of characters from 1 to 160, as in `trunc:10`")
    return Filter(name, argument)


def _widest(value: str, filters: tuple[Filter, ...]) -> str:
    """Apply the filters to the longest value; a longer `default` replaces it."""
    longest = value
    for each in filters:
        filtered = _FILTERS[each.name](longest, each.argument)
        absent = plain(each.argument) if each.name == "default" else ""
        longest = max(filtered, absent, key=len)
    return longest


def _day_first(text: str) -> str:
    """Write `2026-12-31` as 31/12/2026."""
    return "/".join(reversed(text.split("-")))


def _ugx(text: str, _: str) -> str:
    """Write a whole number with thousands separators; other texts stay unchanged."""
    digits = text.removeprefix("-")
    return f"{int(text):,}" if digits.isascii() and digits.isdigit() and len(digits) <= 16 else text


def _local(text: str, _: str) -> str:
    return f"0{national_number(text)}" if PHONE_NUMBER.fullmatch(text) else text


def _mask(text: str, _: str) -> str:
    """Mask all but the last three characters."""
    return "*" * (len(text) - 3) + text[-3:] if len(text) > 3 else "*" * len(text)


_FILTERS: dict[str, Callable[[str, str], str]] = {
    "ugx": _ugx,
    "local": _local,
    "mask": _mask,
    "trunc": lambda text, length: text[: int(length)],
    "upper": lambda text, _: text.upper(),
    "default": lambda text, default: text or default,
}
