"""The parts of menu nodes: exits, texts, expressions and the variables that they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, NamedTuple

from ussd_server.menus.document import nodes
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import Expression, Name
from ussd_server.menus.document.kinds import BRANCH, NODE, declared
from ussd_server.menus.document.templates import LocalizedText, Template

Path = tuple[str, ...]

_LABELS = {"goto": "", "on_error": "error", "on_timeout": "timeout"}


class Exit(NamedTuple):
    """A way out of a node: an option's key or an outcome, the next node, and the path of the field that names it."""

    label: str
    target: str
    path: Path


class Change(NamedTuple):
    """A variable that a node may change, with the path of the field that says so, and its new value if one is given."""

    var: str
    path: Path
    value: Expression | None = None


def exits(node: nodes.Node) -> Iterator[Exit]:
    match node:
        case nodes.MenuNode():
            for number, option in enumerate(node.options, start=1):
                yield Exit(option.key, option.goto, ("options", str(number), "goto"))
        case nodes.RouterNode():
            for number, case in enumerate(node.cases, start=1):
                yield Exit(case.when.source, case.goto, ("cases", str(number), "goto"))
    for field in declared(type(node)):
        target = getattr(node, field.attribute)
        if (field.kind is NODE or field.kind is BRANCH) and target is not None:
            yield Exit(_LABELS.get(field.name, field.name), target, (field.name,))
        elif field.name == "invalid" and target.goto is not None:
            yield Exit("invalid", target.goto, ("invalid", "goto"))


def parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, LocalizedText | Template | Expression]]:
    """Yield every text, bare template and expression in a node with its path in the document."""
    if isinstance(value, LocalizedText | Template | Expression):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from parts(each, (*path, name))
    elif is_dataclass(value) or isinstance(value, nodes.Case):
        for field in declared(type(value)):
            name = "end" if isinstance(value, nodes.EndNode) and "." in value.name else field.name
            yield from parts(getattr(value, field.attribute), (*path, name))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value, start=1):
            match each:
                case (str() as name, Template() | Expression() as part):  # a header, or a variable with its value
                    yield (*path, name), part
                case _:
                    yield from parts(each, (*path, str(number)))


def texts(node: nodes.Node) -> Iterator[tuple[Path, LocalizedText]]:
    yield from ((path, part) for path, part in parts(node) if isinstance(part, LocalizedText))


def expressions(node: nodes.Node) -> Iterator[tuple[Path, Expression]]:
    yield from ((path, part) for path, part in parts(node) if isinstance(part, Expression))


def names_in(node: nodes.Node) -> Iterator[tuple[Path, Name]]:
    """Yield every variable that a node reads, with the path of the expression or text that reads it."""
    for path, part in parts(node):
        if isinstance(part, LocalizedText):
            for language, template in part.by_language.items():
                yield from (((*path, language), name) for name in template.names)
        else:
            yield from ((path, name) for name in part.names)


def changes(node: nodes.Node) -> Iterator[Change]:
    match node:
        case nodes.MenuNode():
            for number, option in enumerate(node.options, start=1):
                place = ("options", str(number), "set")
                yield from (Change(var, (*place, var), value) for var, value in option.set)
        case nodes.SetNode():
            yield from (Change(var, ("values", var), value) for var, value in node.values)
        case nodes.HttpNode():
            yield from (Change(var, ("map", var)) for var, _ in node.map)
        case nodes.ListNode(var=str(var)):
            yield Change(var, ("var",), node.value)
        case nodes.InputNode() | nodes.BalanceNode() | nodes.LookupNameNode():
            yield Change(node.var, ("var",))


def rank_nodes(document: Document) -> dict[str, int]:
    """Return the number of steps from the start for every reachable node."""
    ranks: dict[str, int] = {}
    layer = [document.start] if document.start in document.nodes else []
    rank = -1
    while layer:
        rank += 1
        ranks.update(dict.fromkeys(layer, rank))
        following = (each.target for name in layer for each in exits(document.nodes[name]))
        layer = [name for name in dict.fromkeys(following) if name in document.nodes and name not in ranks]
    return ranks
