"""Messages of walks and replays: an author tries a draft by hand, or with past conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from ussd_server.wire import Key


class ActKind(StrEnum):
    """What the phone of a walk does."""

    SEND = "send"
    RETRY = "retry"
    REDIAL = "redial"


@dataclass(frozen=True, slots=True)
class WalkAct:
    """One act: SEND sends `text`, RETRY sends the last entry again, REDIAL drops the call and dials again."""

    kind: ActKind
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class WalkMenu:
    """Dial a menu and do `acts`, without money or network. The same request always gives the same screens.

    `version` None means the draft. `entries` were dialled with the code, joined by `*`.
    """

    menu_id: str
    version: int | None = None
    acts: tuple[WalkAct, ...] = ()
    phone_number: str = "+256772123456"
    service_code: str = "*384*123#"
    network: str = "64110"
    language: str | None = None
    entries: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class KeyView:
    """What a key does at a screen. `key` is empty for a free entry; `goto` is the next node, None where it depends."""

    key: str
    label: str
    goto: str | None


@dataclass(frozen=True, slots=True)
class WalkScreen:
    """A screen of a walk. `used` and `limit` count `unit`, "septets" or "characters"; `entry` led to this screen.

    `is_secret`: the next entry may be a secret, such as a PIN.
    """

    entry: str = field(repr=False)
    text: str
    ends: bool
    node: str
    node_type: str
    language: str
    network: str
    used: int
    limit: int
    unit: str
    variables: Mapping[str, Any]
    keys: tuple[KeyView, ...]
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class WalkView:
    """All screens of a walk, oldest first; `payments` would have been created. `is_over` when the session has ended."""

    menu_id: str
    version: int | None
    is_over: bool
    screens: tuple[WalkScreen, ...]
    payments: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class MakeScript:
    """Make a script from a walk; `save` adds it to the draft."""

    walk: WalkMenu
    name: str
    save: bool = False


@dataclass(frozen=True, slots=True)
class ScriptView:
    """A script as it is written in a menu document, and as YAML.

    `left_out` is the number of secret entries that its author has to write.
    """

    script: Mapping[str, Any]
    text: str
    left_out: int


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
    """One conversation in the draft. `turn` and both screens are those of the first difference; None for SAME."""

    session_id: Annotated[str, "The USSD session."]
    result: Annotated[ReplayResult, "`same`, `other_screen`, `dead_end` or `not_found`."]
    turn: Annotated[int | None, "The turn of the difference; 0 is the first screen."] = None
    was: Annotated[str | None, "The screen that was shown then."] = None
    is_now: Annotated[str | None, Key("is"), "The screen that the draft shows."] = None
