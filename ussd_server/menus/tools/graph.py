"""A menu as a graph of nodes and edges."""

from __future__ import annotations

from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import LocalizedText, MenuNode, Node, PayNode, targets


def graph(document: Document) -> dict[str, Any]:
    """Return the nodes and edges of a document as plain JSON values, in the order of the document.

    `rank` is the number of steps from the start on the shortest path; null for a node that cannot be reached.
    """
    ranks = rank_nodes(document)
    return {
        "start": document.start,
        "nodes": [
            {"id": name, "type": kind_of(node), "text": _caption(document, node), "rank": ranks.get(name)}
            for name, node in document.nodes.items()
        ],
        "edges": [
            {"from": name, "to": target, "label": _label(document, node, label)}
            for name, node in document.nodes.items()
            for label, target in targets(node)
            if target in document.nodes
        ],
    }


def rank_nodes(document: Document) -> dict[str, int]:
    """Return the number of steps from the start for every reachable node."""
    ranks: dict[str, int] = {}
    layer = [document.start] if document.start in document.nodes else []
    rank = -1
    while layer:
        rank += 1
        ranks.update(dict.fromkeys(layer, rank))
        following = (target for name in layer for _, target in targets(document.nodes[name]))
        layer = [name for name in dict.fromkeys(following) if name in document.nodes and name not in ranks]
    return ranks


def kind_of(node: Node) -> str:
    """Return the type of a node, as in a document."""
    name = type(node).__name__.removesuffix("Node")
    return "lookup_name" if name == "LookupName" else name.lower()


def _caption(document: Document, node: Node) -> str:
    if isinstance(node, PayNode):
        return f"{node.kind} of {node.amount.source}"
    text = getattr(node, "text", None)
    return text.in_language(document.default_language).source if isinstance(text, LocalizedText) else ""


def _label(document: Document, node: Node, label: str) -> str:
    if isinstance(node, MenuNode):
        for option in node.options:
            if option.key == label:
                return f"{label}. {option.label.in_language(document.default_language).source}"
    return label
