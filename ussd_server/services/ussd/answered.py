"""What a session has answered: how a step is compared with the steps before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ussd_server.services.ussd.messages import SessionStatus
from ussd_server.values import unchanging


@unchanging
class AnsweredTexts:
    """The texts that a session has answered, by the turns of its row: each stored as its length and HMAC, as PINs are.

    `digest` is the HMAC of this session; its key never changes during a session.
    """

    turns: Sequence[Mapping[str, Any]]
    digest: Callable[[str], str]

    def is_text(self, turn: int, text: str) -> bool:
        """Return whether a turn answered `text`."""
        stored = self.turns[turn]
        return bool(stored["length"] == len(text) and stored["digest"] == self.digest(text))

    def next_entry(self, text: str) -> str | None:
        """Return what a history adds to the last text; None unless it begins with that text and a `*`.

        The first entry follows an empty text without a star.
        """
        last = self.turns[-1]
        length: int = last["length"]
        goes_on = length < len(text) and (length == 0 or text[length] == "*")
        if not goes_on or last["digest"] != self.digest(text[:length]):
            return None
        return text[length:].removeprefix("*")


@unchanging
class AnsweredSteps:
    """What a session has answered when a step is received; `is_recent`: the last answer is less than two seconds old.

    `is_over`: the session has ended, or its time is up.
    """

    status: SessionStatus
    turn: int
    service_code: str
    is_over: bool
    is_recent: bool
    texts: AnsweredTexts
