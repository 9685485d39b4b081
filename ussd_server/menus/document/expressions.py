"""Expressions in menus: a whitelisted subset of Python expressions, compiled once."""

from __future__ import annotations

import ast
import keyword
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
        return f"{self.scope}.{self.name}" if self.name else self.scope

    def look_up(self, scope: Scope) -> Any:
        """Return the present value, or None."""
        values = scope.get(self.scope)
        if not self.name:
            return values
        return values.get(self.name) if isinstance(values, Mapping) else None


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
    others: set[Name] = set()
    compared = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq) and len(node.ops) == 1:
            sides = [_attribute(node.left), _attribute(node.comparators[0])]
            if name in sides and None not in sides:
                compared += sides.count(name)
                others |= {side for side in sides if side is not None}
    read = sum(_attribute(node) == name for node in ast.walk(tree))
    return frozenset(others - {name}) if read == compared else None


def _attribute(node: ast.AST) -> Name | None:
    """Return the name that a part of an expression reads, None for any other part."""
    match node:
        case ast.Attribute(value=ast.Name(id=scope), attr=attribute):
            return Name(scope, attribute.removesuffix(_MARK))
    return None


def _meant(source: str) -> str:
    """Return what the author of a text that is no expression may have meant, or an example."""
    found = next((f"`{right}`, not `{wrong}`" for wrong, right in _MISWRITTEN if re.search(wrong, source)), None)
    return found.replace(_ONE_SIGN, "=") if found else "for example `vars.amount >= 500`"


def constant(value: Any) -> Expression:
    """Return an expression with a fixed value."""
    return Expression(repr(value), frozenset(), lambda _: value)


def _build(node: ast.expr, depth: int, names: set[Name]) -> Evaluate:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels; move a part into a `set` node")

    def part(child: ast.expr) -> Evaluate:
        return _build(child, depth + 1, names)

    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float | str):
            return _constant(value.replace(_MARK, "") if isinstance(value, str) else value)
        case ast.Name(id="item"):
            return _name(Name("item", ""), names)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="provider"), attr=provider), attr=fact):
            return _name(Name("provider", f"{provider}.{fact}"), names)
        case ast.Attribute(value=ast.Name(id="subscriber"), attr=fact):
            return _name(Name("subscriber", fact), names)
        case ast.Attribute(value=ast.Name(id=scope), attr=attribute) if scope in SCOPES and attribute[0] != "_":
            return _name(Name(scope, attribute.removesuffix(_MARK)), names)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            parts = [part(element) for element in elements]
            return lambda scope: [evaluate(scope) for evaluate in parts]
        case ast.BoolOp(op=op, values=values):
            parts = [part(value) for value in values]
            decide = all if isinstance(op, ast.And) else any
            return lambda scope: decide(evaluate(scope) for evaluate in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            denied = part(operand)
            return lambda scope: not denied(scope)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            negated = part(operand)
            return lambda scope: -_number(negated(scope))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _arithmetic(_ARITHMETIC[type(op)], part(left), part(right))
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in _COMPARISONS for op in ops):
            return _comparison([_COMPARISONS[type(op)] for op in ops], [part(side) for side in (left, *comparators)])
        case ast.Call(func=ast.Name(id=called), args=[argument], keywords=[]) if called in _FUNCTIONS:
            function, argued = _FUNCTIONS[called], part(argument)
            return lambda scope: _bounded(function(argued(scope)))
    raise ExpressionError(
        f"`{ast.unparse(node)}` is not allowed; use comparisons, and, or, not, + - * / %, "
        "len int str lower, vars.x, session.x, subscriber.has_pin, provider.x.available and constants"
    )


def _constant(value: Any) -> Evaluate:
    try:
        _bounded(value)
    except NoValueError:
        raise ExpressionError("a constant in the expression is too large") from None
    return lambda _: value


def _name(name: Name, names: set[Name]) -> Evaluate:
    names.add(name)
    return name.look_up


def _arithmetic(operate: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        first, second = left(scope), right(scope)
        if operate is operator.add and isinstance(first, str) and isinstance(second, str):
            return _bounded(first + second)
        try:
            return _bounded(operate(_number(first), _number(second)))
        except ZeroDivisionError:
            raise NoValueError from None

    return evaluate


def _comparison(operators: list[Callable[[Any, Any], bool]], sides: list[Evaluate]) -> Evaluate:
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
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) <= 16):
            raise NoValueError
        return int(digits)
    return int(_number(value))


def _text(value: Any) -> str:
    if value is None or isinstance(value, list | tuple | Mapping):
        raise NoValueError
    return str(value)


def _is_in(left: Any, right: Any) -> bool:
    return left in right


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
    ast.In: _is_in,
    ast.NotIn: lambda left, right: left not in right,
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "len": _length,
    "int": _whole,
    "str": _text,
    "lower": lambda value: _text(value).lower(),
}
