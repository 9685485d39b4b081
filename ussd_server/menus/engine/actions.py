"""What a menu asks the world to do, and what the world answers: the engine names a deed, its caller does it once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PayAction:
    """Move money. `confirmation` is the name of the place: the same press of Yes always gives the same name."""

    node: str
    kind: str  # collection, disbursement or transfer
    amount_cents: int  # 100 to 99_999_900
    phone_number: str
    to_phone_number: str | None  # transfer only
    account: str  # `main` or a phone number
    confirmation: str


@dataclass(frozen=True, slots=True)
class BalanceAction:
    """Ask what is available in `account`: `main` or a subscriber's phone number."""

    node: str
    account: str


@dataclass(frozen=True, slots=True)
class LookupNameAction:
    """Ask for the name behind a phone number."""

    node: str
    phone_number: str


@dataclass(frozen=True, slots=True)
class HttpAction:
    """Call the client's own server; what may hold a secret entry does not show when a deed is printed."""

    node: str
    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: Any = field(repr=False)  # JSON, or None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class HandoverAction:
    """Let the client's own server answer this step; the entries may be secret and do not show when it is printed.

    `entry` is what was typed now, empty at first; `text` is all that was typed since the handover, joined by `*`.
    """

    node: str
    url: str
    protocol: str  # neutral or africastalking
    entry: str = field(repr=False)
    text: str = field(repr=False)


MenuAction = PayAction | BalanceAction | LookupNameAction | HttpAction | HandoverAction


@dataclass(frozen=True, slots=True)
class Paid:
    """The payment was recorded (`accepted`), or refused before anything was recorded."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class BalanceFound:
    """The available balance; a menu sees whole shillings, rounded down."""

    available_cents: int


@dataclass(frozen=True, slots=True)
class NameFound:
    """The name behind a phone number."""

    name: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The client's server answered with JSON."""

    data: Any


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The client's server gave a screen, and says whether the session ends with it."""

    text: str
    ends: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The deed brought no usable answer."""

    timed_out: bool = False


ActionOutcome = Paid | BalanceFound | NameFound | Answered | HandedOver | Failed
