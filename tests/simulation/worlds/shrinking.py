"""The shortest plan with a violation: the fewest incidents of a plan that still lead to it, in words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.world import Outcome

_MOST_LINES = 60
_SENTENCES = {
    "invoked": "client {client} asks for the {kind} {name} of {cents} to {phone} (call {call})",
    "answered": "call {call} is answered: {status} {refused} {id}",
    "unknown": "call {call} gets no answer",
    "called": "the program sends an {kind} about {phone} to the provider, which is {mood}",
    "taken": "the provider takes {cents} of {phone}; it will be a {fate}",
    "decided": "the operators book receipt {receipt} under {code}",
    "fault": "{kind} of {process} in {step}, {moment}",
    "lost": "the database goes back to second {since}",
    "jump": "the database's clock jumps by {seconds} seconds",
    "mistake": "the program fails: {error}",
    "received": "the receiver gets {type} of {object}",
}


def shrunk(plan: list[Incident], fails: Callable[[list[Incident]], Outcome | None]) -> Outcome:
    """Leave out incidents, first many and then single ones, as long as the violation stays; return the last history."""
    best = fails(plan)
    assert best is not None, "the same plan gives the same history"
    size = len(plan) // 2
    while size:
        start = 0
        while start < len(plan):
            tried = plan[:start] + plan[start + size :]
            if (outcome := fails(tried)) is not None:
                plan, best = tried, outcome
            else:
                start += size
        size //= 2
    return best


def in_words(outcome: Outcome) -> list[str]:
    """The history in words, one sentence a line."""
    sentences = (
        f"{line['at']:>12.3f}  {_SENTENCES[line['what']].format_map(_Given(line))}"
        for line in outcome.history
        if line["what"] in _SENTENCES
    )
    return list(islice(sentences, _MOST_LINES))


class _Given(dict[str, Any]):
    """Values of a line; what it does not have is left out of the sentence."""

    def __missing__(self, key: str) -> str:
        return ""
