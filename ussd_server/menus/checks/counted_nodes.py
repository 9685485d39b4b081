"""The nodes of a document during its check: each access counts as work, so that the check pauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.nodes import LocalizedText, Node, parts


class CountedNodes(Mapping[str, Node]):
    """Nodes by name. Reading one raises `WorkExceededError` when the work budget is used up."""

    def __init__(self, nodes: Mapping[str, Node], work: WorkBudget) -> None:
        self._nodes = nodes
        self._work = work
        self._units: dict[str, int] = {}

    def __getitem__(self, name: str) -> Node:
        node = self._nodes[name]
        if name not in self._units:
            self._units[name] = _units(node)
        self._work.spend(self._units[name])
        return node

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def _units(node: Node) -> int:
    """Estimate the work that a node takes, from the number and length of its texts and expressions."""
    units = 5
    for part in parts(node):
        templates = part.by_language.values() if isinstance(part, LocalizedText) else ()
        longest = max((len(template.widest) for template in templates), default=0)
        units += 1 + (longest if isinstance(part, LocalizedText) else len(part.source)) // 20
    return units
