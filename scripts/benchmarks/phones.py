"""Phones that dial, make a few choices at random, and end; every time under a new name and another number."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from benchmarks.generator import Call
from benchmarks.requests import form_post

_CHOICES_OF_A_CALL = 3
_FINISH = 9
_names = itertools.count(random.randrange(10**9) * 1000)


def conversations(paths: Sequence[str], code: str, connections: int, most: int) -> list[list[Call]]:
    """For each connection one phone after the other, `most` steps over all connections and as many again to spare."""
    each = 2 * most // connections
    phones = itertools.islice(itertools.cycle(paths), connections)
    return [list(itertools.islice(_steps(path, code), each)) for path in phones]


def conversation(path: str, code: str, choices: Sequence[int]) -> Iterator[Call]:
    """The steps of one call: the dialling, the choices (1 to 8), and the end."""
    name = next(_names)
    text = ""
    for choice in (None, *choices, _FINISH):
        if choice is not None:
            text = f"{text}*{choice}".lstrip("*")
        form = (
            f"sessionId=ATUid_{name}&phoneNumber=%2B2567{name % 10**8:08}&networkCode=64110"
            f"&serviceCode={code.replace('*', '%2A').replace('#', '%23')}&text={text.replace('*', '%2A')}"
        )
        yield form_post(path, form, b"END Thank you" if choice == _FINISH else b"CON Place")


def _steps(path: str, code: str) -> Iterator[Call]:
    while True:
        yield from conversation(path, code, random.choices(range(1, _FINISH), k=_CHOICES_OF_A_CALL))
