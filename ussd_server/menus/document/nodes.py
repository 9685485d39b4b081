"""The node types of a menu."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ussd_server.menus.document.expressions import Expression, Name
from ussd_server.menus.document.templates import Template

Assignments = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class LocalizedText:
    """A text in several languages; a missing language gets the default language."""

    by_language: Mapping[str, Template]
    default_language: str

    def in_language(self, language: str) -> Template:
        """Return the text in `language`, or in the default language."""
        return self.by_language.get(language) or self.by_language.get(self.default_language) or _EMPTY

    @property
    def names(self) -> frozenset[Name]:
        """The variables that the text shows in any language."""
        return frozenset().union(*(template.names for template in self.by_language.values()))


_EMPTY = Template("", ())


@dataclass(frozen=True, slots=True)
class Invalid:
    """The reaction to an invalid entry: a notice, and after `max` invalid entries the node `goto`."""

    text: LocalizedText | None = None
    max: int = 3
    goto: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation rule of an input; the fields that are set depend on `rule`."""

    rule: str
    min: int | None = None
    max: int | None = None
    pattern: re.Pattern[str] | None = None
    values: tuple[str, ...] = ()
    expression: Expression | None = None
    error: LocalizedText | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a menu: shown if `when` holds; choosing it changes the variables in `set`."""

    key: str
    label: LocalizedText
    goto: str
    when: Expression | None = None
    set: Assignments = ()


@dataclass(frozen=True, slots=True)
class MenuNode:
    """A text and options to choose from."""

    name: str
    text: LocalizedText
    options: tuple[Option, ...]
    invalid: Invalid = Invalid()


@dataclass(frozen=True, slots=True)
class InputNode:
    """A question whose entry is validated and stored in a variable; a secret entry is never stored."""

    name: str
    text: LocalizedText
    var: str
    goto: str
    validate: tuple[Rule, ...] = ()
    secret: bool = False
    invalid: Invalid = Invalid()


@dataclass(frozen=True, slots=True)
class ConfirmNode:
    """A question with the options yes and no; every payment needs one before it."""

    name: str
    text: LocalizedText
    yes: str
    no: str
    invalid: Invalid = Invalid()


@dataclass(frozen=True, slots=True)
class ListNode:
    """Items to choose from, one line each; the one node whose content may fill several screens."""

    name: str
    text: LocalizedText
    items: Expression
    label: LocalizedText
    goto: str
    value: Expression | None = None
    var: str | None = None
    empty: str | None = None
    invalid: Invalid = Invalid()


@dataclass(frozen=True, slots=True)
class TextNode:
    """A long text, shown in pages cut at word boundaries."""

    name: str
    text: LocalizedText
    goto: str


@dataclass(frozen=True, slots=True)
class LanguageNode:
    """A choice of language, remembered for the phone number."""

    name: str
    text: LocalizedText | None
    options: tuple[tuple[str, str, str], ...]  # key, language, label
    goto: str
    invalid: Invalid = Invalid()


@dataclass(frozen=True, slots=True)
class EndNode:
    """The last screen."""

    name: str
    text: LocalizedText


@dataclass(frozen=True, slots=True)
class RouterNode:
    """Goes to the first case whose condition holds, without a screen."""

    name: str
    cases: tuple[tuple[Expression, str], ...]
    otherwise: str


@dataclass(frozen=True, slots=True)
class SetNode:
    """Changes variables, without a screen."""

    name: str
    values: Assignments
    goto: str


@dataclass(frozen=True, slots=True)
class BalanceNode:
    """Reads the balance of `main` or of a subscriber's account, in whole shillings."""

    name: str
    of: Expression
    var: str
    goto: str
    on_error: str | None = None


@dataclass(frozen=True, slots=True)
class LookupNameNode:
    """Looks up the name of a subscriber."""

    name: str
    of: Expression
    var: str
    goto: str
    on_error: str | None = None


@dataclass(frozen=True, slots=True)
class HttpNode:
    """Calls the client's own server."""

    name: str
    method: str
    url: Template
    goto: str
    headers: tuple[tuple[str, Template], ...] = ()
    body: Any = None  # JSON whose texts are templates
    timeout_ms: int = 2000
    map: tuple[tuple[str, str], ...] = ()  # variable, dotted path into the response
    on_error: str | None = None
    on_timeout: str | None = None


@dataclass(frozen=True, slots=True)
class PayNode:
    """Moves money, once for each confirmation."""

    name: str
    kind: str  # collection, disbursement or transfer
    amount: Expression  # whole shillings
    phone_number: Expression
    accepted: str
    rejected: str
    to_phone_number: Expression | None = None  # transfer only
    account: Expression | None = None  # `main` when absent


@dataclass(frozen=True, slots=True)
class SmsNode:
    """Sends a message, without a screen; the session goes on whatever becomes of it."""

    name: str
    to: Expression
    text: LocalizedText
    goto: str


@dataclass(frozen=True, slots=True)
class HandoverNode:
    """Lets the client's own server continue the session."""

    name: str
    url: str
    protocol: str = "neutral"
    on_error: str | None = None


ActionNode = BalanceNode | LookupNameNode | HttpNode | PayNode | SmsNode | HandoverNode
ScreenNode = MenuNode | InputNode | ConfirmNode | ListNode | TextNode | LanguageNode | EndNode
Node = ScreenNode | ActionNode | RouterNode | SetNode
