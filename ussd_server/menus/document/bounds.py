"""The maximum size of a menu, and the maximum work of its check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ussd_server.menus.document.findings import Finding, error

MAX_NETWORKS = 8
MAX_LANGUAGES = 12
MAX_NODES = 500
MAX_VARIABLES = 100
MAX_ASSIGNMENTS = 20
MAX_SCRIPTS = 50
# A unit is about a microsecond: one line measured, or one expression evaluated by a script.
MAX_WORK = 400_000


class WorkExceededError(Exception):
    """The check of a document takes more than `MAX_WORK` units."""


class WorkBudget:
    """Counts the work of one check."""

    def __init__(self) -> None:
        self.spent = 0

    def spend(self, units: int) -> None:
        """Count `units` before the work is done. Raises `WorkExceededError` above `MAX_WORK`."""
        self.spent += units
        if self.spent > MAX_WORK:
            raise WorkExceededError


def find_excess(raw: Any) -> Iterator[Finding]:
    """Yield an error for everything that exceeds a maximum. Accepts any document; takes one pass over the nodes."""
    document = _object(raw)
    nodes = _object(document.get("nodes"))
    variables = _object(document.get("vars"))
    fields = sum(len(_object(_object(each).get("fields"))) for each in variables.values())
    counts = (
        ("`nodes` has {} nodes", len(nodes), MAX_NODES),
        ("`languages` has {} languages", len(_list(document.get("languages"))), MAX_LANGUAGES),
        (
            "`limits.networks` has {} networks",
            len(_object(_object(document.get("limits")).get("networks"))),
            MAX_NETWORKS,
        ),
        ("`vars` has {} variables, with the fields of its lists", len(variables) + fields, MAX_VARIABLES),
    )
    for message, count, maximum in counts:
        if count > maximum:
            path = tuple(message.split("`")[1].split("."))
            yield error("bounds", f"{message.format(count)}; at most {maximum} are allowed", path=path)
    for name, node in nodes.items():
        for place, assignments in _assignments(_object(node)):
            if len(assignments) > MAX_ASSIGNMENTS:
                message = f"`{place}` changes {len(assignments)} variables; at most {MAX_ASSIGNMENTS} are allowed"
                yield error("bounds", message, str(name), tuple(place.split(".")))


def _assignments(node: Mapping[Any, Any]) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the sets of assignments of a node with their places; a menu makes those of the chosen option only."""
    yield "values", _object(node.get("values"))
    yield "map", _object(node.get("map"))
    for number, option in enumerate(_list(node.get("options")), start=1):
        yield f"options.{number}.set", _object(_object(option).get("set"))


def _object(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else ()
