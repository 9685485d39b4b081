"""One step of a phone conversation, the same for every phone company."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class StepKind(StrEnum):
    """What a phone company tells us with one call; the last three are notices that the session is over."""

    BEGIN = "begin"
    INPUT = "input"
    END = "end"
    ABORT = "abort"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class UssdStep:
    """A step as a gateway reports it, normalised.

    `provider_session_id` is 1 to 128 printable ASCII characters. `phone_number` is +256 and nine digits.
    `service_code` has its star and hash (`*384*123#`); it counts at the beginning of a session only, because later
    steps may name less, and it is empty when a rude gateway leaves it out. `network` is the network's number (`64110`)
    where it is known, else the company's own word for it or empty.

    `text` is at most 1,000 printable characters: the whole history joined with `*` when `cumulative`, else this entry
    alone; at BEGIN of a company that is not cumulative, what was dialled after the service code (`2*5000`). It may hold
    a PIN and is therefore kept out of every printed form. `sequence` counts the steps of the session where the company
    sends such a number. `opening_text` is set only by companies that do not tell a first step from a later one: it is
    what takes the place of `text` when the session turns out to be new.
    """

    provider_session_id: str
    phone_number: str
    service_code: str
    network: str
    kind: StepKind
    text: str = field(repr=False)
    cumulative: bool
    sequence: int | None = None
    opening_text: str | None = field(default=None, repr=False)


class SessionOutcome(StrEnum):
    """How a session went, in the eyes of the phone company."""

    COMPLETED = "completed"
    ABANDONED = "abandoned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """What a phone company says about a session after it ended. Nothing that the person typed is in it.

    ABANDONED: the person hung up or fell silent while an entry was awaited. FAILED: the company did not accept our
    answer. `ended_at` is UTC. `word` is the company's reason, at most 80 printable characters, without long numbers.
    """

    provider_session_id: str
    phone_number: str
    service_code: str
    network: str
    outcome: SessionOutcome
    ended_at: datetime | None
    duration_ms: int | None
    steps: int | None
    word: str


class Action(StrEnum):
    """Whether the phone may answer the screen."""

    CONTINUE = "continue"
    END = "end"


@dataclass(frozen=True, slots=True)
class GatewayScreen:
    """What the phone shows next."""

    action: Action
    text: str


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """A foreign HTTP request, still raw: only the adapter knows which part of it means something."""

    method: str
    query_string: bytes = field(default=b"", repr=False)
    body: bytes = field(default=b"", repr=False)
    address: str = ""
    """The caller's network address; empty when it is not known."""


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """A foreign HTTP answer; the status is always 200, because phone companies drop the call on anything else."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """What the operator says about one channel.

    `codes` are the service codes it carries (`*384*123#`); they part what was dialled into code and entries.
    `cumulative` overrules what the company documents: False where it sends one entry a step after all.
    """

    codes: tuple[str, ...] = ()
    cumulative: bool | None = None


AS_DOCUMENTED = ChannelOptions()


class UnreadableError(Exception):
    """A request that cannot be a step. The message names the field and the fault, never a value: values hold PINs."""


class Gateway(Protocol):
    """A phone company that carries conversations to us."""

    name: str

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse a request. Raises UnreadableError without a session or a Ugandan number, or beyond a bound."""
        ...

    def write(self, screen: GatewayScreen, step: UssdStep, /) -> GatewayReply:
        """Answer a step. A notice that a session is over is answered with an END screen without text."""
        ...

    def write_error(self, text: str) -> GatewayReply:
        """A last screen for a call that could not be read."""
        ...


class EventGateway(Protocol):
    """A phone company that reports on each session after it ended."""

    def read_event(self, request: GatewayRequest) -> SessionEnd:
        """Understand such a report; raises UnreadableError as `Gateway.read` does. The answer is an empty 200."""
        ...
