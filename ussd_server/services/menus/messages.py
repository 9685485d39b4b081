"""Messages of menus: drafts, reports, versions, service codes, drop-offs, and of walks and replays, by which an author
tries a draft by hand or with past conversations. `menu_id` is the id in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from ussd_server.menus.document.findings import Finding
from ussd_server.menus.tools.diagram import GraphEdge, GraphNode
from ussd_server.menus.tools.walk import WalkScreen
from ussd_server.wire import Internal, Key


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a document as its author wrote it: YAML 1.2 or JSON."""

    text: str = field(repr=False)
    is_yaml: bool = False


@dataclass(frozen=True, slots=True)
class SaveDraft:
    """Save a document as the draft of a menu, even if it has errors.

    The findings name lines and columns of `source`. Without `document`, the document is read from `source`.
    """

    menu_id: str
    document: dict[str, Any] | None = None
    source: SourceText | None = None


@dataclass(frozen=True, slots=True)
class CheckMenu:
    """Check a menu's draft, or the given document instead, which is not saved. `source` as for `SaveDraft`."""

    menu_id: str
    document: dict[str, Any] | None = None
    source: SourceText | None = None


@dataclass(frozen=True, slots=True)
class GetGraph:
    """Read the graph of a menu; `version` None means the published version, or the draft without one."""

    menu_id: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class DrawMenu:
    """Draw a version of a menu, the draft for None.

    `marks` are classes of nodes for a style sheet (`lit`), `notes` are written below their names.
    """

    menu_id: str
    version: int | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NameVersion:
    """A request about a version of a menu; None means the draft."""

    menu_id: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CompareVersions:
    """Compare two documents of a menu as YAML; None stands for the draft."""

    menu_id: str
    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True)
class RollBack:
    """Publish an earlier version again. `reason` has 1 to 200 characters; None where the caller gives none."""

    menu_id: str
    version: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CheckReport:
    menu_id: Annotated[str, "The menu, by the `id` in its document."]
    passes: Annotated[bool, "Whether the menu can be published."]
    errors: Annotated[tuple[Finding, ...], "Errors; they block publishing."]
    warnings: Annotated[tuple[Finding, ...], "Warnings; they do not block publishing."]


@dataclass(frozen=True, slots=True)
class MenuSummary:
    menu_id: Annotated[str, "The menu, by the `id` in its document."]
    title: Annotated[str, "The menu's title."]
    published_version: Annotated[int | None, "The version in force; null before the first publication."]
    draft_saved_at: Annotated[datetime, "When the draft was last saved."]
    codes: Annotated[tuple[str, ...], "The service codes that this menu answers."]


@dataclass(frozen=True, slots=True)
class MenuView(MenuSummary):
    """A menu with its draft and its published document."""

    draft: Annotated[dict[str, Any], "The document as it was last saved."]
    published: Annotated[dict[str, Any] | None, "The published document; null before the first publication."]


@dataclass(frozen=True, slots=True)
class VersionView:
    menu_id: Annotated[str, "The menu, by the `id` in its document."]
    version: Annotated[int, "A published version, counted from 1."]
    published_at: Annotated[datetime, "When this version was published."]
    in_force: Annotated[bool, "Whether new sessions get this version."]


@dataclass(frozen=True, slots=True)
class GraphView:
    """The nodes and edges of a menu, and its diagram as SVG."""

    menu_id: Annotated[str, "The menu, by the `id` in its document."]
    version: Annotated[int | None, "A published version, counted from 1."]
    nodes: Annotated[tuple[GraphNode, ...], "The nodes, in the order in which a phone reaches them."]
    edges: Annotated[tuple[GraphEdge, ...], "The edges between the nodes."]
    svg: Annotated[str, "The diagram, as SVG."]


@dataclass(frozen=True, slots=True)
class AssignCode:
    """Give a service code (`*384*123#`) to a client."""

    service_code: str
    client_id: str


@dataclass(frozen=True, slots=True)
class BindCode:
    service_code: str
    menu_id: str


@dataclass(frozen=True, slots=True)
class CodeView:
    """A service code, its client and its menu."""

    service_code: Annotated[str, "What the phone dials, such as `*165#`."]
    client_id: Internal[str]
    menu_id: Annotated[str | None, "The menu, by the `id` in its document."]
    created_at: Annotated[datetime, "When it was created."]


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
