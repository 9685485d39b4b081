"""Every row of the table of turns: a repeated step has no effect."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from ussd_server.services.ussd.answered import AnsweredTexts
from ussd_server.services.ussd.steps import (
    Arrival,
    Entry,
    OutOfSequence,
    Repeat,
    Restart,
    classify_number,
    classify_text,
)


def digest(text: str) -> str:
    """A keyed hash as the service would use."""
    return hmac.new(b"key of this installation", text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("answered", "arriving", "arrival"),
    [
        # the session of `1*5`
        (["", "1", "1*5"], "1*5", Repeat(2)),
        (["", "1", "1*5"], "1*5*077", Entry("077")),
        (["", "1", "1*5"], "1*5*a*b", Entry("a*b")),
        (["", "1", "1*5"], "1*5*", Entry("")),
        (["", "1", "1*5"], "1*5**", Entry("*")),
        (["", "1", "1*5"], "1", Repeat(1)),
        (["", "1", "1*5"], "", Repeat(0)),
        (["", "1", "1*5"], "2", Restart()),
        (["", "1", "1*5"], "1*55", Restart()),
        (["", "1", "1*5"], "1*6", Restart()),
        (["", "1", "1*5"], "1*", Restart()),
        # the first entry follows an empty text without a star
        ([""], "", Repeat(0)),
        ([""], "1", Entry("1")),
        ([""], "1*2", Entry("1*2")),
        ([""], "*1", Entry("1")),
        (["", "*1"], "*1*5", Entry("5")),
        # a session that began by fast-forward was never asked the earlier texts
        (["1*5"], "1", Restart()),
        (["1*5"], "", Restart()),
        (["1*5"], "1*5*1", Entry("1")),
        # an empty entry, and what follows it
        (["", "1", "1*", "1**2"], "1*", Repeat(2)),
        (["", "1", "1*"], "1**2", Entry("2")),
    ],
)
def test_a_growing_history_classifies_a_step(answered: list[str], arriving: str, arrival: Arrival) -> None:
    turns = [{"length": len(text), "digest": digest(text)} for text in answered]
    assert classify_text(AnsweredTexts(turns, digest), arriving) == arrival


@pytest.mark.parametrize(
    ("last", "number", "arrival"),
    [
        (3, 3, Repeat(-1)),
        (3, 4, Entry("5000")),
        (3, 5, OutOfSequence()),
        (3, 2, OutOfSequence()),
        (3, 0, OutOfSequence()),
    ],
)
def test_a_step_number_classifies_a_step(last: int, number: int, arrival: Arrival) -> None:
    assert classify_number(last, number, "5000") == arrival
