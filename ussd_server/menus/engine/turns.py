"""What an arriving step is: a start, a new entry, or a repeat that must repeat nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Digest = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class AnsweredText:
    """A text that was answered, kept as its length and a keyed hash, so that no PIN is kept."""

    length: int
    digest: str

    @classmethod
    def of(cls, text: str, digest: Digest) -> AnsweredText:
        """Return what is to be stored of `text`; `digest` is a keyed hash whose key never changes during a session."""
        return cls(len(text), digest(text))

    def equals(self, text: str, digest: Digest) -> bool:
        """Return whether this is `text`."""
        return self.length == len(text) and self.digest == digest(text)

    def begins(self, text: str, digest: Digest) -> bool:
        """Return whether `text` goes on where this one stopped."""
        return self.length < len(text) and self.digest == digest(text[: self.length])


@dataclass(frozen=True, slots=True)
class Start:
    """A new session; `entries` came along and are for fast-forward."""

    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """Something new was typed."""

    text: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """The step `turn` (0 is the first answered one) came again: the same bytes, and no effect."""

    turn: int
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A text that fits nothing: to be logged, and a new session from the start."""


@dataclass(frozen=True, slots=True)
class OutOfSequence:
    """A number that is neither the last one nor the next: to be refused."""


Arrival = Start | Entry | Repeat | Restart
NumberedArrival = Start | Entry | Repeat | OutOfSequence


def classify_text(answered: Sequence[AnsweredText], text: str, digest: Digest) -> Arrival:
    """Return what a step is on a channel that sends the whole history at every step, joined by `*`.

    `answered` are the texts of the session's answered steps, oldest first; empty when there is no session. What lies
    behind the last text and a `*` is one entry, also when it holds a star itself. A leading star, which some companies
    send, belongs to no entry.
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
            return Repeat(turn, is_late=True)
    return Restart()


def classify_number(last: int | None, number: int, text: str) -> NumberedArrival:
    """Return what a step is on a channel that numbers its steps and sends one entry each.

    `last` is the number of the last answered step, or None when there is no session. A repeat is always of the last
    answered step, whose index is the caller's to know: it is given as -1.
    """
    if last is None:
        return Start()
    if number == last:
        return Repeat(-1)
    return Entry(text) if number == last + 1 else OutOfSequence()
