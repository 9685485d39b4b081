"""Actions of a menu and their outcomes: the engine returns an action, and its caller executes it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from ussd_server.menus.document import nodes
from ussd_server.menus.document.expressions import Scope
from ussd_server.menus.document.templates import Template
from ussd_server.menus.text import drop_controls, transliterate
from ussd_server.values import PHONE_NUMBER

MAX_PAYMENT_SHILLINGS = 999_999
_LONGEST_ABOUT = 200


@dataclass(frozen=True, slots=True)
class PayAction:
    """Move money. `confirmation` names the visit to the confirm node: the same Yes always has the same name."""

    node: str
    kind: str  # collection, disbursement or transfer
    amount_cents: int  # 100 to 99_999_900
    phone_number: str
    to_phone_number: str | None  # transfer only
    account: str  # `main` or a phone number
    confirmation: str
    description: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class BalanceAction:
    """Read the available balance of `account`: `main` or a subscriber's phone number."""

    node: str
    account: str


@dataclass(frozen=True, slots=True)
class LookupNameAction:
    """Look up the name of a subscriber."""

    node: str
    phone_number: str


@dataclass(frozen=True, slots=True)
class HttpAction:
    """Call the client's own server. Fields that may contain a secret entry are left out of `repr`."""

    node: str
    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: Any = field(repr=False)  # JSON, or None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class SmsAction:
    """Send a message, once for each step."""

    node: str
    phone_number: str
    text: str


@dataclass(frozen=True, slots=True)
class HandoverAction:
    """Let the client's own server reply to this step. The entries may be secret and are left out of `repr`.

    `entry` is the present entry, empty at first; `text` is all entries since the handover, joined by `*`.
    """

    node: str
    url: str
    protocol: str  # neutral or africastalking
    entry: str = field(repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WaitAction:
    """Wait for the outcome of the session's last payment, at most `seconds`."""

    node: str
    seconds: int


@dataclass(frozen=True, slots=True)
class PinAction:
    """Look at the subscriber's PIN (`look`), check one (`old`) or keep a new one (`new`); `mode` is the node's."""

    node: str
    act: str
    mode: str
    tries: int
    pin: str = field(default="", repr=False)


MenuAction = (
    PayAction | BalanceAction | LookupNameAction | SmsAction | HttpAction | HandoverAction | PinAction | WaitAction
)


@dataclass(frozen=True, slots=True)
class Paid:
    """The payment was created (`accepted`), or refused before anything was stored."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class PaymentSeen:
    """What became of a payment: `succeeded`, `failed`, or `waiting` while there is no outcome."""

    word: str


@dataclass(frozen=True, slots=True)
class BalanceFound:
    """The available balance; a menu sees whole shillings, rounded down."""

    available_cents: int


@dataclass(frozen=True, slots=True)
class NameFound:
    name: str


@dataclass(frozen=True, slots=True)
class SmsQueued:
    """The message was queued, or left out where none are sent."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The client's server replied with JSON."""

    data: Any


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The client's server returned a screen; `ends` closes the session."""

    text: str
    ends: bool


class PinVerdict(StrEnum):
    """The state of a PIN: it may be typed, it is right or kept, it is wrong, the number is locked or has none."""

    OPEN = "open"
    RIGHT = "right"
    WRONG = "wrong"
    LOCKED = "locked"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class PinChecked:
    """The result of a PIN entry; `left` counts the tries that are left after a wrong one."""

    verdict: PinVerdict
    left: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The action failed or returned no usable reply."""

    timed_out: bool = False


ActionOutcome = Paid | PaymentSeen | BalanceFound | NameFound | SmsQueued | Answered | HandedOver | PinChecked | Failed


def action_of(node: nodes.ActionNode, scope: Scope, language: str, confirmation: str | None) -> MenuAction | None:
    """Return the action of a node, or None when its values are not valid. A payment needs a `confirmation`."""
    match node:
        case nodes.PayNode():
            return _payment(node, scope, confirmation)
        case nodes.BalanceNode():
            account = _account(node.of.value(scope))
            return BalanceAction(node.name, account) if account else None
        case nodes.LookupNameNode():
            number = _phone_number(node.of.value(scope))
            return LookupNameAction(node.name, number) if number else None
        case nodes.SmsNode():
            number, text = _phone_number(node.to.value(scope)), node.text.in_language(language).phone_text(scope)
            return SmsAction(node.name, number, transliterate(text)) if number and text.strip() else None
        case nodes.HttpNode():
            headers = tuple((name, value.filled(scope)) for name, value in node.headers)
            url = node.url.filled(scope, lambda value: quote(value, safe=""))
            return HttpAction(node.name, node.method, url, headers, _body(node.body, scope), node.timeout_ms)
    return handover_action(node, ())


def _payment(node: nodes.PayNode, scope: Scope, confirmation: str | None) -> PayAction | None:
    amount = node.amount.value(scope)
    phone_number = _phone_number(node.phone_number.value(scope))
    to_phone_number = _phone_number(node.to_phone_number.value(scope)) if node.to_phone_number else None
    account = _account(node.account.value(scope))
    whole = isinstance(amount, int) and not isinstance(amount, bool) and 0 < amount <= MAX_PAYMENT_SHILLINGS
    if not (whole and phone_number and account and confirmation):
        return None
    if node.to_phone_number and not to_phone_number:
        return None
    return PayAction(
        node.name,
        node.kind,
        amount * 100,
        phone_number,
        to_phone_number,
        account,
        confirmation,
        (_one_line(node.description.written(scope)) or None) if node.description else None,
        {name: _one_line(template.filled(scope)) for name, template in node.metadata} or None,
    )


def _one_line(text: str) -> str:
    """Return a text about a payment in one line of at most 200 characters, all of which can be printed."""
    return " ".join(drop_controls(text).split())[:_LONGEST_ABOUT].rstrip()


def _account(value: Any) -> str | None:
    return "main" if value == "main" else _phone_number(value)


def _phone_number(value: Any) -> str | None:
    return value if isinstance(value, str) and PHONE_NUMBER.fullmatch(value) else None


def _body(body: Any, scope: Scope) -> Any:
    match body:
        case Template():
            return body.raw(scope)
        case dict():
            return {key: _body(value, scope) for key, value in body.items()}
        case list():
            return [_body(value, scope) for value in body]
    return body


def failure_target(node: nodes.ActionNode, *, timed_out: bool = False) -> str | None:
    """Return the next node after a failed action; None when the menu has none."""
    if isinstance(node, nodes.PayNode):
        return node.on_error or node.rejected
    if isinstance(node, nodes.SmsNode):
        return node.goto
    if isinstance(node, nodes.HttpNode) and timed_out and node.on_timeout is not None:
        return node.on_timeout
    return node.on_error


def handover_action(node: nodes.HandoverNode, entries: tuple[str, ...]) -> HandoverAction:
    """Return the action for one step of a handover, with all entries since it began."""
    return HandoverAction(node.name, node.url, node.protocol, entries[-1] if entries else "", "*".join(entries))
