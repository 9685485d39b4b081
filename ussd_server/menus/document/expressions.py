"""Expressions in menus: a whitelisted subset of Python expressions, compiled once."""

from __future__ import annotations

import ast
import datetime
import keyword
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

MAX_CHARACTERS = 200
MAX_DEPTH = 8
MAX_MAGNITUDE = 10**15
MAX_STRING = 500
SCOPES = ("vars", "session", "item")
# Variables may be Python keywords, such as `class`: append U+A66E, which no name has, so that `ast` parses them.
_MARK = "\ua66e"
_RESERVED = re.compile(rf"\b(?:{'|'.join(SCOPES)})\.(?:{'|'.join(keyword.kwlist)})\b")

_ONE_SIGN = "(?<![<>=!])=(?![<>=])"
_MISWRITTEN = (("=<", "<="), ("=>", ">="), ("&&", "and"), (_ONE_SIGN, "=="))

Scope = Mapping[str, Any]  # "vars" and "session" hold mappings, "item" a mapping or a plain value
Bounded = TypeVar("Bounded")
Evaluate = Callable[[Scope], Any]
_Part = Callable[[ast.expr], Evaluate]  # compiles a part of the part that is being compiled


WIDEST_DATE = "31/12/2026"
"""A date as phones show it. As a value it is `2026-12-31`, so that dates compare as texts."""


class CalendarDay(str):
    """A date as `2026-12-31`, to which days can be added."""

    def plus(self, days: int) -> CalendarDay:
        """Return a later day, or an earlier one. Raises `NoValueError` where the calendar ends."""
        try:
            return CalendarDay((datetime.date.fromisoformat(self) + datetime.timedelta(days=days)).isoformat())
        except OverflowError:
            raise NoValueError from None


class ExpressionError(ValueError):
    """An expression or template that is not allowed in a document; the message says why."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


class NoValueError(ValueError):
    """An expression has no value, for example because a variable was never set."""


@dataclass(frozen=True, slots=True)
class Name:
    """A variable as written in a document: `vars.amount`, `session.network`, `item.name` or `item`."""

    scope: str
    name: str

    def __str__(self) -> str:
        return "today()" if self == TODAY else f"{self.scope}.{self.name}" if self.name else self.scope

    def look_up(self, scope: Scope) -> Any:
        """Return the present value, or None."""
        values = scope.get(self.scope)
        if not self.name:
            return values
        return values.get(self.name) if isinstance(values, Mapping) else None


TODAY = Name("today", "")
"""What `today()` reads."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and the names it reads."""

    source: str
    names: frozenset[Name]
    _evaluate: Evaluate = field(repr=False, compare=False)

    def value(self, scope: Scope) -> Any:
        """Return the value; None for a missing variable, a division by zero or mixed types."""
        try:
            return self._evaluate(scope)
        except NoValueError:
            return None

    def is_true(self, scope: Scope) -> bool:
        """Return whether the condition holds; one without a value does not."""
        return bool(self.value(scope))

    def holds(self, scope: Scope) -> bool:
        """Return whether the condition holds. Raises `NoValueError` for one without a value."""
        return bool(self._evaluate(scope))


Assignments = tuple[tuple[str, Expression], ...]  # variables, each with its new value


