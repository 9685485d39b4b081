"""Entries at input nodes: converted to the type of the variable, or refused with a notice."""

from __future__ import annotations

import datetime
import re
from typing import Any

from ussd_server.menus.document.expressions import Scope
from ussd_server.menus.document.nodes import (
    ConfirmNode,
    InputNode,
    LanguageNode,
    ListNode,
    MenuNode,
    PinNode,
    ScreenNode,
)
from ussd_server.menus.document.rules import MAX_ENTRY, Rule
from ussd_server.menus.document.variables import Variable
from ussd_server.menus.engine.views import Values
from ussd_server.menus.phrases import phrase
from ussd_server.values import national_number, phone_number

CheckedNode = MenuNode | InputNode | ConfirmNode | ListNode | LanguageNode

# What gateways put in place of a character that they could not read.
_UNREADABLE = "\ufffd"
_OVERLONG = Rule("length")
_AMOUNT = re.compile(r"[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4}", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_DATE = re.compile(r"([0-9]{1,2})[/.-]?([0-9]{2})[/.-]?([0-9]{4})", re.ASCII)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class EntryError(ValueError):
    """An invalid entry; `rule` is the rule that refused it."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule.rule)
        self.rule = rule


def rules_of(node: InputNode, variable: Variable) -> tuple[Rule, ...]:
    """Return the rules of an input. The type of its variable is the first rule, unless the node states it."""
    if variable.type in ("text", "list") or any(rule.rule == variable.type for rule in node.validate):
        return node.validate
    return (Rule(variable.type, min=1 if variable.type == "amount" else None), *node.validate)


def read_entry(node: InputNode, variable: Variable, entry: str, scope: Scope) -> Any:
    """Return the value to store: amounts in whole shillings, phone numbers as `+256...`. Raises `EntryError`."""
    if not 0 < len(entry) <= MAX_ENTRY or not entry.isprintable() or _UNREADABLE in entry:
        raise EntryError(_OVERLONG)
    value: Any = entry
    for rule in rules_of(node, variable):
        value = _passed(rule, value, node.var, variable, scope)
    converted = variable.convert(value)
    if converted is None:
        raise EntryError(_OVERLONG)
    return converted


def notice(
    node: CheckedNode, rule: Rule | None, values: Values, language: str, variable: Variable | None = None
) -> str:
    """Return the sentence above a node after an entry that `rule` refused."""
    own = rule.error if rule is not None and rule.error is not None else node.invalid.text
    if own is not None:
        return values.text(own, language)
    if rule is None:
        return phrase("invalid_choice", language)
    if rule.rule == "amount" and variable is not None:
        highest = rule.max if rule.max is not None else 10**variable.max_len - 1
        return phrase("invalid_amount", language, min=f"{rule.min or 0:,}", max=f"{highest:,}")
    return phrase({"phone": "invalid_phone", "date": "invalid_date"}.get(rule.rule, "invalid_entry"), language)


def notices(node: ScreenNode, values: Values, language: str, variable: Variable | None = None) -> set[str]:
    """Return every notice that may be shown above a node, including the empty one."""
    if isinstance(node, InputNode) and variable is not None:
        rules = (*rules_of(node, variable), _OVERLONG)
        return {"", *(notice(node, rule, values, language, variable) for rule in rules)}
    if isinstance(node, PinNode):
        left, length = str(node.tries - 1), str(node.length)
        whys = ("pin_length", "pin_simple", "pin_differs", "pin_wrong")
        return {"", *(phrase(why, language, left=left, length=length) for why in whys)}
    if isinstance(node, MenuNode | ConfirmNode | ListNode | LanguageNode):
        return {"", notice(node, None, values, language)}
    return {""}


def _passed(rule: Rule, value: Any, var: str, variable: Variable, scope: Scope) -> Any:
    text = str(value)
    match rule.rule:
        case "amount":
            return _within(rule, int(text.replace(",", "")) if _AMOUNT.fullmatch(text) else None)
        case "integer":
            return _within(rule, int(text) if _INTEGER.fullmatch(text) else None)
        case "phone":
            number = phone_number(text.replace(" ", ""))
            value = number if number and national_number(number).startswith("7") else None
        case "date":
            value = _date(text)
        case "length":
            value = value if (rule.min or 0) <= len(text) <= (rule.max or MAX_ENTRY) else None
        case "regex":
            value = value if len(text) <= MAX_ENTRY and rule.pattern and rule.pattern.fullmatch(text) else None
        case "one_of":
            value = value if text in rule.values else None
        case "expr":
            candidate = {**scope, "vars": {**scope["vars"], var: variable.convert(value)}}
            value = value if rule.expression and rule.expression.is_true(candidate) else None
    if value is None:
        raise EntryError(rule)
    return value


def _within(rule: Rule, number: int | None) -> int:
    low, high = rule.min, rule.max
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        raise EntryError(rule)
    return number


def _date(text: str) -> str | None:
    """Read a date in the order day, month, year, or in ISO form."""
    match = _DATE.fullmatch(text)
    try:
        if match:
            day, month, year = (int(part) for part in match.groups())
            return datetime.date(year, month, day).isoformat()
        return datetime.date.fromisoformat(text).isoformat() if _ISO_DATE.fullmatch(text) else None
    except ValueError:
        return None
