"""The state of a session, how it is stored, which providers take payments, and what an entry is to a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.engine.actions import MenuAction
from ussd_server.menus.text import Screen
from ussd_server.providers.names import PROVIDER_NAMES

_takes_payments: Callable[[str], bool] = lambda _: True  # noqa: E731 - replaced as a whole


def use_provider_states(takes_payments: Callable[[str], bool]) -> None:
    """Ask `takes_payments` for the state of a provider from now on. It answers from memory.

    Until then, and in tools without a service, every provider takes payments.
    """
    global _takes_payments
    _takes_payments = takes_payments


class ProviderStates(Mapping[str, bool]):
    """`mtn.available` and the like. A state is asked for when an expression reads it, not at every step."""

    def __getitem__(self, name: str) -> bool:
        provider, _, fact = name.partition(".")
        if fact != "available" or provider not in PROVIDER_NAMES:
            raise KeyError(name)
        return _takes_payments(provider)

    def __iter__(self) -> Iterator[str]:
        return (f"{provider}.available" for provider in PROVIDER_NAMES)

    def __len__(self) -> int:
        return len(PROVIDER_NAMES)


PROVIDER_STATES = ProviderStates()


MASK = "****"


@dataclass(frozen=True, slots=True)
class State:
    """The state of a session between two steps.

    `confirmation` names the visit to a confirm node that the session is at or has just confirmed; otherwise None.
    `secrets` (secret entries) and `ahead` (remaining entries of a fast-forward) last for one step and are never stored.
    """

    facts: SessionFacts
    node: str
    language: str
    page: int = 0
    back: tuple[tuple[str, int], ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    confirm_visits: int = 0
    confirmation: str | None = None
    interlude: str | None = None  # "resume" or "payment": a built-in screen before the node
    handover_entries: tuple[str, ...] | None = None
    hops: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    ahead: tuple[str, ...] | None = field(default=None, repr=False)

    def scope(self) -> dict[str, Any]:
        """Return the values that expressions and texts may read."""
        return {
            "vars": {**self.variables, **self.secrets},
            "session": self.facts.as_scope(),
            "provider": PROVIDER_STATES,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values, without secrets."""
        stored = {name: getattr(self, name) for name in _STORED}
        return {
            **stored,
            "facts": self.facts.as_scope(),
            "back": [list(place) for place in self.back],
            "variables": dict(self.variables),
            "handover_entries": None if self.handover_entries is None else list(self.handover_entries),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> State:
        """Read a state that `to_dict` returned."""
        entries = stored["handover_entries"]
        return cls(
            **{name: stored[name] for name in _STORED},
            facts=SessionFacts(**stored["facts"]),
            back=tuple((node, page) for node, page in stored["back"]),
            variables=dict(stored["variables"]),
            handover_entries=None if entries is None else tuple(entries),
        )


_STORED = ("node", "language", "page", "attempts", "confirm_visits", "confirmation", "interlude", "hops")


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one step: the new state, and a screen or an action. After the action, call `resume`.

    `language_chosen` is to be stored for the phone number. `entry_shown` is the entry for the transcript, masked when
    `is_secret`.
    """

    state: State
    screen: Screen | None = None
    action: MenuAction | None = None
    language_chosen: str | None = None
    entry_shown: str = ""
    is_secret: bool = False


Digest = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class AnsweredText:
    """A processed text, stored as its length and a keyed hash, so that no PIN is stored."""

    length: int
    digest: str

    @classmethod
    def of(cls, text: str, digest: Digest) -> AnsweredText:
        """Return the stored form of `text`; `digest` is a keyed hash whose key never changes during a session."""
        return cls(len(text), digest(text))

    def equals(self, text: str, digest: Digest) -> bool:
        """Return whether this is `text`."""
        return self.length == len(text) and self.digest == digest(text)

    def begins(self, text: str, digest: Digest) -> bool:
        """Return whether `text` begins with this text and is longer."""
        return self.length < len(text) and self.digest == digest(text[: self.length])


@dataclass(frozen=True, slots=True)
class Start:
    """A new session; `entries` were dialled with the code and are for fast-forward."""

    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A new entry."""

    text: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat of the step `turn` (0 is the first): the same reply, and no effect."""

    turn: int


@dataclass(frozen=True, slots=True)
class Restart:
    """A text that does not continue the session: log it, and begin a new session."""


@dataclass(frozen=True, slots=True)
class OutOfSequence:
    """A step number that is neither the last one nor the next: refuse it."""


Arrival = Start | Entry | Repeat | Restart
NumberedArrival = Start | Entry | Repeat | OutOfSequence


def classify_text(answered: Sequence[AnsweredText], text: str, digest: Digest) -> Arrival:
    """Classify a step on a channel that sends the whole history at every step, joined by `*`.

    `answered` are the processed texts of the session, oldest first; empty when there is no session. Everything after
    the last text and a `*` is one entry, even if it contains a star. A leading star, which some gateways send, is
    ignored.
    """
    if not answered:
        return Start(tuple(text.removeprefix("*").split("*")) if text.strip("*") else ())
    last = answered[-1]
    if last.equals(text, digest):
        return Repeat(len(answered) - 1)
    if last.begins(text, digest):
        rest = text[last.length :]
        if rest.startswith("*"):
            return Entry(rest[1:])
        if last.length == 0:
            return Entry(rest)
    for turn in range(len(answered) - 2, -1, -1):
        if answered[turn].equals(text, digest):
            return Repeat(turn)
    return Restart()


def classify_number(last: int | None, number: int, text: str) -> NumberedArrival:
    """Classify a step on a channel that numbers its steps and sends one entry in each.

    `last` is the number of the last processed step, or None when there is no session. A repeat is always of that step:
    its `turn` is -1.
    """
    if last is None:
        return Start()
    if number == last:
        return Repeat(-1)
    return Entry(text) if number == last + 1 else OutOfSequence()
