"""Messages of replays: past conversations, replayed through a draft."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ReplayResult(StrEnum):
    """How a past conversation goes in a draft."""

    SAME = "same"
    OTHER_SCREEN = "other_screen"
    DEAD_END = "dead_end"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class ReplayMenu:
    """Replay conversations through a draft: those of `session_ids`, or the newest 500 that began in a period.

    `from_at` is included, `to_at` is not.
    """

    menu_id: str
    session_ids: tuple[str, ...] | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReplayItem:
    """One conversation. `turn` (0 is the first) and both screens are those of the difference; None for SAME."""

    session_id: str
    result: ReplayResult
    turn: int | None = None
    was: str | None = None
    is_now: str | None = None
