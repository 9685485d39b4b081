"""Gathering: what callers bring at the same time is done by one statement, and each hears of its own; group commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum, auto
from threading import Lock
from typing import Generic, TypeVar

from peewee import OperationalError

from ussd_server.loop import after_others, present_loop, result_of
from ussd_server.models.base import DATABASE_TROUBLE, asking, was_rolled_back

Item = TypeVar("Item")


class _Word(Enum):
    """What a caller is told."""

    LEAD = auto()
    DONE = auto()
    ALONE = auto()
    UNKNOWN = auto()


class _Place(Generic[Item]):
    """A caller's place in the line, where it waits for a word."""

    __slots__ = ("item", "word")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.word: Future[_Word] = Future()


class Gathering(Generic[Item]):
    """Asks the database about items of many callers.

    A caller who finds nobody asking asks at once, so an idle service waits for nothing. Whoever comes meanwhile stands
    in line; the first of them asks for all when one before has finished. There is no timer and no thread.
    """

    def __init__(self, ask: Callable[[Sequence[Item]], None], most: int = 64, at_once: int = 1) -> None:
        """`ask` does all of the items, or none, and leaves its answers in them; it gets at most `most` at a time.

        `at_once` groups of threads may be under way at the same time; calls of a loop make one larger group instead.
        """
        self._ask = ask
        self._most = most
        self._lock = Lock()
        self._line: deque[_Place[Item]] = deque()
        self._at_once = at_once
        self._leaders = 0
        self._is_open = False  # to whoever comes before the last leader has begun

    def do(self, item: Item) -> Sequence[Item]:
        """Return when `item` is done, or raise what `ask` raises for it. Gives what this caller asked about, for all.

        When items that were asked together are refused, each is asked by itself, by its own caller: nobody hears of
        what was wrong with another's. When the database is in trouble, all who wait for it hear of that, as
        OperationalError: what they brought may have been committed or not, as with every lost answer.
        """
        at_once = self._at_once if present_loop() is None else 1
        with self._lock:
            place = _Place(item) if self._is_open or self._leaders >= at_once else None
            if place is None:
                self._leaders += 1
                self._is_open = True
            else:
                self._line.append(place)
        word = _Word.LEAD if place is None else result_of(place.word)
        asked: Sequence[Item] = ()
        if word is _Word.LEAD:
            after_others()
            word, asked = asking(self._lead, item)
        if word is _Word.ALONE:
            asked = [item]
            asking(self._ask, asked)
        elif word is _Word.UNKNOWN:
            raise OperationalError("the database was in trouble when this was asked together with others")
        return asked

    def _lead(self, item: Item) -> tuple[_Word, Sequence[Item]]:
        """Ask about what stands in line, tell everybody how it went, and let the next one lead."""
        others: list[_Place[Item]] = []
        together = [item]
        word = _Word.UNKNOWN
        try:
            self._step_up(others, self._most - 1)
            together += [other.item for other in others]
            self._ask(together)
            word = _Word.DONE
        except Exception as error:
            if isinstance(error, DATABASE_TROUBLE) and not was_rolled_back(error):
                # Those who came meanwhile would only wait for the same trouble, one group after another.
                self._step_up(others, len(others) + len(self._line))
                raise
            if not others:
                raise
            word = _Word.ALONE
        finally:
            for other in others:
                other.word.set_result(word)
            self._hand_over()
        return word, together

    def _step_up(self, others: list[_Place[Item]], most: int) -> None:
        with self._lock:
            self._is_open = False
            while self._line and len(others) < most:
                others.append(self._line.popleft())

    def _hand_over(self) -> None:
        with self._lock:
            following = self._line.popleft() if self._line else None
            self._is_open = following is not None
            if following is None:
                self._leaders -= 1
        if following is not None:
            following.word.set_result(_Word.LEAD)
