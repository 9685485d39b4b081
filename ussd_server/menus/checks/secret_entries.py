"""The check of secret entries: none is printed or stored, and each is used before it is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ussd_server.menus.document import nodes
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import Expression, Name, compared_with
from ussd_server.menus.document.findings import Finding, error
from ussd_server.menus.document.templates import LocalizedText, Template
from ussd_server.menus.tools.node_parts import changes, exits, parts


def find_leaking_secrets(document: Document, *, paths_known: bool) -> Iterator[Finding]:
    """Find secret entries that a text prints, that a variable stores, or that are forgotten before they are used.

    Without `paths_known`, because an exit or a node cannot be read, the last are not looked for.
    """
    inputs = [node for node in document.nodes.values() if isinstance(node, nodes.InputNode) and node.secret]
    secrets = {Name("vars", node.var) for node in inputs}
    for name, node in document.nodes.items():
        if any(isinstance(part, LocalizedText) and part.names & secrets for _, part in parts(node)):
            yield error("secret", "a text prints a secret entry", name)
        if isinstance(node, nodes.HttpNode) and node.url.names & secrets:
            yield error("secret", "an address carries a secret entry; put it into the body", name)
        if isinstance(node, nodes.PayNode):
            for place, template in _about_payment(node):
                if template.names & secrets:
                    yield error("secret", f"`{'.'.join(place)}` would keep a secret entry", name, place)
        if isinstance(node, nodes.SmsNode) and node.to.names & secrets:
            yield error("secret", "a message goes to a secret entry", name)
        if any(each.value is not None and each.value.names & secrets for each in changes(node)):
            yield error("secret", "a variable would keep a secret entry", name)
        overwrites = {Name("vars", each.var) for each in changes(node)} & secrets
        if overwrites and not (isinstance(node, nodes.InputNode) and node.secret):
            yield error("secret", "this node keeps a value in a variable that belongs to a secret entry", name)
    if paths_known:
        yield from _find_forgotten(document, inputs, secrets)


def _find_forgotten(document: Document, inputs: list[nodes.InputNode], secrets: set[Name]) -> Iterator[Finding]:
    """Find nodes that read a secret entry which is forgotten before, or that do more than compare two of them."""
    after = {node.name: _reached(document, node) for node in inputs}
    readers = {(node.var, name) for node in inputs for name in after[node.name] if _may_read(document.nodes[name])}
    comparisons = _comparisons(document, inputs, after)
    for name, node in document.nodes.items():
        own = {Name("vars", node.var)} if isinstance(node, nodes.InputNode) else set()
        for secret in sorted(_read_names(node) & secrets - own, key=str):
            if (secret.name, name) in readers:
                continue
            others = comparisons.get((secret.name, name), set())
            if not others:
                yield error("secret", f"`{secret}` is forgotten before this node; ask for it right before", name)
            elif not all(_only_compares(part, secret, others) for _, part in parts(node)):
                example = f"`{secret} == vars.{min(others)}`"
                message = f"`{secret}` can only be compared with the secret entry beside it here, such as {example}"
                yield error("secret", message, name)


def _comparisons(
    document: Document, inputs: list[nodes.InputNode], after: Mapping[str, set[str]]
) -> dict[tuple[str, str], set[str]]:
    """Return, by variable and node, the variables of the entries that a secret entry may be compared with there.

    They are two entries without a screen between them: in the rules of the second, in the routers after it, and in the
    conditions of the menu after it.
    """
    comparisons: dict[tuple[str, str], set[str]] = {}
    for first in inputs:
        for second in inputs:
            if second.name not in after[first.name] or second.var == first.var:
                continue
            comparisons.setdefault((first.var, second.name), set()).add(second.var)
            for name in after[second.name]:
                if isinstance(document.nodes[name], nodes.RouterNode | nodes.MenuNode):
                    comparisons.setdefault((first.var, name), set()).add(second.var)
                    comparisons.setdefault((second.var, name), set()).add(first.var)
    return comparisons


def _only_compares(part: LocalizedText | Template | Expression, secret: Name, others: set[str]) -> bool:
    """Whether a part of a node does no more with a secret entry than to compare it with one of others."""
    if secret not in part.names or isinstance(part, LocalizedText):
        return True
    if isinstance(part, Template):
        return False
    operands = compared_with(part.source, secret)
    return operands is not None and operands <= {Name("vars", other) for other in others}


def _about_payment(node: nodes.PayNode) -> Iterator[tuple[tuple[str, ...], Template]]:
    """Yield the texts that a payment keeps, with their paths."""
    if node.description is not None:
        yield ("description",), node.description
    yield from ((("metadata", name), template) for name, template in node.metadata)


def _read_names(node: nodes.Node) -> frozenset[Name]:
    """Return the variables that a node reads, besides those that its texts print."""
    return frozenset().union(*(part.names for _, part in parts(node) if not isinstance(part, LocalizedText)))


def _reached(document: Document, asker: nodes.InputNode) -> set[str]:
    """Return the nodes that a session reaches from an entry up to the next screen or action, and including it."""
    reached: set[str] = set()
    waiting = [asker.goto]
    while waiting:
        name = waiting.pop()
        node = document.nodes.get(name)
        if name in reached or node is None:
            continue
        reached.add(name)
        if isinstance(node, nodes.RouterNode | nodes.SetNode):
            waiting += [each.target for each in exits(node)]
    return reached


def _may_read(node: nodes.Node) -> bool:
    """Whether a node may read the entry right before it."""
    return isinstance(node, nodes.ActionNode | nodes.RouterNode | nodes.SetNode)
