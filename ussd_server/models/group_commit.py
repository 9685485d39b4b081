"""Group commit: what callers bring at the same time is written in one transaction, and each hears of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from threading import Lock
from typing import Generic, TypeVar

from peewee import OperationalError

from ussd_server.models.base import DATABASE_TROUBLE, was_rolled_back

Item = TypeVar("Item")


class _Word(Enum):
    """What a caller is told."""

    LEAD = auto()
    COMMITTED = auto()
    ALONE = auto()
    UNKNOWN = auto()


class _Place(Generic[Item]):
    """A caller's place in the line; `wait` ends when it is told something."""

    __slots__ = ("_told", "item", "word")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.word = _Word.UNKNOWN
        self._told = Lock()
        self._told.acquire()

    def tell(self, word: _Word) -> None:
        self.word = word
        self._told.release()

    def wait(self) -> _Word:
        self._told.acquire()
        return self.word


class GroupCommit(Generic[Item]):
    """Commits items of many threads.

    A caller who finds nobody writing writes at once, so an idle service waits for nothing. Whoever comes meanwhile
    stands in line; the first of them writes for all when one before has finished. There is no timer and no thread.
    """

    def __init__(self, write: Callable[[Sequence[Item]], None], most: int = 64, at_once: int = 1) -> None:
        """`write` commits items in one transaction, all of them or none; it gets at most `most` at a time.

        `at_once` groups may be under way at the same time.
        """
        self._write = write
        self._most = most
        self._lock = Lock()
        self._line: deque[_Place[Item]] = deque()
        self._at_once = at_once
        self._leaders = 0

    def commit(self, item: Item) -> Sequence[Item]:
        """Return when `item` is committed, or raise what `write` raises for it. Gives what this caller wrote, for all.

        When items that were written together are refused, each is written by itself, by its own caller: nobody hears of
        what was wrong with another's. When the database is in trouble, all who wait for it hear of that, as
        OperationalError: what they brought may have been committed or not, as with every lost answer.
        """
        with self._lock:
            place = _Place(item) if self._leaders == self._at_once else None
            if place is None:
                self._leaders += 1
            else:
                self._line.append(place)
        word = _Word.LEAD if place is None else place.wait()
        written: Sequence[Item] = ()
        if word is _Word.LEAD:
            word, written = self._lead(item)
        if word is _Word.ALONE:
            written = [item]
            self._write(written)
        elif word is _Word.UNKNOWN:
            raise OperationalError("the database was in trouble when this was written together with others")
        return written

    def _lead(self, item: Item) -> tuple[_Word, Sequence[Item]]:
        """Write what stands in line, tell everybody how it went, and let the next one lead."""
        others: list[_Place[Item]] = []
        together = [item]
        word = _Word.UNKNOWN
        try:
            self._step_up(others, self._most - 1)
            together += [other.item for other in others]
            self._write(together)
            word = _Word.COMMITTED
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
                other.tell(word)
            self._hand_over()
        return word, together

    def _step_up(self, others: list[_Place[Item]], most: int) -> None:
        with self._lock:
            while self._line and len(others) < most:
                others.append(self._line.popleft())

    def _hand_over(self) -> None:
        with self._lock:
            following = self._line.popleft() if self._line else None
            if following is None:
                self._leaders -= 1
        if following is not None:
            following.tell(_Word.LEAD)
