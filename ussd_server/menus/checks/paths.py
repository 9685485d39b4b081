"""What can be said about a menu by following its ways: payments without a confirmation, loops, dead corners, length."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.findings import Finding, error, warning
from ussd_server.menus.document.nodes import (
    BalanceNode,
    ConfirmNode,
    EndNode,
    HandoverNode,
    HttpNode,
    InputNode,
    ListNode,
    LookupNameNode,
    Node,
    PayNode,
    RouterNode,
    ScreenNode,
    SetNode,
    TextNode,
    targets,
)
from ussd_server.menus.engine.navigator import MAX_HOPS
from ussd_server.menus.engine.views import Painter, WidestValues

MAX_SCREENS = 10
READING_CHARACTERS_A_SECOND = 15
SECONDS_A_SCREEN = 5  # the phone company's own time, and a press of a key
SECONDS_AN_ACTION = 2

_PASSING = RouterNode | SetNode | BalanceNode | LookupNameNode | HttpNode


def find_unguarded_payments(document: Document) -> Iterator[Finding]:
    """Find payments that a session could reach without a yes right before them.

    Between the yes and the payment there may be nodes without a screen and secret entries, nothing else: otherwise a
    person could confirm one thing and pay another.
    """
    arrivals = _arrivals(document)
    for name, node in document.nodes.items():
        if isinstance(node, PayNode):
            culprit = _unguarded(document, arrivals, name)
            if culprit is not None:
                yield error(
                    "payment",
                    f"this payment can be reached from `{culprit}` without a `confirm`; put one before it",
                    name,
                )


def find_loops(document: Document) -> Iterator[Finding]:
    """Find circles and overlong rows of nodes that show no screen."""
    graph = {
        name: {target for target in _silent_targets(node) if target in document.nodes}
        for name, node in document.nodes.items()
    }
    while True:
        try:
            order = list(TopologicalSorter(graph).static_order())
            break
        except CycleError as found:
            circle = found.args[1]
            yield error("loop", f"a loop without a screen: {' -> '.join(reversed(circle))}", circle[-1])
            graph = {name: nexts - set(circle) for name, nexts in graph.items() if name not in circle}
    lengths: dict[str, int] = {}
    for name in order:
        silent = not isinstance(document.nodes[name], ScreenNode) or bool(graph.get(name))
        lengths[name] = int(silent) + max((lengths[each] for each in graph.get(name, ())), default=0)
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    if longest is not None and lengths[longest] >= MAX_HOPS:
        yield error(
            "loop", f"{lengths[longest]} nodes in a row without a screen; at most {MAX_HOPS - 1} can be", longest
        )


def find_unreachable(document: Document) -> Iterator[Finding]:
    """Find nodes that no session can come to."""
    seen = {document.start}
    waiting = [document.start]
    while waiting:
        node = document.nodes[waiting.pop()]
        fresh = {target for _, target in targets(node) if target in document.nodes} - seen
        seen |= fresh
        waiting += fresh
    for name in document.nodes:
        if name not in seen:
            yield warning("unreachable", "no way leads to this node", name)


def find_long_ways(document: Document, life_seconds: int, work: WorkBudget) -> Iterator[Finding]:
    """Find last screens that are more than ten screens away, or further than a session lives."""
    screens = _distances(document, {name: float(isinstance(node, ScreenNode)) for name, node in document.nodes.items()})
    seconds = _distances(document, {name: _seconds(document, node, work) for name, node in document.nodes.items()})
    for name, node in document.nodes.items():
        if not isinstance(node, EndNode) or name not in screens:
            continue
        if screens[name] > MAX_SCREENS:
            yield warning(
                "screens", f"{screens[name]:.0f} screens to this end; people give up after {MAX_SCREENS}", name
            )
        if seconds[name] > life_seconds:
            yield warning(
                "duration", f"about {seconds[name]:.0f} s to this end, and a session lives {life_seconds} s", name
            )


def _arrivals(document: Document) -> dict[str, list[tuple[str, str]]]:
    """Return for every node what leads to it: (way, node it comes from)."""
    arrivals: dict[str, list[tuple[str, str]]] = {name: [] for name in document.nodes}
    for name, node in document.nodes.items():
        for way, target in targets(node):
            arrivals.setdefault(target, []).append((way, name))
    return arrivals


def _unguarded(document: Document, arrivals: Mapping[str, list[tuple[str, str]]], payment: str) -> str | None:
    """Walk back from a payment to its confirmations; give the first node that is none, or None when all are."""
    seen, waiting = {payment}, [payment]
    while waiting:
        name = waiting.pop()
        if name == document.start:
            return "start"
        for way, origin in arrivals[name]:
            node = document.nodes[origin]
            if isinstance(node, ConfirmNode) and way == "yes":
                continue
            secret_entry = isinstance(node, InputNode) and node.secret and way != "invalid"
            if not (secret_entry or isinstance(node, _PASSING)):
                return origin
            if origin not in seen:
                seen.add(origin)
                waiting.append(origin)
    return None


def _silent_targets(node: Node) -> list[str]:
    """Return where a node may lead within one step without showing a screen."""
    if isinstance(node, ListNode):
        return [node.empty] if node.empty is not None else []
    if isinstance(node, ScreenNode | HandoverNode):
        return []
    return [target for _, target in targets(node)]


def _distances(document: Document, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the least weight from the start to every node that can be reached."""
    distances: dict[str, float] = {}
    waiting = [(weights[document.start], document.start)]
    while waiting:
        distance, name = heapq.heappop(waiting)
        if name in distances:
            continue
        distances[name] = distance
        for _, target in targets(document.nodes[name]):
            if target in weights and target not in distances:
                heapq.heappush(waiting, (distance + weights[target], target))
    return distances


def _seconds(document: Document, node: Node, work: WorkBudget) -> float:
    """Estimate how long a person spends at a node: reading, typing, and the network."""
    if not isinstance(node, ScreenNode):
        return (
            SECONDS_AN_ACTION
            if isinstance(node, BalanceNode | LookupNameNode | HttpNode | PayNode | HandoverNode)
            else 0
        )
    painter = Painter(document, document.default_language)
    view = painter.view(node, WidestValues(document))
    work.spend(len(view.body) // 5)
    pages = view.pages(painter.footer(back=True), document.budget) if isinstance(node, TextNode) else [view.body]
    asked = document.variables.get(node.var) if isinstance(node, InputNode) else None
    typing = len(asked.widest) if asked is not None else 0
    return len(pages) * SECONDS_A_SCREEN + sum(map(len, pages)) / READING_CHARACTERS_A_SECOND + typing
