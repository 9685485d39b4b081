"""What the nodes of a menu hold and where: exits, texts, expressions and the variables that they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ussd_server.menus.document.expressions import Assignments, Expression, Name
from ussd_server.menus.document.nodes import (
    BalanceNode,
    ConfirmNode,
    EndNode,
    HandoverNode,
    HttpNode,
    InputNode,
    LanguageNode,
    ListNode,
    LookupNameNode,
    MenuNode,
    Node,
    PayNode,
    RouterNode,
    SetNode,
    SmsNode,
    TextNode,
)
from ussd_server.menus.document.templates import LocalizedText, Template

Path = tuple[str, ...]


def targets(node: Node) -> tuple[tuple[str, str], ...]:
    """Return every exit of a node as (option key or outcome, name of the next node)."""
    exits: list[tuple[str, str | None]] = []
    match node:
        case MenuNode():
            exits += [(option.key, option.goto) for option in node.options]
        case ConfirmNode():
            exits += [("yes", node.yes), ("no", node.no)]
        case RouterNode():
            exits += [(case.source, target) for case, target in node.cases] + [("else", node.otherwise)]
        case PayNode():
            exits += [("accepted", node.accepted), ("rejected", node.rejected)]
        case InputNode() | TextNode() | LanguageNode() | SetNode() | ListNode() | SmsNode():
            exits.append(("", node.goto))
        case BalanceNode() | LookupNameNode() | HttpNode():
            exits += [("", node.goto), ("error", node.on_error)]
        case HandoverNode():
            exits.append(("error", node.on_error))
    if isinstance(node, HttpNode):
        exits.append(("timeout", node.on_timeout))
    if isinstance(node, ListNode):
        exits.append(("empty", node.empty))
    if isinstance(node, MenuNode | InputNode | ConfirmNode | ListNode | LanguageNode):
        exits.append(("invalid", node.invalid.goto))
    return tuple((label, target) for label, target in exits if target is not None)


def texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], LocalizedText]]:
    """Yield every text in a node with its path in the document."""
    if isinstance(value, LocalizedText):
        yield path, value
    elif isinstance(value, tuple):
        for number, each in enumerate(value, start=1):
            yield from texts(each, (*path, str(number)))
    elif is_dataclass(value) and not isinstance(value, Expression | Template):
        for each in fields(value):
            name = "end" if isinstance(value, EndNode) and "." in value.name else each.name
            yield from texts(getattr(value, each.name), (*path, name))


def target_path(node: Node, label: str, position: int) -> tuple[str, ...]:
    """Return the path in a node of one of its `targets`: its label, and its position among them."""
    match node:
        case MenuNode() if label != "invalid":
            return ("options", str(position + 1), "goto")
        case RouterNode() if position < len(node.cases):
            return ("cases", str(position + 1), "goto")
        case _ if label == "invalid":
            return ("invalid", "goto")
    return ({"": "goto", "error": "on_error", "timeout": "on_timeout"}.get(label, label),)


def expressions(node: Node) -> Iterator[tuple[Path, Expression]]:
    """Yield every expression in a node with its path in the document."""
    match node:
        case MenuNode():
            for number, option in enumerate(node.options, 1):
                place = ("options", str(number))
                yield from [((*place, "when"), option.when)] if option.when else []
                yield from (((*place, "set", name), value) for name, value in option.set)
        case InputNode():
            for number, rule in enumerate(node.validate, 1):
                yield from [(("validate", str(number), "expr"), rule.expression)] if rule.expression else []
        case RouterNode():
            yield from ((("cases", str(number), "when"), when) for number, (when, _) in enumerate(node.cases, 1))
        case SetNode():
            yield from ((("values", name), value) for name, value in node.values)
        case BalanceNode() | LookupNameNode():
            yield ("of",), node.of
        case SmsNode():
            yield ("to",), node.to
        case ListNode():
            yield ("items",), node.items
            yield from [(("value",), node.value)] if node.value else []
        case PayNode():
            for name in ("amount", "phone_number", "to_phone_number", "account"):
                value = getattr(node, name)
                yield from [((name,), value)] if value else []


def names_in(node: Node) -> Iterator[tuple[Path, Name]]:
    """Yield every variable that a node reads, with the path of the expression or text that reads it."""
    for path, expression in expressions(node):
        yield from ((path, name) for name in expression.names)
    for path, text in texts(node):
        for language, template in text.by_language.items():
            yield from (((*path, language), name) for name in template.names)
    if isinstance(node, HttpNode):
        yield from ((("url",), name) for name in node.url.names)
        yield from ((("headers", header), name) for header, value in node.headers for name in value.names)
        yield from ((("body",), name) for part in parts(node.body) for name in part.names)


def parts(value: Any) -> Iterator[LocalizedText | Template | Expression]:
    """Yield every text, bare template and expression in a node."""
    match value:
        case LocalizedText() | Template() | Expression():
            yield value
        case Mapping():
            for each in value.values():
                yield from parts(each)
        case tuple() | list():
            for each in value:
                yield from parts(each)
        case _ if is_dataclass(value):
            for each in fields(value):
                yield from parts(getattr(value, each.name))


def written(node: Node) -> tuple[str, ...]:
    """Return the names of the variables that a node may change."""
    names = [name for name, _ in assigned(node)]
    match node:
        case InputNode() | BalanceNode() | LookupNameNode():
            names.append(node.var)
        case ListNode(var=str(var)):
            names.append(var)
        case HttpNode():
            names += [name for name, _ in node.map]
    return tuple(dict.fromkeys(names))


def assigned(node: Node) -> Assignments:
    """Return the assignments that a node makes from expressions."""
    match node:
        case MenuNode():
            return tuple(assignment for option in node.options for assignment in option.set)
        case SetNode():
            return node.values
        case ListNode(var=str(var), value=Expression() as value):
            return ((var, value),)
    return ()
