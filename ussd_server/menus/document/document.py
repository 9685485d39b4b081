"""The menu document: read from a plain dict into typed, frozen nodes, with all problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.expressions import Name
from ussd_server.menus.document.fields import DocumentFields, DocumentReading
from ussd_server.menus.document.findings import Finding, Spelling
from ussd_server.menus.document.kinds import KEY
from ussd_server.menus.document.nodes import EndNode, Node, read_node
from ussd_server.menus.document.variables import (
    MAX_DIGITS,
    MAX_ITEMS,
    MAX_TEXT,
    TYPES,
    WIDEST_FACTS,
    Variable,
    default_max_len,
)
from ussd_server.menus.phrases import phrase
from ussd_server.menus.text import MAX_SEPTETS, MAX_UCS2, MIN_SEPTETS, MIN_UCS2, Budget

NAVIGATION = ("back", "home", "more", "prev")
LABELS = (*NAVIGATION, "yes", "no", "continue")

_LANGUAGE = re.compile(r"[a-z]{2,3}", re.ASCII)
_NETWORK = re.compile(r"[0-9A-Za-z]{1,10}", re.ASCII)
_VARIABLE = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_BALANCE_DIGITS = 12


class DocumentError(ValueError):
    """A document that cannot be read; `problems` lists every problem."""

    def __init__(self, problems: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(f"{problem.node or 'document'}: {problem.message}" for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Navigation:
    """The keys that work on every screen, and their labels."""

    back: str
    home: str
    more: str
    prev: str
    labels: Mapping[str, Mapping[str, str]]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that no option may have."""
        return frozenset((self.back, self.home, self.more, self.prev))

    def label(self, name: str, language: str) -> str:
        """Return the label of `back`, `more`, `prev`, `yes`, `no` or `continue` in a language."""
        return self.labels.get(name, {}).get(language) or phrase(name, language)


@dataclass(frozen=True, slots=True)
class Document:
    """A menu as a client publishes it. `unread` names the nodes that could not be read; a published menu has none.

    `complaints` block publishing, but the document can be used.
    """

    id: str
    title: str
    start: str
    default_language: str
    languages: tuple[str, ...]
    budget: Budget
    network_budgets: Mapping[str, Budget]
    navigation: Navigation
    resume: str
    variables: Mapping[str, Variable]
    nodes: Mapping[str, Node]
    scripts: tuple[Any, ...]
    unread: frozenset[str]
    # Whether a text that a language lacks may appear in the default language.
    fallback: bool = False
    complaints: tuple[Finding, ...] = ()
    # A cache of pages that are the same for every session.
    page_cache: dict[tuple[Any, ...], list[str]] = field(default_factory=dict, compare=False, repr=False)

    def budget_for(self, network: str) -> Budget:
        """Return the budget of a screen on a network."""
        return self.network_budgets.get(network, self.budget)


def parse(raw: Any) -> Document:
    """Read a document, or raise `DocumentError` with every problem in it."""
    document, problems = read(raw)
    if problems:
        raise DocumentError(problems)
    return document


def read(raw: Any, work: WorkBudget | None = None) -> tuple[Document, tuple[Finding, ...]]:
    """Read as much of a document as can be read; return it with every problem.

    Raises `WorkExceededError` when reading exceeds `work`.
    """
    reading = DocumentReading((), "en")
    if work is not None:
        reading = replace(reading, spend=work.spend, spelling=Spelling(work.spend))
    fields = DocumentFields(raw, reading)
    fields.string("$schema", default="")  # for editors
    languages, default_language = _languages(fields)
    reading = replace(reading, languages=languages, default_language=default_language)
    fields.reading = reading
    variables = {**_balance_variables(fields), **_variables(fields)}
    reading = replace(reading, variables=variables, widest=_widths(variables, reading.problems))
    fields.reading = reading
    budget, network_budgets = _limits(fields)
    nodes, unread = _nodes(fields)
    document = Document(
        fields.string("id", longest=64),
        fields.string("title", default="", longest=100),
        fields.identifier("start"),
        default_language,
        languages,
        budget,
        network_budgets,
        _navigation(fields),
        fields.string("resume", "confirm", ("off", "auto", "confirm")),
        variables,
        nodes,
        tuple(fields.items("scripts")),
        unread,
        fields.boolean("fallback"),
    )
    fields.refuse_others()
    refused = {problem.path for problem in reading.problems}
    complaints = tuple(complaint for complaint in reading.complaints if complaint.path not in refused)
    return replace(document, complaints=complaints), tuple(reading.problems)


def _languages(fields: DocumentFields) -> tuple[tuple[str, ...], str]:
    default = fields.string("default_language", "en")
    languages = [str(each) for each in fields.items("languages")] or [default]
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            fields.refuse(f"`languages`: `{language}` is not a language code such as `en` or `lg`", at="languages")
    if len(set(languages)) != len(languages):
        fields.refuse("`languages` names a code twice", at="languages")
    if default not in languages:
        fields.refuse(f"`default_language` is `{default}`, which is not in `languages`", at="default_language")
    return tuple(dict.fromkeys(languages)), default


