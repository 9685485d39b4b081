"""The nodes of a menu. Docstrings and the meanings of fields stand in editors and in docs/reference/MENU_FIELDS.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeGuard

from ussd_server.menus.document import kinds
from ussd_server.menus.document.expressions import Assignments, Expression
from ussd_server.menus.document.fields import DocumentFields
from ussd_server.menus.document.rules import MAX_RULES, Rule, read_rule
from ussd_server.menus.document.templates import LocalizedText, Template
from ussd_server.menus.phrases import LANGUAGE_NAMES
from ussd_server.wire import Key

MAX_TIMEOUT_MS = 2500
MAX_OPTIONS = 60
MAX_WAIT_SECONDS = 20

_LONGEST_LANGUAGE_NAME = 40


@dataclass(frozen=True, slots=True)
class Invalid:
    """The reaction to an invalid entry: a notice, and after `max` invalid entries the node `goto`."""

    text: Annotated[LocalizedText | None, kinds.TEXT, "the notice above the repeated screen"] = None
    max: Annotated[int, kinds.whole(1, 20), "how many invalid entries are taken, 1 to 20, default 3"] = 3
    goto: Annotated[
        str | None, kinds.NODE, "where too many invalid entries lead; without it, the screen is repeated without end"
    ] = None


ScreenText = Annotated[LocalizedText, kinds.TEXT, "the text of the screen"]
Goto = Annotated[str, kinds.NODE, "the next node"]
OnInvalid = Annotated[Invalid, kinds.record(Invalid), "what happens after an entry that is not accepted"]
OnError = Annotated[
    str | None, kinds.BRANCH, "the next node where there is no answer; without it, the polite last screen"
]
OnNoValue = Annotated[
    str | None,
    kinds.BRANCH,
    "the next node where an expression gives nothing that its variable can hold, such as a fraction for an amount; "
    "without it, the polite last screen",
]
PhoneNumber = Annotated[Expression, kinds.EXPRESSION, "an expression that gives a phone number"]
AccountOf = Annotated[Expression, kinds.ACCOUNT, "`main` (default), or an expression that gives a phone number"]
OptionKey = Annotated[str, kinds.OPTION_KEY, "what to type; numbered when absent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a menu."""

    key: OptionKey
    label: Annotated[LocalizedText, kinds.TEXT, "the text of the choice"]
    goto: Goto
    when: Annotated[Expression | None, kinds.EXPRESSION, "a condition; the option is shown where it holds"] = None
    set: Annotated[Assignments, kinds.ASSIGNMENTS, "variables that the choice changes, each by an expression"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuNode:
    """Choices."""

    name: str
    text: ScreenText
    options: Annotated[
        tuple[Option, ...], kinds.records(Option, MAX_OPTIONS, 1, "a menu needs at least one option"), "the choices"
    ]
    invalid: OnInvalid = Invalid()
    on_error: OnNoValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNode:
    """A question. Its rules check the entry, and a variable keeps it."""

    name: str
    text: ScreenText
    var: Annotated[str, kinds.VARIABLE, "the variable that keeps the entry"]
    goto: Goto
    validate: Annotated[
        tuple[Rule, ...],
        kinds.listed(read_rule, kinds.ref("rule"), MAX_RULES),
        "rules, all of which must accept the entry",
    ] = ()
    secret: Annotated[bool, kinds.BOOLEAN, "`true`: the entry is never stored or shown"] = False
    invalid: OnInvalid = Invalid()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmNode:
    """Yes or no. It stands before every payment, and is never skipped."""

    name: str
    text: ScreenText
    yes: Annotated[str, kinds.BRANCH, "the node or last screen after 1"]
    no: Annotated[str, kinds.BRANCH, "the node or last screen after 2"]
    invalid: OnInvalid = Invalid()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNode:
    """A choice of one item of many, in pages."""

    name: str
    text: ScreenText
    items: Annotated[Expression, kinds.ITEMS, "a list variable, or the items themselves"]
    label: Annotated[LocalizedText, kinds.TEXT, "the text of an item; it reads `item`"]
    goto: Goto
    value: Annotated[Expression | None, kinds.EXPRESSION, "an expression of `item`, kept in `var`"] = None
    var: Annotated[str | None, kinds.VARIABLE, "the variable that keeps the choice"] = None
    empty: Annotated[str | None, kinds.BRANCH, "the node or last screen when there are no items"] = None
    invalid: OnInvalid = Invalid()
    on_error: OnNoValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextNode:
    """A long text, in pages."""

    name: str
    text: Annotated[LocalizedText, kinds.TEXT, "a long text, shown in pages"]
    goto: Goto


class Case(NamedTuple):
    """A case of a router."""

    when: Annotated[Expression, kinds.EXPRESSION, "the condition"]
    goto: Goto


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterNode:
    """No screen: the next node depends on conditions."""

    name: str
    cases: Annotated[
        tuple[Case, ...], kinds.records(Case), "conditions in their order; the first that holds decides"
    ] = ()
    otherwise: Annotated[str, Key("else"), kinds.BRANCH, "where none holds"]
    on_error: Annotated[
        str | None,
        kinds.BRANCH,
        "the next node where a condition has no value, such as one that compares a number that was never set; without "
        "it, the polite last screen",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNode:
    """No screen: changes variables."""

    name: str
    values: Annotated[Assignments, kinds.SOME_ASSIGNMENTS, "variables to change, each by an expression"]
    goto: Goto
    on_error: OnNoValue = None


def _language_name(option: DocumentFields, name: str) -> str:
    """Read the name of a language on the screen; without it, the language's own."""
    code = str(option.value("language") or "-")
    return option.string(name, LANGUAGE_NAMES.get(code, code), longest=_LONGEST_LANGUAGE_NAME)


class LanguageOption(NamedTuple):
    """A language to choose."""

    key: OptionKey
    language: Annotated[str, kinds.LANGUAGE, "the code of the language"]
    label: Annotated[
        str,
        kinds.Kind(kinds.string(_LONGEST_LANGUAGE_NAME).schema, _language_name, reads_absent=True),
        "its name on the screen; without it, its own name",
    ]


def _languages(fields: DocumentFields, name: str) -> tuple[LanguageOption, ...]:
    raw_options = fields.items(name) or [{"language": each} for each in fields.reading.languages]
    return tuple(
        kinds.read_object(LanguageOption, fields.within(raw, f"{name}.{number}"))
        for number, raw in enumerate(raw_options, start=1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageNode:
    """A choice of the language, which is remembered for the phone number."""

    name: str
    text: Annotated[LocalizedText | None, kinds.TEXT, "the text of the screen"] = None
    options: Annotated[
        tuple[LanguageOption, ...],
        kinds.Kind(kinds.array(kinds.object_schema(LanguageOption)), _languages, reads_absent=True),
        "the languages to choose from; without it, all of the menu",
    ]
    goto: Goto
    invalid: OnInvalid = Invalid()


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceNode:
    """No screen: reads a balance."""

    name: str
    of: AccountOf = kinds.MAIN_ACCOUNT
    var: Annotated[str, kinds.VARIABLE, "the variable that keeps the balance, in whole shillings"]
    goto: Goto
    on_error: OnError = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupNameNode:
    """No screen: asks the provider for the name of a subscriber."""

    name: str
    of: PhoneNumber
    var: Annotated[str, kinds.VARIABLE, "the variable that keeps the name"]
    goto: Goto
    on_error: OnError = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmsNode:
    """No screen: sends a message. The session goes on also where it cannot be sent."""

    name: str
    to: PhoneNumber
    text: Annotated[
        LocalizedText, kinds.TEXT, "the message, at most three parts long with every variable at its maximum"
    ]
    goto: Goto


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpNode:
    """No screen: calls your server, signed like a webhook."""

    name: str
    method: Annotated[
        str,
        kinds.one_of("GET", "POST", "PUT", "PATCH", "DELETE"),
        "`GET` (default), `POST`, `PUT`, `PATCH` or `DELETE`",
    ] = "GET"
    url: Annotated[Template, kinds.TEMPLATE, "the address on an allowed host; it may show variables"]
    headers: Annotated[tuple[tuple[str, Template], ...], kinds.HEADERS, "headers of the request"] = ()
    body: Annotated[Any, kinds.BODY, "a JSON body; its texts may show variables"] = None
    timeout_ms: Annotated[int, kinds.whole(100, MAX_TIMEOUT_MS), "100 to 2500 milliseconds, default 2000"] = 2000
    map: Annotated[
        tuple[tuple[str, str], ...], kinds.PATHS, "for each variable the path of its value in the JSON of the reply"
    ] = ()
    goto: Goto
    on_error: OnError = None
    on_timeout: Annotated[
        str | None, kinds.BRANCH, "the next node where the reply comes too late; without it, that of `on_error`"
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayNode:
    """No screen: creates a payment, once for each confirmation."""

    name: str
    kind: Annotated[
        str,
        kinds.one_of("collection", "disbursement", "transfer"),
        "`collection` (the subscriber pays), `disbursement` (is paid) or `transfer`",
    ]
    amount: Annotated[Expression, kinds.EXPRESSION, "an expression, in shillings"]
    phone_number: Annotated[Expression, kinds.EXPRESSION, "an expression: who pays or is paid"]
    to_phone_number: Annotated[Expression | None, kinds.RECEIVER, "of a transfer: an expression, who receives"]
    account: AccountOf = kinds.MAIN_ACCOUNT
    description: Annotated[
        Template | None,
        kinds.TEMPLATE,
        "what the payment is for, one text for all languages; it may show variables, and is cut at 200 characters",
    ] = None
    metadata: Annotated[
        tuple[tuple[str, Template], ...],
        kinds.METADATA,
        "up to ten names, each with a text that may show variables; cut at 200 characters each",
    ] = ()
    accepted: Annotated[str, kinds.BRANCH, "the node or last screen when the payment was created"]
    rejected: Annotated[str, kinds.BRANCH, "the node or last screen when it was refused"]
    on_error: Annotated[
        str | None,
        kinds.BRANCH,
        "the node or last screen when the amount is no whole number of shillings, or no one is named to pay; without "
        "it, that of `rejected`",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitNode:
    """Waits for the outcome of the session's last payment."""

    name: str
    text: Annotated[
        LocalizedText | None,
        kinds.TEXT,
        "the text of a screen before the wait, which begins when the subscriber goes on; without it, it begins at once",
    ] = None
    seconds: Annotated[
        int,
        kinds.whole(1, MAX_WAIT_SECONDS),
        "how long it waits: 1 to 20 seconds, in all waits between two screens together; 8 at most by a gateway",
    ]
    succeeded: Annotated[str, kinds.BRANCH, "the node or last screen when the payment succeeded"]
    failed: Annotated[str, kinds.BRANCH, "the node or last screen when it failed"]
    waiting: Annotated[str, kinds.BRANCH, "the node or last screen when there is no outcome yet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinNode:
    """The subscriber's own PIN with you: chosen, asked for or changed. It is never stored or shown."""

    name: str
    mode: Annotated[
        str,
        kinds.one_of("choose", "ask", "change"),
        "`choose` (a new one, typed twice), `ask` (goes on with the right one only) or `change` (the right one, then a "
        "new one twice)",
    ]
    text: Annotated[LocalizedText, kinds.TEXT, "the text of the first screen; the others have built-in texts"]
    goto: Goto
    tries: Annotated[int, kinds.whole(1, 10), "how many wrong PINs lock the number, 1 to 10, default 3"] = 3
    length: Annotated[int, kinds.whole(4, 6), "how many digits the PIN has, 4 to 6, default 4"] = 4
    locked: Annotated[
        str | None,
        kinds.BRANCH,
        "the node or last screen of a locked number, and in `choose` of one that has a PIN; `ask` and `change` need it",
    ] = None
    missing: Annotated[
        str | None,
        kinds.BRANCH,
        "of `ask` and `change`: the node or last screen of a number without a PIN; without it, the polite last screen",
    ] = None

    @property
    def stages(self) -> tuple[str, ...]:
        """What the screens of this node ask for: the `old` PIN, a `new` one, and the new one `again`."""
        return {"ask": ("old",), "choose": ("new", "again"), "change": ("old", "new", "again")}[self.mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverNode:
    """Your server writes the screens from here on."""

    name: str
    url: Annotated[str, kinds.STRING, "the address of your server on an allowed host"]
    protocol: Annotated[str, kinds.one_of("neutral", "africastalking"), "`neutral` (default) or `africastalking`"] = (
        "neutral"
    )
    on_error: OnError = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndNode:
    """The last screen."""

    name: str
    text: Annotated[LocalizedText, kinds.TEXT, "the text of the last screen"]


ActionNode = BalanceNode | LookupNameNode | HttpNode | PayNode | SmsNode | HandoverNode
ScreenNode = MenuNode | InputNode | PinNode | ConfirmNode | ListNode | TextNode | LanguageNode | WaitNode | EndNode
Node = ScreenNode | ActionNode | RouterNode | SetNode

NODES: dict[str, type[Node]] = {
    "menu": MenuNode,
    "input": InputNode,
    "pin": PinNode,
    "confirm": ConfirmNode,
    "list": ListNode,
    "text": TextNode,
    "router": RouterNode,
    "set": SetNode,
    "language": LanguageNode,
    "balance": BalanceNode,
    "lookup_name": LookupNameNode,
    "sms": SmsNode,
    "http": HttpNode,
    "pay": PayNode,
    "wait_for_payment": WaitNode,
    "handover": HandoverNode,
    "end": EndNode,
}


def has_screen(node: Node) -> TypeGuard[ScreenNode]:
    """Whether a node shows a screen: of those that wait, only one with a text."""
    return isinstance(node, ScreenNode) and not (isinstance(node, WaitNode) and node.text is None)


def kind_of(node: Node) -> str:
    """Return the type of a node, as in a document."""
    return next(name for name, kind in NODES.items() if kind is type(node))
