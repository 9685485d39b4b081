"""Classifies a step: a start, a new entry, or a repeat, which must have no effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
