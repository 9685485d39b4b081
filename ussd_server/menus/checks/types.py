"""Checks of types: expressions that can never have the value that their place needs.

An expression is tried with values that its variables may have. Where none of the results fits, no session has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import TODAY, CalendarDay, Expression, Name, may_be_fraction
from ussd_server.menus.document.findings import Finding, error, warning
from ussd_server.menus.document.nodes import ListNode, LookupNameNode, Node
from ussd_server.menus.document.variables import WIDEST_FACTS, Variable
from ussd_server.menus.tools.node_parts import Path, expressions
from ussd_server.values import PHONE_NUMBER

_MOST_TRIES = 24
_PHONE = "+256772123456"
_VALUES: Mapping[str, tuple[Any, ...]] = {
    "amount": (1000, 7),
    "integer": (12, -3),
    "phone": (_PHONE,),
    "date": ("2026-12-31",),
    "text": ("5", "Ann", _PHONE),
}
_FACTS: Mapping[str, Any] = {
    "phone_number": _PHONE,
    "service_code": "*384*123#",
    "network": "64110",
    "session_id": "s",
}


@dataclass(frozen=True, slots=True)
class _Expected:
    """An expected type: its description, and the tests that a value or a constant must pass."""

    words: str
    fits: Callable[[Any], bool]
    fits_constant: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_phone(value: Any) -> bool:
    return isinstance(value, str) and bool(PHONE_NUMBER.fullmatch(value))


_CONDITION = _Expected("true or false", lambda value: value is not None, lambda value: value is not None)
_AMOUNT = _Expected("a number", _is_number, lambda value: isinstance(value, int) and value is not True and value > 0)
_NUMBER_TEXT = _Expected("a phone number", _is_text, _is_phone)
_ACCOUNT = _Expected("`main` or a phone number", _is_text, lambda value: value == "main" or _is_phone(value))
_PLACES = {
    "amount": _AMOUNT,
    "phone_number": _NUMBER_TEXT,
    "to_phone_number": _NUMBER_TEXT,
    "account": _ACCOUNT,
    "of": _ACCOUNT,
    "to": _NUMBER_TEXT,
    "when": _CONDITION,
    "expr": _CONDITION,
}


def find_wrong_types(document: Document, work: WorkBudget) -> Iterator[Finding]:
    """Find expressions that never have a value of the type that their place needs."""
    for name, node in document.nodes.items():
        for path, expression in expressions(node):
            expected = _wanted(document, node, path)
            values = _values(document, node, expression)
            if expected is None or values is None:
                continue
            fits = expected.fits if expression.names else expected.fits_constant
            for value in values:
                work.spend(1)
                if fits(value):
                    break
            else:
                types = "".join(f"; {each}" for each in _declared(document, expression))
                message = f"`{'.'.join(path)}` needs {expected.words}, and `{expression.source}` never is one{types}"
                yield error("type", message, name, path)


def find_doubtful_values(document: Document) -> Iterator[Finding]:
    """Find numbers that may be fractions, which lead to `on_error`, and dates that are kept as texts."""
    for name, node in document.nodes.items():
        for path, expression in expressions(node):
            place, variable = f"`{'.'.join(path)}`", _kept_in(document, node, path)
            is_number = (variable is not None and variable.is_number) or path == ("amount",)
            if is_number and may_be_fraction(expression.source):
                message = (
                    f"{place} may be a fraction; write `int()`, `round()` or `ceil()` around `{expression.source}`"
                )
                yield warning("fraction", message, name)
            if variable is not None and variable.type == "text" and expression.names == {TODAY}:
                yield warning("date", f"{place} is a date; of type date, screens would show it day first", name)


def _kept_in(document: Document, node: Node, path: Path) -> Variable | None:
    """Return the declared variable that keeps the value of an expression."""
    match path:
        case ("values", var) | ("options", _, "set", var):
            return document.variables.get(var)
        case ("value",) if isinstance(node, ListNode):
            return document.variables.get(node.var or "")
    return None


def _wanted(document: Document, node: Node, path: Path) -> _Expected | None:
    """Return what a place needs; None for one that takes anything or whose variable is not declared."""
    match path:
        case ("values", _) | ("options", _, "set", _):
            return _kept(_kept_in(document, node, path))
        case ("value",) if isinstance(node, ListNode):
            return _kept(_kept_in(document, node, path))
        case ("items",):
            return None
        case ("of",) if isinstance(node, LookupNameNode):
            return _NUMBER_TEXT
    return _PLACES[path[-1]]


def _kept(variable: Variable | None) -> _Expected | None:
    if variable is None:
        return None

    def fits(value: Any) -> bool:
        if variable.type == "list":
            return isinstance(value, list)
        if variable.is_number:
            return _is_number(value) or (isinstance(value, str) and value.removeprefix("-").isdigit())
        return _is_text(value) or (variable.type == "text" and _is_number(value))

    # `None` clears a variable.
    return _Expected(
        f"a value of type {variable.type}", fits, lambda value: value is None or variable.convert(value) is not None
    )


def _values(document: Document, node: Node, expression: Expression) -> Iterator[Any] | None:
    """Return what an expression is, with values that its variables may have; None with an undeclared one."""
    names = sorted(expression.names, key=str)
    choices = [_choices(document, node, name) for name in names]
    if not all(choices):
        return None
    return (
        expression.value(_scope(dict(zip(names, values, strict=True))))
        for values in islice(product(*choices), _MOST_TRIES)
    )


def _choices(document: Document, node: Node, name: Name) -> tuple[Any, ...]:
    if name.scope == "vars":
        variable = document.variables.get(name.name)
        return () if variable is None else _of_type(variable)
    if name.scope == "session":
        return (_FACTS[name.name],) if name in WIDEST_FACTS else ()
    if name == TODAY:
        return (CalendarDay("2026-12-31"),)
    if name.scope in ("provider", "subscriber"):
        return (True, False) if name in WIDEST_FACTS else ()
    return _of_items(document, node, name.name) if isinstance(node, ListNode) else ()


def _of_items(document: Document, node: ListNode, field: str) -> tuple[Any, ...]:
    for name in node.items.names:
        variable = document.variables.get(name.name)
        declared = variable.fields.get(field) if variable is not None else None
        return () if declared is None else _of_type(declared)
    items = node.items.value({}) or []
    return tuple(item.get(field) if isinstance(item, dict) else item for item in items)


def _of_type(variable: Variable) -> tuple[Any, ...]:
    if variable.type == "list":
        return ([{name: _of_type(each)[0] for name, each in variable.fields.items()}],)
    return _VALUES[variable.type]


def _scope(values: Mapping[Name, Any]) -> dict[str, Any]:
    scope: dict[str, Any] = {"vars": {}, "session": {}, "provider": {}, "subscriber": {}, "item": {}}
    for name, value in values.items():
        if name.name:
            scope[name.scope][name.name] = value
        else:
            scope[name.scope] = value
    return scope


def _declared(document: Document, expression: Expression) -> list[str]:
    declared = [(name, document.variables[name.name]) for name in expression.names if name.scope == "vars"]
    return sorted(f"`{name}` is of type {variable.type}" for name, variable in declared)
