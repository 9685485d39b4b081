"""Messages about drop-offs: where subscribers leave a menu."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GetDropOffs:
    """Read where subscribers dropped off in a menu in the last seven days."""

    menu_id: str


@dataclass(frozen=True, slots=True)
class DropOffItem:
    """How many of the sessions that were at a node ended there without a last screen. `share` is 0 to 1."""

    node: str
    visits: int
    drop_offs: int
    share: float


@dataclass(frozen=True, slots=True)
class DropOffView:
    """The drop-offs of the newest sessions of a menu, at most 1,000 (`sessions`)."""

    sessions: int
    items: tuple[DropOffItem, ...]
