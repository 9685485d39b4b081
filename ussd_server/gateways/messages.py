"""Steps, screens and reports of gateways, the same for every gateway."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ussd_server.values import unchanging


@dataclass(frozen=True, slots=True)
class HandsetCall:
    """A call as the phone knows it, up to its newest entry.

    `session_id` is the gateway's name for the session. `dialled` are the entries dialled after the code, joined by `*`;
    `entries` were typed since. `language` is stored as the subscriber's choice when the call begins; None changes
    nothing.
    """

    session_id: str
    phone_number: str
    service_code: str
    network: str = ""
    language: str | None = None
    dialled: str = field(default="", repr=False)
    entries: tuple[str, ...] = field(default=(), repr=False)

    @property
    def digits(self) -> str:
        """The phone number without its plus sign."""
        return self.phone_number.removeprefix("+")

    @property
    def string(self) -> str:
        """The whole dialled string: the code with the entries that were dialled with it."""
        return f"{self.service_code.removesuffix('#')}*{self.dialled}#" if self.dialled else self.service_code

    @property
    def history(self) -> str:
        """All entries, those that were dialled with the code included."""
        return "*".join([self.dialled, *self.entries] if self.dialled else self.entries)

    def newest(self, first: str) -> str:
        """Return the newest entry; `first` before there is one."""
        return self.entries[-1] if self.entries else first


class StepKind(StrEnum):
    """The kind of a gateway's request; the last three mean that the session is over."""

    BEGIN = "begin"
    INPUT = "input"
    END = "end"
    ABORT = "abort"
    TIMEOUT = "timeout"


@unchanging
class UssdStep:
    """A step of a gateway, normalised.

    `provider_session_id` is 1 to 128 printable ASCII characters. `phone_number` is +256 and nine digits.
    `service_code` has its star and hash (`*384*123#`). It counts only at the beginning of a session, because later
    steps may have less of it, and is empty when the gateway does not send it. `network` is the network's number
    (`64110`) where it is known, else the gateway's name for it or empty.

    `text` is at most 1,000 printable characters: the whole history joined with `*` when `cumulative`, else this entry
    alone; at a BEGIN that is not cumulative, the text dialled after the service code (`2*5000`). It may hold a PIN, so
    no printed form shows it. `sequence` counts the steps of the session where the gateway numbers them. Gateways that
    do not mark a first step set `opening_text`: it replaces `text` when the session is new.

    `begins_anew`: the gateway uses the same session ids again, so that a BEGIN repeats the first step only where it has
    the same code and text and arrives within two seconds. `may_repeat`: it equals a step whose screen may not have
    arrived yet, so that it repeats the session's last step where that has the same text. `echo` is what the gateway
    wants to have repeated in the reply.
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
    begins_anew: bool = False
    may_repeat: bool = False
    echo: str = field(default="", repr=False)


class SessionOutcome(StrEnum):
    """How a session ended, as the gateway reports it."""

    COMPLETED = "completed"
    ABANDONED = "abandoned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """A gateway's report on an ended session, without anything that the subscriber typed.

    ABANDONED: the subscriber hung up or did not answer a screen. FAILED: the gateway did not accept our reply.
    """

    provider_session_id: str
    phone_number: str
    outcome: SessionOutcome


class Action(StrEnum):
    """Whether the subscriber may answer the screen."""

    CONTINUE = "continue"
    END = "end"


@unchanging
class GatewayScreen:
    action: Action
    text: str


@unchanging
class GatewayRequest:
    """A gateway's HTTP request, not parsed yet."""

    method: str
    query_string: bytes = field(default=b"", repr=False)
    body: bytes = field(default=b"", repr=False)
    address: str = ""
    """The gateway's IP address; empty when it is not known."""


@unchanging
class GatewayReply:
    """The HTTP reply to a gateway. The status is always 200, because gateways drop the call on any other."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@unchanging
class ChannelOptions:
    """The operator's settings of a channel.

    `codes` are its service codes (`*384*123#`), which split a dialled text into code and entries. `cumulative`
    overrides what the gateway documents: False where it sends one entry a step after all.
    """

    codes: tuple[str, ...] = ()
    cumulative: bool | None = None


AS_DOCUMENTED = ChannelOptions()


class UnreadableError(Exception):
    """A malformed request. The message names the field and the fault, never a value, which may hold a PIN."""


class Gateway(ABC):
    """The adapter of a gateway, and the gateway's own side for the phone in the console.

    `sends_events`: an ended call is reported to the channel's events path. A path may also have one of `other_names`.
    `answer_seconds` is how long it waits for a screen: Africa's Talking documents ten, the others nothing.
    """

    name: str
    other_names: tuple[str, ...] = ()
    sends_events = False
    answer_seconds = 10.0

    @abstractmethod
    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse a request. Raises UnreadableError without a session or a Ugandan number, or beyond a bound."""

    @abstractmethod
    def write(self, screen: GatewayScreen, step: UssdStep | None, /) -> GatewayReply:
        """Write the reply to a step; to a request that could not be parsed when `step` is None.

        The reply to the end of a session is an END screen without text.
        """

    def read_event(self, request: GatewayRequest) -> SessionEnd:
        """Parse a report on an ended session; raises UnreadableError as `read` does. The reply is an empty 200."""
        raise UnreadableError(f"{self.name} reports no ended sessions")

    @abstractmethod
    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        """Write the request of the newest entry, or of the dialled code. `cumulative` is the channel's option."""

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        """Write the report that the subscriber hung up; None where the gateway sends none."""
        return None

    @abstractmethod
    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        """Read a reply to a step."""
