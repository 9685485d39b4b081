"""The phone's call: what the form of the phone page carries from one step to the next."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from ussd_server.gateways.messages import HandsetCall
from ussd_server.services.menus.messages import ActKind, WalkAct, WalkMenu

MOST_ACTS = 99
_LONGEST_TEXT = 200
Line = Literal["idle", "open", "over", "hung_up", "dropped"]
_LINES: tuple[Line, ...] = ("idle", "open", "over", "hung_up", "dropped")


@dataclass(frozen=True, slots=True)
class Call:
    """A phone on the page. `target` is `code:*165#` (the gateway path) or `draft:MENU`.

    `line` is the state of the call: `over` after a last screen, `dropped` when the connection broke without a report to
    the server. `acts` are all acts since the first dial, redials included. `typed` is the part of a secret entry that
    was typed with the keys. A call holds secrets: it goes into a page encrypted only.
    """

    target: str = ""
    phone_number: str = "+256770000000"
    network: str = "64110"
    language: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    dialled: str = field(default="", repr=False)
    acts: tuple[WalkAct, ...] = field(default=(), repr=False)
    line: Line = "idle"
    typed: str = field(default="", repr=False)

    @property
    def code(self) -> str:
        """The service code to dial; empty for a draft."""
        return self.target.removeprefix("code:") if self.target.startswith("code:") else ""

    @property
    def draft(self) -> str:
        """The id of the menu whose draft is walked; empty for a code."""
        return self.target.removeprefix("draft:") if self.target.startswith("draft:") else ""

    @property
    def is_full(self) -> bool:
        """Whether the call takes no further act."""
        return len(self.acts) >= MOST_ACTS

    def doing(self, kind: ActKind, text: str = "") -> Call:
        return replace(self, acts=(*self.acts, WalkAct(kind, text)), line="open")

    def as_step(self) -> HandsetCall:
        """The present session for the gateway path: what was typed since the last dial, under an id of its own."""
        redials = [number for number, act in enumerate(self.acts) if act.kind is ActKind.REDIAL]
        since = self.acts[redials[-1] + 1 :] if redials else self.acts
        return HandsetCall(
            session_id=f"{self.id}-{len(redials)}",
            phone_number=self.phone_number,
            service_code=self.code,
            network=self.network,
            language=None if redials else self.language or None,
            dialled="" if redials else self.dialled,
            entries=tuple(act.text for act in since if act.kind is ActKind.SEND),
        )

    def as_walk(self, menu_id: str, version: int | None, service_code: str) -> WalkMenu:
        return WalkMenu(
            menu_id,
            version,
            self.acts,
            phone_number=self.phone_number,
            service_code=service_code,
            network=self.network,
            language=self.language or None,
            entries=self.dialled,
        )

    def written(self) -> str:
        acts = [[act.kind.value, act.text] for act in self.acts]
        return orjson.dumps([self.id, self.dialled, acts, self.line, self.typed]).decode()

    def read(self, text: str) -> Call:
        """The call with what `written` made; unchanged by any other text."""
        try:
            call_id, dialled, raw_acts, line, typed = orjson.loads(text)
            acts = tuple(_acts(raw_acts))
        except (ValueError, TypeError):
            return self
        is_text = all(isinstance(each, str) and len(each) <= _LONGEST_TEXT for each in (call_id, dialled, typed))
        if not is_text or line not in _LINES or len(acts) > MOST_ACTS:
            return self
        return replace(self, id=call_id, dialled=dialled, acts=acts, line=line, typed=typed)


def _acts(raw: Any) -> Iterator[WalkAct]:
    for kind, text in raw:
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
            raise ValueError
        yield WalkAct(ActKind(kind), text)
