"""The operations of the OpenAPI document, as docs/API.md shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DocumentedOperation:
    """One method of one path; `summary` is its first sentence, `permission` the scope that it needs."""

    name: str
    tag: str
    method: str
    path: str
    summary: str
    permission: str | None


def operations(document: dict[str, Any]) -> list[DocumentedOperation]:
    """Return every operation, in the order of the document."""
    return [
        DocumentedOperation(
            name=item["operationId"],
            tag=item["tags"][0],
            method=method.upper(),
            path=path,
            summary=item["description"].partition("\n")[0],
            permission=item.get("x-permission"),
        )
        for path, methods in document["paths"].items()
        for method, item in methods.items()
    ]