def compile_expression(source: str) -> Expression:
    """Compile `source`. Raises `ExpressionError` with a sentence for the author."""
    if len(source) > MAX_CHARACTERS:
        raise ExpressionError(f"the expression has {len(source)} characters; at most {MAX_CHARACTERS} are allowed")
    try:
        tree = ast.parse(_RESERVED.sub(rf"\g<0>{_MARK}", source.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"`{source}` is not an expression; write {_meant(source)}") from None
    names: set[Name] = set()
    evaluate = _build(tree, 1, names)
    return Expression(source, frozenset(names), evaluate)


def compared_with(source: str, name: Name) -> frozenset[Name] | None:
    """Return the names that an expression compares a name with, by `==` and `!=`; None when it does more with it."""
    tree = ast.parse(_RESERVED.sub(rf"\g<0>{_MARK}", source.strip()), mode="eval")
    compared = list[Name]()
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                sides = [side for side in (_name_of(left), _name_of(right)) if side is not None]
                compared += sides if name in sides and len(sides) == 2 else []
    reads = sum(_name_of(node) == name for node in ast.walk(tree))
    return frozenset(compared) - {name} if reads == compared.count(name) else None


def may_be_fraction(source: str) -> bool:
    """Return whether an expression divides, or has a decimal, outside of `int()`, `round()` and `ceil()`."""

    def divides(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="int" | "round" | "ceil")):
                return False
            case ast.BinOp(op=ast.Div()) | ast.Constant(value=float()):
                return True
        return any(divides(child) for child in ast.iter_child_nodes(node))

    return divides(ast.parse(_RESERVED.sub(rf"\g<0>{_MARK}", source.strip()), mode="eval"))


def _meant(source: str) -> str:
    """Return what the author of a text that is no expression may have meant, or an example."""
    correction = next((f"`{right}`, not `{wrong}`" for wrong, right in _MISWRITTEN if re.search(wrong, source)), None)
    return correction.replace(_ONE_SIGN, "=") if correction else "for example `vars.amount >= 500`"


def constant(value: Any) -> Expression:
    """Return an expression with a fixed value."""
    return Expression(repr(value), frozenset(), lambda _: value)


