"""Actions of a menu and their outcomes: the engine returns an action, and its caller executes it once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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


MenuAction = PayAction | BalanceAction | LookupNameAction | SmsAction | HttpAction | HandoverAction


@dataclass(frozen=True, slots=True)
class Paid:
    """The payment was created (`accepted`), or refused before anything was stored."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class BalanceFound:
    """The available balance; a menu sees whole shillings, rounded down."""

    available_cents: int


@dataclass(frozen=True, slots=True)
class NameFound:
    """The name of a subscriber."""

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


@dataclass(frozen=True, slots=True)
class Failed:
    """The action failed or returned no usable reply."""

    timed_out: bool = False


ActionOutcome = Paid | BalanceFound | NameFound | SmsQueued | Answered | HandedOver | Failed
