"""A phone for the tests of menus: sessions read like transcripts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ussd_server.menus.document.document import parse
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions, SessionFacts
from ussd_server.menus.tools.simulator import Simulator, World

FACTS = SessionFacts("+256772123456", "*384*123#", "64110", "call")
SHOP: dict[str, Any] = {
    "id": "shop",
    "title": "ACME",
    "start": "root",
    "default_language": "en",
    "languages": ["en", "lg", "sw"],
    "fallback": True,
    "limits": {"septets": 160, "ucs2": 70, "networks": {"64110": {"septets": 160}}},
    "nav": {
        "back": "0",
        "home": "00",
        "more": "98",
        "prev": "99",
        "labels": {"back": {"en": "Back", "lg": "Ddayo"}, "more": {"en": "More"}},
    },
    "resume": "confirm",
    "vars": {
        "amount": {"type": "amount", "max_len": 7},
        "to": {"type": "phone"},
        "name": {"type": "text", "max_len": 20, "overflow": "truncate"},
    },
    "nodes": {
        "root": {
            "type": "menu",
            "text": {"en": "Welcome to ACME", "lg": "Tukusanyukidde"},
            "options": [
                {"key": "1", "label": {"en": "Pay"}, "goto": "amount"},
                {"key": "2", "label": {"en": "Balance"}, "goto": "bal"},
                {"key": "3", "label": {"en": "Language"}, "goto": "lang"},
            ],
            "invalid": {"text": {"en": "Invalid choice"}, "max": 3, "goto": "bye"},
        },
        "amount": {
            "type": "input",
            "text": {"en": "Enter amount (UGX)"},
            "var": "amount",
            "validate": [
                {"rule": "amount", "min": 500, "max": 999999},
                {"rule": "expr", "expr": "vars.amount % 100 == 0", "error": {"en": "Use multiples of 100"}},
            ],
            "goto": "ok",
        },
        "ok": {"type": "confirm", "text": {"en": "Pay UGX {{vars.amount|ugx}} to ACME?"}, "yes": "pay", "no": "root"},
        "pay": {
            "type": "pay",
            "kind": "collection",
            "amount": "vars.amount",
            "phone_number": "session.phone_number",
            "accepted": {"end": {"en": "Approve the prompt on your phone with your PIN."}},
            "rejected": {"goto": "bye"},
        },
        "bal": {"type": "balance", "of": "session.phone_number", "var": "balance", "goto": "show"},
        "show": {"type": "end", "text": {"en": "Your balance is UGX {{vars.balance|ugx}}"}},
        "lang": {"type": "language", "goto": "root"},
        "bye": {"type": "end", "text": {"en": "Goodbye"}},
    },
}


class Phone:
    """A phone in a session; `shows` and `types` read like a transcript."""

    def __init__(
        self, raw: dict[str, Any], world: World, entries: Sequence[str], channel: DisplayOptions, language: str
    ) -> None:
        self.simulator = Simulator(parse(raw), FACTS, world, language, channel)
        self.simulator.dial(entries)

    def shows(self, *lines: str, ends: bool = False) -> Phone:
        """Assert the whole screen, line by line."""
        assert self.simulator.screen.text.split("\n") == list(lines)
        assert self.simulator.screen.ends == ends
        return self

    def ends(self, *lines: str) -> Phone:
        """Assert the last screen."""
        return self.shows(*lines, ends=True)

    def types(self, *entries: str) -> Phone:
        """Send entries one after another."""
        for entry in entries:
            self.simulator.send(entry)
        return self


@pytest.fixture
def shop() -> dict[str, Any]:
    """The menu of the specification, to be changed freely."""
    return copy.deepcopy(SHOP)


@pytest.fixture
def dial() -> Callable[..., Phone]:
    """Dial a menu given as a plain dict."""

    def dialled(
        raw: dict[str, Any], *entries: str, channel: DisplayOptions = STANDARD, language: str = "en", **world: Any
    ) -> Phone:
        return Phone(raw, World(**world), entries, channel, language)

    return dialled


@pytest.fixture
def menu() -> Callable[..., dict[str, Any]]:
    """Make a small menu from its nodes and variables; it starts at `root`."""

    def made(nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
        nodes.setdefault("bye", {"type": "end", "text": {"en": "Goodbye"}})
        return {"id": "m", "start": "root", "nodes": nodes, **fields}

    return made
