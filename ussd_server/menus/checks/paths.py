"""Checks along the paths of a menu: payments without a confirmation, loops, unreachable nodes, long paths."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from ussd_server.menus.document import nodes
from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.findings import Finding, error, warning
from ussd_server.menus.engine.navigator import MAX_HOPS
from ussd_server.menus.engine.views import Renderer, WidestValues
from ussd_server.menus.tools.node_parts import exits, rank_nodes

MAX_SCREENS = 10
READING_CHARACTERS_A_SECOND = 15
SECONDS_A_SCREEN = 5  # the network, and a press of a key
SECONDS_AN_ACTION = 2

_PASSING = nodes.RouterNode | nodes.SetNode | nodes.BalanceNode | nodes.LookupNameNode | nodes.SmsNode | nodes.HttpNode


def find_unguarded_payments(document: Document) -> Iterator[Finding]:
    """Find payments that a session could reach without a confirmation directly before them.

    Between the confirmation and the payment only nodes without a screen and secret entries are allowed: otherwise a
    subscriber could confirm one payment and make another.
    """
    arrivals = _arrivals(document)
    for name, node in document.nodes.items():
        if isinstance(node, nodes.PayNode):
            origin = _unguarded(document, arrivals, name)
            if origin is not None:
                yield error(
                    "payment",
                    f"this payment can be reached from `{origin}` without a `confirm`; put one before it",
                    name,
                )


def find_vain_waits(document: Document) -> Iterator[Finding]:
    """Find nodes that wait for a payment where a session may have made none."""
    reached, waiting = set[str](), [document.start]
    while waiting:
        name = waiting.pop()
        node = document.nodes.get(name)
        if node is None or name in reached:
            continue
        reached.add(name)
        waiting += [each.target for each in exits(node) if each.path != ("accepted",)]
        if isinstance(node, nodes.WaitNode):
            yield error("payment", "a session may be here without a payment; lead here from `accepted` only", name)


def find_loops(document: Document) -> Iterator[Finding]:
    """Find loops and too long sequences of nodes that show no screen."""
    graph = {
        name: {target for target in _silent_targets(node) if target in document.nodes}
        for name, node in document.nodes.items()
    }
    while True:
        try:
            order = list(TopologicalSorter(graph).static_order())
            break
        except CycleError as loop:
            cycle = loop.args[1]
            yield error("loop", f"a loop without a screen: {' -> '.join(reversed(cycle))}", cycle[-1])
            graph = {name: nexts - set(cycle) for name, nexts in graph.items() if name not in cycle}
    lengths: dict[str, int] = {}
    for name in order:
        silent = not nodes.has_screen(document.nodes[name]) or bool(graph.get(name))
        lengths[name] = int(silent) + max((lengths[each] for each in graph.get(name, ())), default=0)
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    if longest is not None and lengths[longest] >= MAX_HOPS:
        yield error(
            "loop", f"{lengths[longest]} nodes in a row without a screen; at most {MAX_HOPS - 1} can be", longest
        )


def find_unreachable(document: Document) -> Iterator[Finding]:
    """Find nodes that no session can reach."""
    reached = rank_nodes(document)
    for name in document.nodes:
        if name not in reached:
            yield warning("unreachable", "no path leads to this node", name)


def find_long_paths(document: Document, life_seconds: int, work: WorkBudget) -> Iterator[Finding]:
    """Find last screens after more than ten screens, or later than the session expires."""
    is_screen = {name: float(nodes.has_screen(node)) for name, node in document.nodes.items()}
    screens = _distances(document, is_screen)
    seconds = _distances(document, {name: _seconds(document, node, work) for name, node in document.nodes.items()})
    for name, node in document.nodes.items():
        if not isinstance(node, nodes.EndNode) or name not in screens:
            continue
        if screens[name] > MAX_SCREENS:
            yield warning(
                "screens", f"{screens[name]:.0f} screens to this end; people give up after {MAX_SCREENS}", name
            )
        if seconds[name] > life_seconds:
            yield warning(
                "duration",
                f"about {seconds[name]:.0f} s to this end; a session expires after {life_seconds} s",
                name,
            )


def _arrivals(document: Document) -> dict[str, list[tuple[str, str]]]:
    """Return the edges into every node: (exit, node where it begins)."""
    arrivals: dict[str, list[tuple[str, str]]] = {name: [] for name in document.nodes}
    for name, node in document.nodes.items():
        for each in exits(node):
            arrivals.setdefault(each.target, []).append((each.label, name))
    return arrivals


def _unguarded(document: Document, arrivals: Mapping[str, list[tuple[str, str]]], payment: str) -> str | None:
    """Walk back from a payment to its confirmations; return the first node that is not one, or None."""
    seen, waiting = {payment}, [payment]
    while waiting:
        name = waiting.pop()
        if name == document.start:
            return "start"
        for label, origin in arrivals[name]:
            node = document.nodes[origin]
            if isinstance(node, nodes.ConfirmNode) and label == "yes":
                continue
            secret_entry = isinstance(node, nodes.InputNode) and node.secret and label != "invalid"
            secret_entry |= isinstance(node, nodes.PinNode) and not label
            if not (secret_entry or isinstance(node, _PASSING)):
                return origin
            if origin not in seen:
                seen.add(origin)
                waiting.append(origin)
    return None


def _silent_targets(node: nodes.Node) -> list[str]:
    """Return the next nodes that a session reaches from a node without a screen in between."""
    if isinstance(node, nodes.ListNode):
        return [node.empty] if node.empty is not None else []
    if isinstance(node, nodes.PinNode):
        return [target for target in (node.locked, node.missing) if target is not None]
    if nodes.has_screen(node) or isinstance(node, nodes.HandoverNode):
        return []
    return [each.target for each in exits(node)]


def _distances(document: Document, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the smallest weight of a path from the start to every reachable node."""
    distances: dict[str, float] = {}
    waiting = [(weights[document.start], document.start)]
    while waiting:
        distance, name = heapq.heappop(waiting)
        if name in distances:
            continue
        distances[name] = distance
        for target in {each.target for each in exits(document.nodes[name])}:
            if target in weights and target not in distances:
                heapq.heappush(waiting, (distance + weights[target], target))
    return distances


def _seconds(document: Document, node: nodes.Node, work: WorkBudget) -> float:
    """Estimate the seconds that a subscriber spends at a node: reading, typing, and the network."""
    waiting = node.seconds if isinstance(node, nodes.WaitNode) else 0
    if not nodes.has_screen(node):
        return waiting or (SECONDS_AN_ACTION if isinstance(node, nodes.ActionNode) else 0)
    renderer = Renderer(document, document.default_language)
    view = renderer.view(node, WidestValues(document))
    work.spend(len(view.body) // 5)
    is_paged = isinstance(node, nodes.TextNode)
    pages = view.pages(renderer.footer(back=True), document.budgets.common) if is_paged else [view.body]
    variable = document.variables.get(node.var) if isinstance(node, nodes.InputNode) else None
    typing = len(variable.widest) if variable is not None else 0
    return waiting + len(pages) * SECONDS_A_SCREEN + sum(map(len, pages)) / READING_CHARACTERS_A_SECOND + typing
