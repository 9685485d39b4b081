"""The menu document: read from a plain dict into typed, frozen nodes, with all problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

from ussd_server.menus.document import bounds
from ussd_server.menus.document.expressions import Name
from ussd_server.menus.document.fields import NAME, DocumentFields, DocumentReading
from ussd_server.menus.document.findings import Finding, Spelling, node_path
from ussd_server.menus.document.kinds import (
    BOOLEAN,
    KEY,
    LANGUAGE,
    NODE,
    STRING,
    DeclaredField,
    Kind,
    Schema,
    array,
    fields_schema,
    mapping,
    object_schema,
    one_of,
    read_object,
    ref,
    string,
    whole,
)
from ussd_server.menus.document.nodes import NODES, EndNode, Node
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
from ussd_server.wire import Key

_LANGUAGE = re.compile(r"[a-z]{2,3}", re.ASCII)
_NETWORK = re.compile(r"[0-9A-Za-z]{1,10}", re.ASCII)
_VARIABLE = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_BALANCE_DIGITS = 12
_LONGEST_LABEL = 20


class DocumentError(ValueError):
    """A document that cannot be read; `problems` lists every problem."""

    def __init__(self, problems: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(f"{problem.node or 'document'}: {problem.message}" for problem in problems))
        self.problems = problems


def _default_language(fields: DocumentFields, name: str) -> str:
    default = fields.string(name, "en")
    fields.reading = replace(fields.reading, default_language=default)
    return default


def _languages(fields: DocumentFields, name: str) -> tuple[str, ...]:
    default = fields.reading.default_language
    languages = [str(each) for each in fields.items(name)] or [default]
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            fields.refuse(f"`{name}`: `{language}` is not a language code such as `en` or `lg`", at=name)
    if len(set(languages)) != len(languages):
        fields.refuse(f"`{name}` names a code twice", at=name)
    if default not in languages:
        fields.refuse(f"`default_language` is `{default}`, which is not in `{name}`", at="default_language")
    spoken = tuple(dict.fromkeys(languages))
    fields.reading = replace(fields.reading, languages=spoken)
    return spoken


@dataclass(frozen=True, slots=True)
class ScreenLimits:
    """How long a screen may be, as written: what is absent is as in the limits around it."""

    septets: Annotated[
        int | None, whole(MIN_SEPTETS, MAX_SEPTETS), "length in the GSM alphabet, 80 to 182, default 160"
    ] = None
    ucs2: Annotated[int | None, whole(MIN_UCS2, MAX_UCS2), "length with other letters, 40 to 80, default 70"] = None

    def within(self, around: Budget) -> Budget:
        """Return the limits as a budget."""
        return Budget(self.septets or around.septets, self.ucs2 or around.ucs2)


def _networks(fields: DocumentFields, name: str) -> dict[str, ScreenLimits]:
    networks = {}
    for network, raw in fields.entries(name).items():
        if not _NETWORK.fullmatch(network):
            fields.refuse(f"`limits.{name}`: `{network}` is not a network code such as `64110`", at=name)
        networks[network] = read_object(ScreenLimits, fields.within(raw, f"{name}.{network}"))
    return networks


@dataclass(frozen=True, slots=True)
class MenuLimits(ScreenLimits):
    """How long a screen of a menu may be."""

    networks: Annotated[
        Mapping[str, ScreenLimits],
        Kind(mapping(object_schema(ScreenLimits), bounds.MAX_NETWORKS, f"^{_NETWORK.pattern}$"), _networks),
        "other limits by network code",
    ] = field(default_factory=dict)


class Budgets(NamedTuple):
    """How long a screen may be: everywhere, and on the networks with limits of their own."""

    common: Budget
    networks: Mapping[str, Budget]


def _limits(fields: DocumentFields, name: str) -> Budgets:
    limits = read_object(MenuLimits, fields.within(fields.entries(name), name))
    common = limits.within(Budget())
    return Budgets(common, {network: each.within(common) for network, each in limits.networks.items()})


def _navigation_key(default: str) -> Kind:
    def read_key(nav: DocumentFields, name: str) -> str:
        key = nav.string(name, default)
        if not KEY.fullmatch(key):
            nav.refuse(f"`nav.{name}` is `{key}`; a key is 1 to 4 letters or digits", at=name)
        return key

    return Kind({"type": "string", "pattern": f"^{KEY.pattern}$"}, read_key, reads_absent=True)


def _label(labels: DocumentFields, name: str) -> dict[str, str]:
    by_language = {}
    for language, label in labels.entries(name).items():
        where = f"{name}.{language}"
        if language not in labels.reading.languages:
            labels.refuse(f"`nav.labels.{name}` has the language `{language}`, which is not in `languages`", at=where)
        if not isinstance(label, str) or not 0 < len(label) <= _LONGEST_LABEL or not label.isprintable():
            message = f"`nav.labels.{where}` has to be a text of 1 to {_LONGEST_LABEL} characters on one line"
            labels.refuse(message, at=where)
        else:
            by_language[language] = label
    return by_language


_LABEL = Kind(mapping(string(_LONGEST_LABEL).schema), _label)
_LABELS = tuple(
    DeclaredField(name, name, _LABEL, meaning, has_default=True)
    for name, meaning in {
        **{name: f"the name of the key `{name}`" for name in ("back", "home", "more", "prev")},
        "yes": "the first answer of a confirmation",
        "no": "the second answer of a confirmation",
        "continue": "the key that leads on from a text",
    }.items()
)


def _labels(nav: DocumentFields, name: str) -> dict[str, dict[str, str]]:
    labels = nav.within(nav.entries(name), name)
    read = {each.name: _label(labels, each.name) for each in _LABELS}
    labels.refuse_others()
    return read


@dataclass(frozen=True, slots=True)
class Navigation:
    """The keys that work on every screen, and their labels."""

    back: Annotated[str, _navigation_key("0"), "the key to the screen before, default `0`"]
    home: Annotated[str, _navigation_key("00"), "the key to the first node, default `00`"]
    more: Annotated[str, _navigation_key("98"), "the key to the next page, default `98`"]
    prev: Annotated[str, _navigation_key("99"), "the key to the page before, default `99`"]
    labels: Annotated[
        Mapping[str, Mapping[str, str]], Kind(fields_schema(_LABELS), _labels), "the names of the keys by language"
    ] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """The keys that no option may have."""
        return frozenset((self.back, self.home, self.more, self.prev))

    def label(self, name: str, language: str) -> str:
        """Return the label of `back`, `more`, `prev`, `yes`, `no` or `continue` in a language."""
        return self.labels.get(name, {}).get(language) or phrase(name, language)


def _navigation(fields: DocumentFields, name: str) -> Navigation:
    nav = fields.within(fields.entries(name), name)
    read = read_object(Navigation, nav)
    if len(read.keys) < 4:
        nav.refuse(f"`{name}`: back, home, more and prev need four different keys")
    return read


def _variables(fields: DocumentFields, name: str) -> dict[str, Variable]:
    declared = {}
    for variable, raw in fields.entries(name).items():
        place = f"{name}.{variable}"
        if not _VARIABLE.fullmatch(variable):
            fields.refuse(
                f"`{place}`: a variable's name has small letters, digits and _, and begins with a letter", at=place
            )
        declared[variable] = _variable(fields.within(raw, place), TYPES)
    variables = {**_balance_variables(fields), **declared}
    reading = fields.reading
    fields.reading = replace(reading, variables=variables, widest=_widths(variables, reading.problems))
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
    is_given = fields.boolean("given")
    if type_name == "list":
        max_items = fields.integer("max_items", 10, 1, MAX_ITEMS) or MAX_ITEMS
        inner = tuple(each for each in TYPES if each != "list")
        declared = fields.entries("fields")
        item_fields = {
            name: _variable(fields.within(each, f"fields.{name}"), inner) for name, each in declared.items()
        } or {"": Variable("text", default_max_len("text"))}
    fields.refuse_others()
    return Variable(type_name, max_len or default, overflow == "truncate", is_given, max_items, item_fields)


def _widths(variables: Mapping[str, Variable], problems: Sequence[Finding]) -> dict[Name, str]:
    """Return the longest value of each variable; empty for one whose declaration cannot be read."""
    unread = {problem.path[1] for problem in problems if problem.path[:1] == ("vars",) and len(problem.path) > 1}
    declared = {name: "" if name in unread else variable.widest for name, variable in variables.items()}
    return {**WIDEST_FACTS, **{Name("vars", name): widest for name, widest in declared.items()}}


def _nodes(fields: DocumentFields, name: str) -> dict[str, Node]:
    raw_nodes = fields.entries(name)
    if not raw_nodes:
        fields.refuse(f"`{name}` has to have at least one node", at=name)
    reading = fields.reading
    nodes = {node: _node(node, raw, reading) for node, raw in raw_nodes.items()}
    reading.unread.update(node for node, read in nodes.items() if read is None)
    whole = {node: read for node, read in nodes.items() if read is not None}
    return {**whole, **{node: EndNode(name=node, text=text) for node, text in reading.last_screens.items()}}


_NODES: Schema = {**mapping(ref("node"), bounds.MAX_NODES, f"^{NAME.pattern}$"), "minProperties": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A menu as a client publishes it. `unread` names the nodes that could not be read; a published menu has none.

    `complaints` block publishing, but the document can be used. Fields below others may depend on what was read there.
    """

    schema: Annotated[str, Key("$schema"), STRING, "the address of the schema, for editors of JSON"] = ""
    id: Annotated[str, string(64), "the menu's id, 1 to 64 characters"]
    title: Annotated[
        str, string(100), 'shown in the diagram and in "Your payment of UGX 5,000 to TITLE succeeded."'
    ] = ""
    start: Annotated[str, NODE, "the first node"]
    default_language: Annotated[
        str,
        Kind(LANGUAGE.schema, _default_language, reads_absent=True),
        "the language of subscribers who chose none; default `en`",
    ]
    languages: Annotated[
        tuple[str, ...],
        Kind({**array(LANGUAGE.schema, bounds.MAX_LANGUAGES), "uniqueItems": True}, _languages, reads_absent=True),
        "codes such as `en`, `lg`; every text needs each of them",
    ]
    fallback: Annotated[bool, BOOLEAN, "`true` lets a text that a language lacks appear in the default language"] = (
        False
    )
    budgets: Annotated[
        Budgets,
        Key("limits"),
        Kind(object_schema(MenuLimits), _limits, reads_absent=True),
        "how long a screen may be",
    ]
    navigation: Annotated[
        Navigation,
        Key("nav"),
        Kind(object_schema(Navigation), _navigation, reads_absent=True),
        "the keys that work on every screen, and their names",
    ]
    resume: Annotated[
        str,
        one_of("off", "auto", "confirm"),
        "after a dropped call: `off` begins again, `auto` continues, `confirm` (default) asks first",
    ] = "confirm"
    variables: Annotated[
        Mapping[str, Variable],
        Key("vars"),
        Kind(mapping(ref("variable"), bounds.MAX_VARIABLES, f"^{_VARIABLE.pattern}$"), _variables, reads_absent=True),
        "the variables by name",
    ]
    nodes: Annotated[Mapping[str, Node], Kind(_NODES, _nodes), "the nodes by name"]
    scripts: Annotated[
        tuple[Any, ...],
        Kind(array(ref("script"), bounds.MAX_SCRIPTS), lambda fields, name: tuple(fields.items(name))),
        "conversations that must go as written; they run when the menu is checked",
    ] = ()
    unread: frozenset[str] = frozenset()
    complaints: tuple[Finding, ...] = ()
    # A cache of pages that are the same for every session.
    page_cache: dict[tuple[Any, ...], list[str]] = field(default_factory=dict, compare=False, repr=False)

    def budget_for(self, network: str) -> Budget:
        """Return the budget of a screen on a network."""
        return self.budgets.networks.get(network, self.budgets.common)


