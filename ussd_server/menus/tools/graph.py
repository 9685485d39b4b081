"""A menu as a graph of nodes and edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import NODES, MenuNode, Node, PayNode
from ussd_server.menus.document.templates import LocalizedText
from ussd_server.menus.tools.node_parts import exits
from ussd_server.wire import Key


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node in a graph."""

    id: Annotated[str, "The node's name in the document."]
    type: Annotated[str, "The type."]
    text: Annotated[str, "What the phone shows there."]
    rank: Annotated[int | None, "How many steps from the start; null for a node that cannot be reached."]


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge from one node to another."""

    source: Annotated[str, Key("from"), "The node where the edge begins."]
    target: Annotated[str, Key("to"), "The node where the edge ends."]
    label: Annotated[str, "What the phone shows for this edge."]


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes and edges of a document, in its order."""

    start: Annotated[str, "The node where a session begins."]
    nodes: Annotated[tuple[GraphNode, ...], "The nodes."]
    edges: Annotated[tuple[GraphEdge, ...], "The edges."]


def graph(document: Document) -> Graph:
    """Return a document as a graph. The rank of a node is that of the shortest path."""
    ranks = rank_nodes(document)
    return Graph(
        document.start,
        tuple(
            GraphNode(name, kind_of(node), _caption(document, node), ranks.get(name))
            for name, node in document.nodes.items()
        ),
        tuple(
            GraphEdge(name, each.target, _label(document, node, each.label))
            for name, node in document.nodes.items()
            for each in exits(node)
            if each.target in document.nodes
        ),
    )


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


def kind_of(node: Node) -> str:
    """Return the type of a node, as in a document."""
    return next(name for name, kind in NODES.items() if kind is type(node))


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
