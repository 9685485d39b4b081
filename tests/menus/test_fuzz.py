"""A thousand random menus: one that passes the check never shows a screen too long, never raises, never loops."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import Document, parse
from ussd_server.menus.engine.actions import (
    ActionOutcome,
    Answered,
    BalanceAction,
    BalanceFound,
    Failed,
    HandedOver,
    HandoverAction,
    HttpAction,
    LookupNameAction,
    MenuAction,
    NameFound,
    Paid,
    PayAction,
)
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import DisplayOptions, SessionFacts, State, Turn
from ussd_server.menus.engine.resumption import reopen
from ussd_server.menus.text import Budget

pytestmark = pytest.mark.slow

DOCUMENTS = 1000
LANGUAGES = ("en", "lg", "sw")
NETWORKS = ("64110", "64101", "")
NAMES = tuple(f"n{number}" for number in range(9))
WORDS = (
    "pay",
    "Sasula",
    "ssente",
    "ŋŋamba",
    "€5",
    "[x]",
    "don’t",
    "a",
    "{{vars.t}}",
    "{{vars.a|ugx}}",
    "{{vars.p|local}}",
    "\n",
    "{{vars.t|default:nobody at all|upper}}",
    "{{session.phone_number|mask}}",
    "{{vars.d}}",
    "{{vars.t|trunc:3}}",
)
STRANGE = (
    "",
    "0",
    "00",
    "98",
    "99",
    "1",
    "2",
    "3",
    "7",
    "5000",
    "0772123456",
    "ŋŋŋ",
    "[[[[",
    "😀" * 30,
    "a" * 400,
    "\x00",
    "١",
    "31/12/2026",
    "-1",
    "*",
    "1*2",
    "ßßßßßßß",
    "B1",
    "x y z",
    "ŉŉ",
    "\ud800",
)
ITEM = {"x": {"type": "text", "max_len": 9}, "y": {"type": "amount"}}
VARS: dict[str, Any] = {
    "t": {"type": "text", "max_len": 12, "overflow": "truncate"},
    "a": {"type": "amount", "max_len": 6},
    "p": {"type": "phone"},
    "d": {"type": "date"},
    "l": {"type": "list", "max_items": 8, "given": True, "fields": ITEM},
    "s": {"type": "text", "max_len": 6},
}
CONDITIONS = (
    "vars.a > 500",
    "len(vars.t) > 2",
    "vars.missing",
    "vars.a / 0 == 1",
    "session.network == '64110'",
    "True",
)


class Author:
    """Writes menus that are mostly, but not always, sensible."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def document(self) -> dict[str, Any]:
        nodes = {name: self.node() for name in NAMES[: self.pick.randint(2, len(NAMES))]}
        nodes["n0"] = self.menu()
        self.names = tuple(nodes)
        for node in nodes.values():
            self.lead(node)
        if self.pick.random() < 0.9:
            self.guard(nodes)
        return {
            "id": "fuzz",
            "start": "n0",
            "default_language": "en",
            "languages": list(LANGUAGES),
            "fallback": True,
            "vars": VARS,
            "nodes": nodes,
            "resume": self.pick.choice(("off", "auto", "confirm")),
            "limits": {
                "septets": self.pick.choice((100, 160, 182)),
                "ucs2": self.pick.choice((60, 70, 80)),
                "networks": {"64101": {"septets": self.pick.choice((90, 140, 182))}},
            },
        }

    def lead(self, value: Any) -> None:
        """Point every exit of a node at some node."""
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if each == "GOTO":
                value[key] = self.pick.choice(self.names) if self.pick.random() < 0.995 else "nowhere"
            elif isinstance(each, dict | list):
                self.lead(each)

    def guard(self, nodes: dict[str, Any]) -> None:
        """Let payments be reached from confirmations only, by redirecting other exits."""
        payments = [name for name, node in nodes.items() if node["type"] == "pay"]
        others = [name for name in nodes if name not in payments]
        text = json.dumps({name: node for name, node in nodes.items() if node["type"] != "confirm"})
        for name in payments:
            text = text.replace(f': "{name}"', f': "{self.pick.choice(others)}"')
        nodes.update(json.loads(text))
        for name, node in nodes.items():
            if node["type"] == "confirm":
                nodes["n0"]["options"][0]["goto"] = name
                node["no"] = self.pick.choice(others)
                node["yes"] = self.pick.choice([*payments, node["yes"]])
                node.pop("invalid", None)

    def text(self, longest: int = 9) -> Any:
        return {
            language: " ".join(self.pick.choices(WORDS, k=self.pick.randint(1, longest)))
            for language in LANGUAGES
            if language == "en" or self.pick.random() < 0.4
        }

    def branch(self) -> Any:
        return {"end": self.text(3)} if self.pick.random() < 0.3 else "GOTO"

    def node(self) -> dict[str, Any]:
        kinds = (
            self.menu,
            self.menu,
            self.input,
            self.input,
            self.input,
            self.confirm,
            self.confirm,
            self.list,
            self.long_text,
            self.router,
            self.set,
            self.language,
            self.action,
            self.pay,
            self.pay,
            self.handover,
            self.end,
            self.end,
        )
        return self.pick.choice(kinds)()

    def menu(self) -> dict[str, Any]:
        options = [
            {
                "label": self.text(3),
                "goto": "GOTO",
                **({"when": self.pick.choice(CONDITIONS[:2] + CONDITIONS[3:])} if self.pick.random() < 0.3 else {}),
                **({"set": {"a": "vars.a + 100"}} if self.pick.random() < 0.2 else {}),
            }
            for _ in range(self.pick.randint(1, 9))
        ]
        return {"type": "menu", "text": self.text(3), "options": options, **self.invalid(), "on_error": self.branch()}

    def invalid(self) -> dict[str, Any]:
        return {"invalid": {"text": self.text(2), "max": 2, "goto": "GOTO"}} if self.pick.random() < 0.3 else {}

    def input(self) -> dict[str, Any]:
        var = self.pick.choice(("t", "a", "p", "d"))
        rules = {
            "t": [{"rule": "length", "min": 1, "max": 9, "error": self.text(3)}],
            "a": [{"rule": "amount", "min": 500}],
            "p": [{"rule": "phone"}],
            "d": [],
        }[var]
        return {"type": "input", "text": self.text(3), "var": var, "validate": rules, "goto": "GOTO", **self.invalid()}

    def confirm(self) -> dict[str, Any]:
        return {"type": "confirm", "text": self.text(2), "yes": "GOTO", "no": "GOTO", **self.invalid()}

    def list(self) -> dict[str, Any]:
        return {
            "type": "list",
            "text": self.text(3),
            "items": "vars.l",
            "label": {"en": "{{item.x}} {{item.y|ugx}}"},
            "value": "item.x",
            "var": "t",
            "goto": "GOTO",
            **({"empty": self.branch()} if self.pick.random() < 0.5 else {}),
        }

    def long_text(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text(90), "goto": "GOTO"}

    def router(self) -> dict[str, Any]:
        return {
            "type": "router",
            "cases": [{"when": CONDITIONS[0], "goto": "GOTO"}, {"when": CONDITIONS[1], "goto": "GOTO"}],
            "else": self.branch(),
            "on_error": self.branch(),
        }

    def set(self) -> dict[str, Any]:
        values = {"a": "vars.a * 10", "t": "vars.t + vars.t"}
        return {"type": "set", "values": values, "goto": "GOTO", "on_error": self.branch()}

    def language(self) -> dict[str, Any]:
        return {"type": "language", "goto": "GOTO"}

    def action(self) -> dict[str, Any]:
        return self.pick.choice(
            (
                {
                    "type": "balance",
                    "of": "session.phone_number",
                    "var": "a",
                    "goto": "GOTO",
                    "on_error": self.branch(),
                },
                {"type": "lookup_name", "of": "vars.p", "var": "t", "goto": "GOTO"},
                {"type": "sms", "to": "vars.p", "text": self.text(), "goto": "GOTO"},
                {
                    "type": "http",
                    "method": "POST",
                    "url": "https://a.example/{{vars.t}}",
                    "map": {"l": "items", "t": "t"},
                    "goto": "GOTO",
                    "on_error": self.branch(),
                    "body": {"t": "{{vars.t}}"},
                },
            )
        )

    def pay(self) -> dict[str, Any]:
        return {
            "type": "pay",
            "kind": "collection",
            "amount": self.pick.choice(("vars.a", "5000", "5000")),
            "phone_number": "session.phone_number",
            "accepted": self.branch(),
            "rejected": self.branch(),
        }

    def handover(self) -> dict[str, Any]:
        return {"type": "handover", "url": "https://a.example/", "on_error": self.branch()}

    def end(self) -> dict[str, Any]:
        return {"type": "end", "text": self.text(5)}