def parse(raw: Any) -> Document:
    """Read a document, or raise `DocumentError` with every problem in it."""
    document, problems = read(raw)
    if problems:
        raise DocumentError(problems)
    return document


def read(raw: Any, work: bounds.WorkBudget | None = None) -> tuple[Document, tuple[Finding, ...]]:
    """Read as much of a document as can be read; return it with every problem.

    Raises `WorkExceededError` when reading exceeds `work`.
    """
    reading = DocumentReading() if work is None else DocumentReading(spend=work.spend, spelling=Spelling(work.spend))
    document = read_object(Document, DocumentFields(raw, reading))
    refused = {problem.path for problem in reading.problems}
    complaints = tuple(complaint for complaint in reading.complaints if complaint.path not in refused)
    return replace(document, unread=frozenset(reading.unread), complaints=complaints), tuple(reading.problems)


def _node(name: str, raw: Any, reading: DocumentReading) -> Node | None:
    """Read a node; None when a part of it cannot be read: the problems are in `reading`."""
    before = len(reading.problems)
    fields = DocumentFields(raw, reading, node_path(name), name)
    if not NAME.fullmatch(name):
        fields.refuse("a node's name begins with a letter and has at most 40 letters, digits, - and _")
    if len(reading.problems) > before:
        return None
    kind: type[Any] | None = NODES.get(fields.string("type", choices=tuple(NODES)))
    if kind is None:
        fields.refuse_misspelt("type")
        return None
    node: Node = read_object(kind, fields, name=name)
    return node if len(reading.problems) == before else None