def _build(node: ast.expr, depth: int, names: set[Name]) -> Evaluate:
    """Compile a part of an expression, and add the names that it reads to `names`."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels; move a part into a `set` node")
    name = _name_of(node)
    if name is not None:
        names.add(name)
        return name.look_up
    try:
        return _BUILDERS[type(node)](node, lambda part: _build(part, depth + 1, names))
    except KeyError:  # no table has this kind of part, this operator or this function
        raise ExpressionError(
            f"`{ast.unparse(node)}` is not allowed; use comparisons, and, or, not, + - * / %, "
            "len int round ceil str lower, today(), vars.x, session.x, subscriber.has_pin, provider.x.available and "
            "constants"
        ) from None


def _name_of(node: ast.AST) -> Name | None:
    """Return the name that a part of an expression reads, None for a part that is no name."""
    match node:
        case ast.Name(id="item"):
            return Name("item", "")
        case ast.Call(func=ast.Name(id="today"), args=[], keywords=[]):
            return TODAY
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="provider"), attr=provider), attr=fact):
            return Name("provider", f"{provider}.{fact}")
        case ast.Attribute(value=ast.Name(id="subscriber"), attr=fact):
            return Name("subscriber", fact)
        case ast.Attribute(value=ast.Name(id=scope), attr=attribute) if scope in SCOPES and attribute[0] != "_":
            return Name(scope, attribute.removesuffix(_MARK))
    return None


def _constant(node: ast.Constant, _: _Part) -> Evaluate:
    if not isinstance(node.value, bool | int | float | str | None):
        raise KeyError
    value = node.value.replace(_MARK, "") if isinstance(node.value, str) else node.value
    try:
        _bounded(value)
    except NoValueError:
        raise ExpressionError("a constant in the expression is too large") from None
    return lambda _: value


def _list(node: ast.List | ast.Tuple, part: _Part) -> Evaluate:
    elements = [part(element) for element in node.elts]
    return lambda scope: [evaluate(scope) for evaluate in elements]


def _and_or(node: ast.BoolOp, part: _Part) -> Evaluate:
    parts = [part(value) for value in node.values]
    decide = all if isinstance(node.op, ast.And) else any
    return lambda scope: decide(evaluate(scope) for evaluate in parts)


def _not_or_minus(node: ast.UnaryOp, part: _Part) -> Evaluate:
    operate, operand = _SIGNS[type(node.op)], part(node.operand)
    return lambda scope: operate(operand(scope))


def _arithmetic(node: ast.BinOp, part: _Part) -> Evaluate:
    operate = _ARITHMETIC[type(node.op)]
    left, right = part(node.left), part(node.right)

    def evaluate(scope: Scope) -> Any:
        first, second = left(scope), right(scope)
        if isinstance(first, CalendarDay) and operate in (operator.add, operator.sub) and not isinstance(second, str):
            days = _number(second)
            if not isinstance(days, int):
                raise NoValueError
            return first.plus(days if operate is operator.add else -days)
        if operate is operator.add and isinstance(first, str) and isinstance(second, str):
            return _bounded(first + second)
        try:
            return _bounded(operate(_number(first), _number(second)))
        except ZeroDivisionError:
            raise NoValueError from None

    return evaluate


def _comparison(node: ast.Compare, part: _Part) -> Evaluate:
    operators = [_COMPARISONS[type(each)] for each in node.ops]
    sides = [part(side) for side in (node.left, *node.comparators)]

    def evaluate(scope: Scope) -> bool:
        left = sides[0](scope)
        for compare, side in zip(operators, sides[1:], strict=True):
            right = side(scope)
            try:
                if not compare(left, right):
                    return False
            except TypeError:
                raise NoValueError from None
            left = right
        return True

    return evaluate


def _call(node: ast.Call, part: _Part) -> Evaluate:
    if not isinstance(node.func, ast.Name) or len(node.args) != 1 or node.keywords:
        raise KeyError
    function, argument = _FUNCTIONS[node.func.id], part(node.args[0])
    return lambda scope: _bounded(function(argument(scope)))


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoValueError
    return _bounded(value)


def _bounded(value: Bounded) -> Bounded:
    """Return `value`. Raises `NoValueError` for NaN, large numbers and long texts."""
    if isinstance(value, int | float) and not abs(value) <= MAX_MAGNITUDE:
        raise NoValueError
    if isinstance(value, str) and len(value) > MAX_STRING:
        raise NoValueError
    return value


def _divide(left: int | float, right: int | float) -> int | float:
    """Divide. A whole quotient is returned as an int, so that an amount stays an amount."""
    quotient = left / right
    return int(quotient) if quotient.is_integer() else quotient


def _length(value: Any) -> int:
    if not isinstance(value, str | list | tuple):
        raise NoValueError
    return len(value)


def _whole(value: Any) -> int:
    """Return a number without its fraction, or the number that a text of digits writes."""
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 16):
            raise NoValueError
        return int(digits)
    return math.trunc(_exact(value))


def _round(value: Any) -> int:
    """Return the nearest whole number; of two that are as near, the one further from zero, as cashiers round."""
    exact = _exact(value)
    return int(math.copysign(math.floor(abs(exact) + 0.5), exact))


def _ceil(value: Any) -> int:
    """Return the next whole number that is not less."""
    return math.ceil(_exact(value))


def _exact(value: Any) -> int | float:
    """Return a number without the error of binary fractions: 0.29 * 100 is 29."""
    return round(_number(value), 6)


def _text(value: Any) -> str:
    if value is None or isinstance(value, list | tuple | Mapping):
        raise NoValueError
    return str(value)


_BUILDERS: dict[type[ast.expr], Callable[[Any, _Part], Evaluate]] = {
    ast.Constant: _constant,
    ast.List: _list,
    ast.Tuple: _list,
    ast.BoolOp: _and_or,
    ast.UnaryOp: _not_or_minus,
    ast.BinOp: _arithmetic,
    ast.Compare: _comparison,
    ast.Call: _call,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: lambda value: -_number(value),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "len": _length,
    "int": _whole,
    "round": _round,
    "ceil": _ceil,
    "str": _text,
    "lower": lambda value: _text(value).lower(),
}