def digest(text: str) -> str:
    """What a test stores of a secret entry."""
    return hashlib.sha256(text.encode()).hexdigest()


class Walker:
    """Presses keys at random and watches every screen."""

    def __init__(self, raw: dict[str, Any], seed: int) -> None:
        self.document: Document = parse(raw)
        self.pick = random.Random(seed)
        self.names_paid: list[str] = []

    def walk(self, presses: int) -> int:
        """Return how many screens were seen."""
        self.names_paid = []
        channel = DisplayOptions(transliterates=self.pick.random() < 0.5)
        facts = SessionFacts("+256772123456", "*384*123#", self.pick.choice(NETWORKS), "s")
        items = [{"x": self.value()[:9], "y": 12345}] * self.pick.randint(0, 8)
        entries = [self.entry() for _ in range(self.pick.choice((0, 0, 3)))]
        turn = self.settled(
            start(
                self.document, facts, self.pick.choice(LANGUAGES), values={"l": items}, entries=entries, channel=channel
            ),
            channel,
        )
        seen = 1
        for _ in range(presses):
            assert turn.screen is not None
            if turn.screen.ends:
                break
            stored = json.loads(json.dumps(turn.state.to_dict(digest)))
            state = State.from_dict(stored, digest)
            assert state == turn.state
            turn = self.settled(enter(self.document, state, self.entry(), channel), channel)
            if self.pick.random() < 0.03:
                turn = reopen(self.document, turn.state, facts, channel) or turn
            seen += 1
        return seen

    def settled(self, turn: Turn, channel: DisplayOptions) -> Turn:
        for _ in range(30):
            if turn.action is None:
                break
            turn = resume(self.document, turn.state, self.outcome(turn.action), channel)
        assert turn.screen is not None, "a step came to no screen"
        budget: Budget = self.document.budget_for(turn.state.facts.network)
        assert budget.fits(turn.screen.text), turn.screen
        return turn

    def outcome(self, action: MenuAction) -> ActionOutcome:
        if self.pick.random() < 0.3 and not isinstance(action, PayAction):
            return Failed(self.pick.random() < 0.5)
        match action:
            case PayAction():
                assert action.confirmation not in self.names_paid, "one confirmation paid twice"
                self.names_paid.append(action.confirmation)
                return Paid(self.pick.random() < 0.5)
            case BalanceAction():
                return BalanceFound(self.pick.choice((0, 12345, 10**15)))
            case LookupNameAction():
                return NameFound(self.value())
            case HttpAction():
                return Answered({"items": [{"x": self.value(), "y": 5}] * self.pick.randint(0, 9), "t": self.value()})
            case HandoverAction():
                return HandedOver(self.value()[:20], self.pick.random() < 0.5)

    def value(self) -> str:
        return self.pick.choice(STRANGE) + self.pick.choice(STRANGE)

    def entry(self) -> str:
        return (
            self.pick.choice(STRANGE)
            if self.pick.random() < 0.5
            else self.pick.choice(("1", "1", "1", "2", "5000", "98"))
        )


def test_a_menu_that_passes_the_check_never_overflows_raises_or_loops(
    tries: Callable[[int], int], monkeypatch: pytest.MonkeyPatch, record_property: pytest.RecordProperty
) -> None:
    # The engine cuts a screen that is too long as its last resort; here that must never be needed.
    monkeypatch.setattr(Budget, "cut", lambda self, text: text)
    passed = screens = payments = 0
    documents = tries(DOCUMENTS)
    for seed in range(documents):
        raw = Author(seed).document()
        report = check(raw)
        assert all(finding.rule != "document" for finding in report.findings), report.findings
        if report.passes:
            passed += 1
            walker = Walker(raw, seed)
            for _ in range(3):
                screens += walker.walk(25)
                payments += len(walker.names_paid)
    record_property("documents_passed", passed)
    record_property("screens_seen", screens)
    record_property("payments_made", payments)
    assert passed > documents // 10, "the generator hardly ever writes a menu that passes"
    assert screens > 6 * documents
    assert payments > documents // 100
