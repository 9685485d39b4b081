"""Menus as the inside speaks of them: drafts, reports, versions and graphs. `menu_id` is the id in the document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class SaveDraft:
    """A wish to keep `document` as the draft of a menu, whatever is wrong with it."""

    menu_id: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CheckMenu:
    """A wish to know what is wrong with a menu's draft, or with `document` instead, which is not kept."""

    menu_id: str
    document: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NameMenu:
    """A menu, named for one of the things that need nothing else."""

    menu_id: str


@dataclass(frozen=True, slots=True)
class GetGraph:
    """A wish to see how the nodes of a menu hang together; `version` None: of the one in force, else of the draft."""

    menu_id: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class RollBack:
    """A wish to put an earlier version in force again."""

    menu_id: str
    version: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found; `errors` block publishing. Each finding says rule, message, node and what it measured."""

    menu_id: str
    passes: bool
    errors: tuple[dict[str, Any], ...]
    warnings: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class MenuSummary:
    """A menu in a list."""

    menu_id: str
    title: str
    published_version: int | None
    draft_saved_at: datetime
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MenuView:
    """A menu with its draft and the document in force, None before it was first published."""

    menu_id: str
    title: str
    published_version: int | None
    draft_saved_at: datetime
    codes: tuple[str, ...]
    draft: dict[str, Any]
    published: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class VersionView:
    """A published version; `in_force` marks the one that new sessions get."""

    menu_id: str
    version: int
    published_at: datetime
    in_force: bool


@dataclass(frozen=True, slots=True)
class GraphView:
    """The nodes of a menu and the ways between them, and the same as a picture."""

    menu_id: str
    version: int | None
    nodes: tuple[dict[str, Any], ...]
    edges: tuple[dict[str, Any], ...]
    svg: str
