"""Scripts of a menu: sessions with expected screens, run against the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.fields import DocumentFields, DocumentReading
from ussd_server.menus.document.findings import Finding, error
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.tools.simulator import Simulator, World
from ussd_server.values import PHONE_NUMBER

MAX_SCRIPTS = 50
MAX_STEPS = 100
MAX_WAIT_SECONDS = 86_400

_TO_FILL_IN = "<fill in "


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step of a script: at most one act, then the expected screen."""

    send: str | None = None
    retry: bool = False
    redial: bool = False
    wait_seconds: int = 0
    expect: str | None = None
    end: bool | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The steps of a session, and what has to be true after it. `number` counts the scripts of the menu from 1."""

    number: int
    name: str
    facts: SessionFacts
    entries: tuple[str, ...]
    language: str | None
    world: World
    steps: tuple[ScriptStep, ...]
    after: Mapping[str, Any] = field(default_factory=dict)


def to_fill_in(name: str) -> str:
    """What stands in a script in the place of a secret entry. A script with it fails until its author replaces it."""
    return f"{_TO_FILL_IN}{name}>"


def left_to_fill_in(script: Mapping[str, Any]) -> int:
    """How many secret entries the author of a script still has to write."""
    return sum(str(step.get("send", "")).startswith(_TO_FILL_IN) for step in script["steps"])


def run_scripts(document: Document) -> list[Finding]:
    """Run every script of the document; a script that cannot be read or fails is an error."""
    findings: list[Finding] = []
    if len(document.scripts) > MAX_SCRIPTS:
        return [error("script", f"a menu may have at most {MAX_SCRIPTS} scripts")]
    for number, raw in enumerate(document.scripts, start=1):
        script, problems = read_script(document, raw, number)
        findings += problems
        if script is not None:
            findings += play(document, script)
    return findings


def read_script(document: Document, raw: Any, number: int) -> tuple[Script | None, list[Finding]]:
    """Read one script; None when it cannot be read: the findings say why."""
    reading = DocumentReading(document.languages, document.default_language)
    place = f"scripts.{number}"
    fields = DocumentFields(raw, reading, place=place, path=("scripts", str(number)))
    name = fields.string("name", f"script {number}")
    dial = fields.within(fields.value("dial"), "dial")
    phone_number = dial.string("phone")
    if not PHONE_NUMBER.fullmatch(phone_number):
        dial.refuse("`dial.phone` has to be a number such as `+256772123456`")
    facts = SessionFacts(phone_number, dial.string("code"), dial.string("network", "unknown"), f"script-{number}")
    text = dial.value("text")
    if text is not None and (isinstance(text, bool) or not isinstance(text, str | int)):
        dial.refuse("`dial.text` has to be a text such as `1*2`; write it in quotes", at="text")
    language = fields.string("language", document.default_language, document.languages)
    world = _world(fields.within(fields.entries("world"), "world"))
    steps = tuple(_step(fields.within(step, f"steps.{at}")) for at, step in enumerate(fields.items("steps"), start=1))
    after = fields.within(fields.entries("after"), "after")
    expected = _after(after)
    if not 0 < len(steps) <= MAX_STEPS:
        fields.refuse(f"a script has 1 to {MAX_STEPS} steps")
    for part in (dial, after, fields):
        part.refuse_others()
    if problems := [*reading.problems, *reading.complaints]:
        return None, [replace(problem.finding(), rule="script") for problem in problems]
    return Script(
        number, name, facts, tuple(str(text).split("*")) if text else (), language, world, steps, expected
    ), []


def play(document: Document, script: Script) -> Iterator[Finding]:
    """Run a script and yield its differences; it stops at the first step that differs."""
    simulator = Simulator(document, script.facts, script.world, script.language)
    simulator.dial(script.entries)
    place = ("scripts", str(script.number))
    for number, step in enumerate(script.steps, start=1):
        difference = _act(simulator, step) or _compare(simulator, step)
        if difference is not None:
            found = error("script", f"script `{script.name}`, step {number}: {difference}", simulator.state.node)
            yield replace(found, path=(*place, "steps", str(number)))
            return
    for difference in _differences(simulator, script.after):
        found = error("script", f"script `{script.name}`, after the last step: {difference}", simulator.state.node)
        yield replace(found, path=(*place, "after"))


def _after(fields: DocumentFields) -> dict[str, Any]:
    """Read the expectations after a script; `transaction` is `none`, or some fields of the last one."""
    transaction = fields.value("transaction")
    wanted: dict[str, Any] = {} if transaction is None else {"transaction": transaction}
    if isinstance(transaction, str):
        fields.string("transaction", choices=("none",))
    elif transaction is not None:
        wanted["transaction"] = fields.entries("transaction")
    wanted |= {each: fields.string(each) for each in ("node", "language") if fields.value(each) is not None}
    return {**wanted, "vars": fields.entries("vars")}


def _world(fields: DocumentFields) -> World:
    world = World(
        balances=fields.entries("balances"),
        names=fields.entries("names"),
        answers=fields.entries("answers"),
        given=fields.entries("given"),
        accepts_payments=fields.string("payments", "accepted", ("accepted", "rejected")) == "accepted",
    )
    fields.refuse_others()
    return world


def _step(fields: DocumentFields) -> ScriptStep:
    send, expect = _word(fields, "send"), _word(fields, "expect")
    end = fields.boolean("end") if fields.value("end") is not None else None
    step = ScriptStep(
        send,
        fields.boolean("retry"),
        fields.boolean("redial"),
        fields.integer("wait", 0, 0, MAX_WAIT_SECONDS) or 0,
        expect,
        end,
    )
    acts = [step.send is not None, step.retry, step.redial, step.wait_seconds > 0]
    if sum(acts) > 1:
        fields.refuse(f"`{fields.place}` has more than one of send, retry, wait and redial; write one step for each")
    fields.refuse_others()
    return step


def _word(fields: DocumentFields, name: str) -> str | None:
    value = fields.value(name)
    if value is None or isinstance(value, str):
        return value
    fields.refuse(f"`{fields.place}.{name}` has to be a text; write it in quotes", at=name)
    return None


def _act(simulator: Simulator, step: ScriptStep) -> str | None:
    """Do the act of a step; return what went wrong, or None."""
    if step.redial:
        simulator.redial()
    elif step.wait_seconds:
        simulator.wait(step.wait_seconds)
    elif step.send is not None:
        if simulator.is_over:
            return "the session has already ended"
        if step.send.startswith(_TO_FILL_IN):
            return f"write a made-up entry in the place of `{step.send}`; real ones are not kept in scripts"
        simulator.send(step.send)
    elif step.retry:
        before = simulator.screen.text
        simulator.repeat()
        if simulator.screen.text != before:
            return f"the repeated step showed something else:\n{simulator.screen.text}"
    return None


def _compare(simulator: Simulator, step: ScriptStep) -> str | None:
    screen = simulator.screen
    if step.expect is not None and step.expect not in screen.text:
        return f"expected `{step.expect}`, and the screen is:\n{screen.text}"
    if step.end is not None and step.end != screen.ends:
        return "the session should have ended here" if step.end else "the session should not have ended here"
    return None


def _differences(simulator: Simulator, after: Mapping[str, Any]) -> Iterator[str]:
    if "transaction" in after:
        payments = list(simulator.payments.values())
        have = payments[-1] if payments else None
        wanted = after["transaction"]
        if wanted == "none":
            if have is not None:
                yield f"expected no transaction, and there is {have}"
        elif have is None or any(have.get(name) != value for name, value in wanted.items()):
            yield f"expected the transaction {wanted}, and it is {have}"
    if "node" in after and after["node"] != simulator.state.node:
        yield f"expected to be at `{after['node']}`, and the session is at `{simulator.state.node}`"
    if "language" in after and after["language"] != simulator.state.language:
        yield f"expected the language `{after['language']}`, and it is `{simulator.state.language}`"
    for name, value in after["vars"].items():
        if simulator.state.variables.get(name) != value:
            yield f"expected `vars.{name}` to be {value!r}, and it is {simulator.state.variables.get(name)!r}"
