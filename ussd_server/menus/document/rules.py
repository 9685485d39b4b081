"""The rules of inputs. Patterns have bounded running time: their matching attempts are counted before use."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Private, because Python has no public parser of patterns.
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Annotated, Any

from ussd_server.menus.document.expressions import Expression
from ussd_server.menus.document.fields import DocumentFields
from ussd_server.menus.document.kinds import EXPRESSION, TEXT, Kind, array, read_object, string, whole
from ussd_server.menus.document.templates import LocalizedText
from ussd_server.menus.document.variables import MAX_TEXT
from ussd_server.wire import Key

MAX_RULES = 10
MAX_AMOUNT = 999_999_999_999_999
MAX_CHARACTERS = 64
MAX_ENTRY = 160  # characters a phone can send in one step
MAX_WAYS = 30_000  # matching attempts; enough for two repetitions without a limit, side by side
# A pattern that ignores case is compiled character by character, 65,536 of them for a range such as [Ā-\uffff].
MAX_RANGE = 256

_UNITS_OF_A_PATTERN = 100
_SINGLE = {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.AT}
_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT}


class PatternError(ValueError):
    """A pattern that is not allowed in a document; the message says why."""


def compile_pattern(source: str) -> re.Pattern[str]:
    """Compile a pattern for whole entries of at most 160 characters. Raises `PatternError`.

    In the worst case, a backtracking matcher tries every division of the entry among the repetitions and alternatives.
    An upper bound of that number is computed from the parsed pattern, so nested quantifiers, alternatives under a
    repetition and several `.*` are refused, whatever the entry is.
    """
    if len(source) > MAX_CHARACTERS:
        raise PatternError(f"the pattern has {len(source)} characters; at most {MAX_CHARACTERS} are allowed")
    try:
        ways = _ways(_parser.parse(source, re.ASCII))
        pattern = re.compile(source, re.ASCII)
    except PatternError:
        raise
    except (re.error, ValueError, OverflowError, RecursionError):
        raise PatternError(f"`{source}` is not a regular expression") from None
    if ways > MAX_WAYS:
        raise PatternError(
            f"`{source}` can run away on a long entry; give repetitions a limit such as {{1,20}} and do not nest them"
        )
    return pattern


def _ways(pattern: Any) -> int:
    """Return an upper bound of the ways to match a sequence of parsed parts, capped at `MAX_WAYS + 1`."""
    ways = 1
    for operation, argument in pattern:
        ways = min(ways * _part_ways(operation, argument), MAX_WAYS + 1)
    return ways


def _part_ways(operation: Any, argument: Any) -> int:
    if operation is sre.IN and any(kind is sre.RANGE and ends[1] - ends[0] >= MAX_RANGE for kind, ends in argument):
        raise PatternError(f"a range has at most {MAX_RANGE} characters")
    if operation in _SINGLE:
        return 1
    if operation is sre.SUBPATTERN:
        return _ways(argument[-1])
    if operation is sre.BRANCH:
        return sum(_ways(alternative) for alternative in argument[1])
    if operation in _REPEATS:
        low, high, body = argument
        # A matcher repeats a part of no characters as often as it is asked to, whatever the length of the entry.
        if body.getwidth()[1] == 0:
            raise PatternError("the pattern repeats a part that takes no character")
        return _repeat_ways(low, min(int(high), MAX_ENTRY), _ways(body))
    raise PatternError("look-around, back-references and conditions are not allowed in a pattern")


def _repeat_ways(low: int, high: int, body_ways: int) -> int:
    if low > high:
        raise PatternError(f"the pattern asks for more than {MAX_ENTRY} characters")
    if body_ways == 1:
        return high - low + 1
    ways = 0
    for times in range(low, high + 1):
        ways += body_ways**times
        if ways > MAX_WAYS:
            break
    return min(ways, MAX_WAYS + 1)


def _pattern(fields: DocumentFields, name: str) -> re.Pattern[str] | None:
    fields.reading.spend(_UNITS_OF_A_PATTERN)
    try:
        return compile_pattern(fields.string(name))
    except PatternError as error:
        fields.refuse(f"`{fields.place}.{name}`: {error}", "regex", name)
        return None


def _accepted(fields: DocumentFields, name: str) -> tuple[str, ...]:
    raw = fields.items(name)
    if not raw:
        fields.refuse(f"`one_of` needs `{name}`, a list of the accepted entries", at=name)
    for number, value in enumerate(raw, start=1):
        if not isinstance(value, str):
            place = f"{name}.{number}"
            fields.complain(f"`{fields.place}.{place}` has to be a text; write it in quotes", place)
    return tuple(str(value) for value in raw)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of an input. The classes below declare which fields each rule has, and say what it accepts."""

    rule: str
    min: int | None = None
    max: int | None = None
    pattern: re.Pattern[str] | None = None
    values: tuple[str, ...] = ()
    expression: Expression | None = None
    error: Annotated[LocalizedText | None, TEXT, "the notice above the question; every rule may have one"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRule(Rule):
    """whole shillings, with or without commas"""

    min: Annotated[int | None, whole(0, MAX_AMOUNT), "the least amount, default 1"] = 1
    max: Annotated[int | None, whole(0, MAX_AMOUNT), "the largest amount"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneRule(Rule):
    """`0772123456`, `256772123456`, `+256772123456`; keeps `+256...`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthRule(Rule):
    """texts of this length"""

    min: Annotated[int | None, whole(0, MAX_TEXT), "the fewest characters"] = 0
    max: Annotated[int | None, whole(1, MAX_TEXT), "the most characters"] = MAX_TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexRule(Rule):
    """a whole match of a pattern"""

    pattern: Annotated[
        re.Pattern[str] | None,
        Kind(string(MAX_CHARACTERS).schema, _pattern),
        "the pattern, at most 64 characters; it must match the whole entry",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRule(Rule):
    """whole numbers"""

    min: Annotated[int | None, whole(-MAX_AMOUNT, MAX_AMOUNT), "the least number"] = None
    max: Annotated[int | None, whole(-MAX_AMOUNT, MAX_AMOUNT), "the largest number"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRule(Rule):
    """day, month and year (31/12/2026), or 2026-12-31; keeps the latter"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOfRule(Rule):
    """one of these texts"""

    values: Annotated[
        tuple[str, ...], Kind(array({"type": "string"}, fewest=1), _accepted), "the texts that are accepted"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionRule(Rule):
    """what makes an expression true"""

    expression: Annotated[Expression, Key("expr"), EXPRESSION, "the condition; the entry is already in its variable"]


RULES: dict[str, type[Rule]] = {
    "amount": AmountRule,
    "phone": PhoneRule,
    "length": LengthRule,
    "regex": RegexRule,
    "integer": IntegerRule,
    "date": DateRule,
    "one_of": OneOfRule,
    "expr": ExpressionRule,
}


def read_rule(fields: DocumentFields) -> Rule:
    """Read one rule of an input."""
    name = fields.string("rule", choices=tuple(RULES))
    rule = read_object(RULES.get(name, Rule), fields, rule=name)
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        fields.refuse(f"`min` {rule.min} is above `max` {rule.max}; no entry could pass", at="min")
    return rule