def _variables(fields: DocumentFields) -> dict[str, Variable]:
    variables = {}
    for name, raw in fields.entries("vars").items():
        if not _VARIABLE.fullmatch(name):
            fields.refuse(
                f"`vars.{name}`: a variable's name has small letters, digits and _, and begins with a letter",
                at=f"vars.{name}",
            )
        variables[name] = _variable(fields.within(raw, f"vars.{name}"), TYPES)
    return variables


def _balance_variables(fields: DocumentFields) -> dict[str, Variable]:
    """Declare the variables of `balance` nodes as amounts; a declaration in `vars` may be narrower."""
    nodes = fields.value("nodes")
    kept = [
        node.get("var")
        for node in (nodes.values() if isinstance(nodes, Mapping) else ())
        if isinstance(node, Mapping) and node.get("type") == "balance"
    ]
    return {
        name: Variable("amount", _BALANCE_DIGITS)
        for name in kept
        if isinstance(name, str) and _VARIABLE.fullmatch(name)
    }


def _variable(fields: DocumentFields, types: tuple[str, ...]) -> Variable:
    type_name = fields.string("type", "text", types)
    longest = MAX_TEXT if type_name == "text" else MAX_DIGITS
    default = default_max_len(type_name)
    max_len = default if type_name in ("phone", "date", "list") else fields.integer("max_len", default, 1, longest)
    overflow = fields.string("overflow", "refuse", ("refuse", "truncate"))
    max_items, item_fields = 0, {}
    given = fields.boolean("given")
    if type_name == "list":
        max_items = fields.integer("max_items", 10, 1, MAX_ITEMS) or MAX_ITEMS
        inner = tuple(each for each in TYPES if each != "list")
        declared = fields.entries("fields")
        item_fields = {
            name: _variable(fields.within(each, f"fields.{name}"), inner) for name, each in declared.items()
        } or {"": Variable("text", default_max_len("text"))}
    fields.refuse_others()
    return Variable(type_name, max_len or default, overflow == "truncate", given, max_items, item_fields)


def _widths(variables: Mapping[str, Variable], problems: Sequence[Finding]) -> dict[Name, str]:
    """Return the longest value of each variable; empty for one whose declaration cannot be read."""
    unread = {problem.path[1] for problem in problems if problem.path[:1] == ("vars",) and len(problem.path) > 1}
    declared = {name: "" if name in unread else variable.widest for name, variable in variables.items()}
    return {**WIDEST_FACTS, **{Name("vars", name): widest for name, widest in declared.items()}}


def _limits(fields: DocumentFields) -> tuple[Budget, dict[str, Budget]]:
    limits = fields.within(fields.entries("limits"), "limits")
    budget = _budget(limits, Budget())
    networks = {}
    for network, raw in limits.entries("networks").items():
        if not _NETWORK.fullmatch(network):
            limits.refuse(f"`limits.networks`: `{network}` is not a network code such as `64110`", at="networks")
        inner = limits.within(raw, f"networks.{network}")
        networks[network] = _budget(inner, budget)
        inner.refuse_others()
    limits.refuse_others()
    return budget, networks


def _budget(fields: DocumentFields, default: Budget) -> Budget:
    septets = fields.integer("septets", default.septets, MIN_SEPTETS, MAX_SEPTETS)
    ucs2 = fields.integer("ucs2", default.ucs2, MIN_UCS2, MAX_UCS2)
    return Budget(septets or default.septets, ucs2 or default.ucs2)


def _navigation(fields: DocumentFields) -> Navigation:
    nav = fields.within(fields.entries("nav"), "nav")
    defaults = {"back": "0", "home": "00", "more": "98", "prev": "99"}
    keys = {name: nav.string(name, default) for name, default in defaults.items()}
    for name, key in keys.items():
        if not KEY.fullmatch(key):
            nav.refuse(f"`nav.{name}` is `{key}`; a key is 1 to 4 letters or digits", at=name)
    if len(set(keys.values())) != len(keys):
        nav.refuse("`nav`: back, home, more and prev need four different keys")
    labels = nav.within(nav.entries("labels"), "labels")
    read = {name: _label(labels, name) for name in LABELS}
    labels.refuse_others()
    nav.refuse_others()
    return Navigation(**keys, labels=read)


def _label(labels: DocumentFields, name: str) -> dict[str, str]:
    by_language = {}
    for language, label in labels.entries(name).items():
        if language not in labels.reading.languages:
            where = f"{name}.{language}"
            labels.refuse(f"`nav.labels.{name}` has the language `{language}`, which is not in `languages`", at=where)
        if not isinstance(label, str) or not 0 < len(label) <= 20 or not label.isprintable():
            message = f"`nav.labels.{name}.{language}` has to be a text of 1 to 20 characters on one line"
            labels.refuse(message, at=f"{name}.{language}")
        else:
            by_language[language] = label
    return by_language


def _nodes(fields: DocumentFields) -> tuple[dict[str, Node], frozenset[str]]:
    raw_nodes = fields.entries("nodes")
    if not raw_nodes:
        fields.refuse("`nodes` has to have at least one node", at="nodes")
    reading = fields.reading
    nodes = {name: read_node(name, raw, reading) for name, raw in raw_nodes.items()}
    whole = {name: node for name, node in nodes.items() if node is not None}
    last_screens = {name: EndNode(name=name, text=text) for name, text in reading.last_screens.items()}
    return {**whole, **last_screens}, frozenset(nodes.keys() - whole.keys())
