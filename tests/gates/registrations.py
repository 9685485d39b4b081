"""What the code registers with the gates, found by walking it: so that a new way fails until the matrix has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path

import ussd_server

SOURCE = Path(ussd_server.__file__).parent


@cache
def _nodes() -> list[tuple[Path, ast.Call | ast.Attribute]]:
    return [
        (path.relative_to(SOURCE), node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.Attribute)
    ]


def calls_of(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    """Every call of these functions in the service, by name or by that of their module, with its file."""
    for path, node in _nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in names:
            yield path, node


def names_used_of(ways: type[Enum]) -> set[str]:
    """The ways that the code names when money arrives, `WayIn`, or leaves, `WayOut`."""
    return {node.attr for _, node in _attributes() if getattr(node.value, "id", None) == ways.__name__}


def users_of(attribute: str, of: str | None = None) -> set[str]:
    """The modules of services that use an attribute with this name, of a variable named `of` where that is given."""
    return {
        path.as_posix()
        for path, node in _attributes()
        if path.parts[0] == "services" and node.attr == attribute and of in (None, getattr(node.value, "id", None))
    }


def _attributes() -> Iterator[tuple[Path, ast.Attribute]]:
    return ((path, node) for path, node in _nodes() if isinstance(node, ast.Attribute))
