"""Scripts of a menu: sessions with expected screens, run against the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from ussd_server.menus.document import kinds
from ussd_server.menus.document.bounds import MAX_SCRIPTS
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.fields import DocumentFields, DocumentReading
from ussd_server.menus.document.findings import Finding, error
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.tools.simulator import Simulator, World
from ussd_server.values import PHONE_NUMBER

MAX_STEPS = 100
MAX_WAIT_SECONDS = 86_400

_TO_FILL_IN = "<fill in "


def _word(fields: DocumentFields, name: str) -> str:
    value = fields.value(name)
    if not isinstance(value, str):
        fields.refuse(f"`{fields.place}.{name}` has to be a text; write it in quotes", at=name)
    return str(value)


def _phone_number(dial: DocumentFields, name: str) -> str:
    number = dial.string(name)
    if not PHONE_NUMBER.fullmatch(number):
        dial.refuse(f"`dial.{name}` has to be a number such as `+256772123456`")
    return number


def _dialled(dial: DocumentFields, name: str) -> str:
    text = dial.value(name)
    if isinstance(text, bool) or not isinstance(text, str | int):
        dial.refuse(f"`dial.{name}` has to be a text such as `1*2`; write it in quotes", at=name)
    return str(text or "")


def _transaction(fields: DocumentFields, name: str) -> str | dict[str, Any]:
    return fields.string(name, choices=("none",)) if isinstance(fields.value(name), str) else fields.entries(name)


_WORD = kinds.Kind({"type": "string"}, _word)
_PHONE_NUMBER = kinds.Kind({"type": "string", "pattern": f"^{PHONE_NUMBER.pattern}$"}, _phone_number)
_DIALLED = kinds.Kind({"type": ["string", "integer"]}, _dialled)
_TRANSACTION = kinds.Kind({"anyOf": [kinds.one_of("none").schema, {"type": "object"}]}, _transaction)
_NAME = kinds.Kind(
    kinds.STRING.schema, lambda script, name: script.string(name, f"script {script.path[-1]}"), reads_absent=True
)


@dataclass(frozen=True, slots=True)
class ScriptDial:
    """The phone number and the code of a script's call."""

    phone: Annotated[str, _PHONE_NUMBER, "the number of the subscriber"]
    code: Annotated[str, kinds.STRING, "the code that is dialled"]
    network: Annotated[str, kinds.STRING, "the network code"] = "unknown"
    text: Annotated[str, _DIALLED, "entries that are dialled with the code, joined by `*`"] = ""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step of a script: at most one act, then the expected screen."""

    send: Annotated[str | None, _WORD, "an entry"] = None
    retry: Annotated[bool, kinds.BOOLEAN, "`true`: the step before arrives again"] = False
    redial: Annotated[bool, kinds.BOOLEAN, "`true`: the subscriber hangs up and dials again"] = False
    wait: Annotated[int, kinds.whole(0, MAX_WAIT_SECONDS), "seconds that pass"] = 0
    expect: Annotated[str | None, _WORD, "a part of the screen after it"] = None
    end: Annotated[bool | None, kinds.BOOLEAN, "whether the session is over after it"] = None


def _step(fields: DocumentFields) -> ScriptStep:
    step = kinds.read_object(ScriptStep, fields)
    if (step.send is not None) + step.retry + step.redial + ((step.wait or 0) > 0) > 1:
        fields.refuse(f"`{fields.place}` has more than one of send, retry, wait and redial; write one step for each")
    return step


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    transaction: Annotated[str | dict[str, Any] | None, _TRANSACTION, "`none`, or fields of the last payment"] = None
    node: Annotated[str | None, kinds.STRING, "the last node"] = None
    language: Annotated[str | None, kinds.STRING, "the language of the subscriber"] = None
    vars: Annotated[Mapping[str, Any], kinds.ANYTHING, "values of variables"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps of a session, and what has to be true after it. `number` counts the scripts of the menu from 1."""

    number: int
    name: Annotated[str, _NAME, "the name in findings"]
    language: Annotated[str | None, kinds.LANGUAGE, "the language of the subscriber"] = None
    dial: Annotated[ScriptDial, kinds.record(ScriptDial), "who dials what"]
    world: Annotated[World, kinds.part(World), "what the menu finds outside"] = field(default_factory=World)
    steps: Annotated[
        tuple[ScriptStep, ...],
        kinds.listed(_step, kinds.object_schema(ScriptStep), MAX_STEPS, 1),
        "the entries, and what the screens must show",
    ]
    after: Annotated[ScriptOutcome, kinds.part(ScriptOutcome), "what must be true at the end"] = field(
        default_factory=ScriptOutcome
    )


def to_fill_in(name: str) -> str:
    """Placeholder of a secret entry in a script. A script with it fails until its author replaces it."""
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
    fields = DocumentFields(raw, reading, ("scripts", str(number)))
    script = kinds.read_object(Script, fields, number=number)
    if not script.steps:
        fields.refuse(f"a script has 1 to {MAX_STEPS} steps")
    if problems := [*reading.problems, *reading.complaints]:
        return None, [replace(problem, rule="script") for problem in problems]
    return script, []


def play(document: Document, script: Script) -> Iterator[Finding]:
    """Run a script and yield its differences; it stops at the first step that differs."""
    dial = script.dial
    facts = SessionFacts(dial.phone, dial.code, dial.network, f"script-{script.number}")
    simulator = Simulator(document, facts, script.world, script.language)
    simulator.dial(dial.text.split("*") if dial.text else ())
    place = ("scripts", str(script.number))
    for number, step in enumerate(script.steps, start=1):
        difference = _act(simulator, step) or _compare(simulator, step)
        if difference is not None:
            finding = error("script", f"script `{script.name}`, step {number}: {difference}", simulator.state.node)
            yield replace(finding, path=(*place, "steps", str(number)))
            return
    for difference in _differences(simulator, script.after):
        finding = error("script", f"script `{script.name}`, after the last step: {difference}", simulator.state.node)
        yield replace(finding, path=(*place, "after"))


def _act(simulator: Simulator, step: ScriptStep) -> str | None:
    """Do the act of a step; return what went wrong, or None."""
    if step.redial:
        simulator.redial()
    elif step.wait:
        simulator.wait(step.wait)
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


def _differences(simulator: Simulator, after: ScriptOutcome) -> Iterator[str]:
    state, wanted = simulator.state, after.transaction
    payments = list(simulator.payments.values())
    have = payments[-1] if payments else None
    if wanted == "none":
        if have is not None:
            yield f"expected no transaction, and there is {have}"
    elif isinstance(wanted, dict) and (have is None or any(have.get(name) != value for name, value in wanted.items())):
        yield f"expected the transaction {wanted}, and it is {have}"
    if after.node is not None and after.node != state.node:
        yield f"expected to be at `{after.node}`, and the session is at `{state.node}`"
    if after.language is not None and after.language != state.language:
        yield f"expected the language `{after.language}`, and it is `{state.language}`"
    for name, value in after.vars.items():
        if state.variables.get(name) != value:
            yield f"expected `vars.{name}` to be {value!r}, and it is {state.variables.get(name)!r}"
