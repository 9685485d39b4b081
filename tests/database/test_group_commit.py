"""Group commit: many items are written in one batch, and each caller gets the result of its own item."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peewee import IntegrityError, OperationalError

from tests.support.eventually import eventually
from ussd_server.database.opening import open_database
from ussd_server.database.unit_of_work import GroupCommit

PATIENCE_SECONDS = 60


class EndOfProcessError(BaseException):
    """An exception that no ordinary handler catches."""


class Book:
    """A stand-in for the database: it can hold up a batch, and make it fail."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.tried: list[list[str]] = []
        self.trouble: Callable[[Sequence[str]], BaseException | None] = lambda group: None
        self._open = threading.Event()
        self._open.set()
        self.entered = threading.Semaphore(0)

    def write(self, group: Sequence[str]) -> None:
        """All of the group or nothing."""
        self.tried.append(list(group))
        self.entered.release()
        assert self._open.wait(PATIENCE_SECONDS)
        if (trouble := self.trouble(group)) is not None:
            raise trouble
        self.groups.append(list(group))

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Nothing is finished before the block ends."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    @property
    def written(self) -> list[str]:
        """Everything that was committed."""
        return [item for group in self.groups for item in group]


@pytest.fixture(autouse=True)
def postgres_dialect() -> None:
    """The dialect decides which errors mean a rollback. The tests never connect to this address."""
    open_database("postgresql://127.0.0.1:1/none", 1)


@pytest.fixture
def book() -> Book:
    return Book()


def refuses(*bad: str) -> Callable[[Sequence[str]], BaseException | None]:
    """Refuse batches with one of these items. The error names the items, so that the test sees whose error it is."""
    return lambda group: IntegrityError(*found) if (found := [item for item in group if item in bad]) else None


def deadlocks(group: Sequence[str]) -> BaseException | None:
    """The error that Peewee raises for a deadlock on PostgreSQL, for every batch of more than one item."""
    found = psycopg.errors.DeadlockDetected("deadlock detected")
    return OperationalError(found, *found.args) if len(group) > 1 else None


Outcomes = dict[str, Future[Sequence[str]]]


def queue_up(book: Book, together: GroupCommit[str], first: str, others: Sequence[str]) -> Outcomes:
    """Write `first`, and hold it up until all the others are in the queue."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(others) + 1))
        stack.enter_context(book.held_up())
        outcomes = {first: pool.submit(together.do, first)}
        assert book.entered.acquire(timeout=PATIENCE_SECONDS)
        for number, item in enumerate(others, 1):
            outcomes[item] = pool.submit(together.do, item)
            eventually(lambda number=number: together.queued == number)
    return outcomes


def outcome(future: Future[Sequence[str]]) -> BaseException | None:
    return future.exception(PATIENCE_SECONDS)


def test_a_caller_writes_at_once_when_no_other_is_writing(book: Book) -> None:
    together = GroupCommit(book.write)
    assert [together.do(item) for item in "ab"] == [["a"], ["b"]]
    assert book.groups == [["a"], ["b"]]


def test_callers_that_arrive_during_a_batch_are_written_together(book: Book) -> None:
    outcomes = queue_up(book, GroupCommit(book.write), "first", ["a", "b", "c"])
    assert [outcome(each) for each in outcomes.values()] == [None] * 4
    assert book.groups == [["first"], ["a", "b", "c"]]
    wrote = [list(each.result()) for each in outcomes.values()]
    assert wrote == [["first"], ["a", "b", "c"], [], []], "each knows for whom it wrote"


def test_a_group_is_never_larger_than_it_may_be(book: Book) -> None:
    outcomes = queue_up(book, GroupCommit(book.write, most=2), "first", ["a", "b", "c", "d", "e"])
    assert {outcome(each) for each in outcomes.values()} == {None}
    assert book.groups == [["first"], ["a", "b"], ["c", "d"], ["e"]]


def test_an_error_of_one_item_is_raised_to_its_caller_alone(book: Book) -> None:
    book.trouble = refuses("bad", "worse")
    outcomes = queue_up(book, GroupCommit(book.write), "first", ["a", "bad", "b", "worse"])
    reported = {item: outcome(each) for item, each in outcomes.items()}
    assert {item for item, trouble in reported.items() if trouble is None} == {"first", "a", "b"}
    assert [(type(reported[item]), reported[item].args) for item in ("bad", "worse")] == [
        (IntegrityError, ("bad",)),
        (IntegrityError, ("worse",)),
    ]
    assert sorted(book.written) == ["a", "b", "first"]


def test_a_group_that_the_database_rolled_back_is_written_one_by_one(book: Book) -> None:
    book.trouble = deadlocks
    outcomes = queue_up(book, GroupCommit(book.write), "first", ["a", "b"])
    assert {outcome(each) for each in outcomes.values()} == {None}
    assert sorted(book.written) == ["a", "b", "first"]


def test_a_lost_database_fails_every_waiting_caller_and_no_later_one(book: Book) -> None:
    together = GroupCommit(book.write)
    book.trouble = lambda group: OperationalError("the connection is lost")
    outcomes = queue_up(book, together, "first", ["a", "b"])
    assert [type(outcome(each)) for each in outcomes.values()] == [OperationalError] * 3
    assert book.tried == [["first"]], "those in line would only wait for the same"
    book.trouble = lambda group: None
    together.do("later")
    assert book.written == ["later"]


def test_a_group_lost_on_its_way_is_called_neither_committed_nor_refused(book: Book) -> None:
    together = GroupCommit(book.write)
    book.trouble = lambda group: OperationalError("the connection is lost") if "a" in group else None
    outcomes = queue_up(book, together, "first", ["a", "b"])
    assert outcome(outcomes["first"]) is None
    assert [type(outcome(outcomes[item])) for item in "ab"] == [OperationalError] * 2
    assert book.tried == [["first"], ["a", "b"]]


def test_a_leader_that_is_ended_leaves_no_caller_waiting(book: Book) -> None:
    together = GroupCommit(book.write)
    book.trouble = lambda group: EndOfProcessError() if "a" in group else None
    outcomes = queue_up(book, together, "first", ["a", "b", "c"])
    assert outcome(outcomes["first"]) is None
    assert [type(outcome(outcomes[item])) for item in "abc"] == [
        EndOfProcessError,
        OperationalError,
        OperationalError,
    ]
    together.do("later")
    assert book.written == ["first", "later"]


fates = st.sampled_from(["good", "good", "good", "refused", "lost"])


@given(st.lists(fates, min_size=1, max_size=24), st.integers(1, 5), st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_a_confirmed_item_was_committed_once_and_a_refused_one_never(each: list[str], most: int, threads: int) -> None:
    book = Book()

    def trouble(group: Sequence[str]) -> BaseException | None:
        if any(item.endswith("lost") for item in group):
            return OperationalError("the connection is lost")
        return refuses(*(item for item in group if item.endswith("refused")))(group)

    book.trouble = trouble
    together = GroupCommit(book.write, most)
    items = [f"{number} {fate}" for number, fate in enumerate(each)]
    with ThreadPoolExecutor(threads) as pool:
        outcomes = {item: pool.submit(together.do, item) for item in items}
    for item, future in outcomes.items():
        reported, times = outcome(future), book.written.count(item)
        if reported is None:
            assert (item.endswith("good"), times) == (True, 1)
        elif isinstance(reported, IntegrityError):
            assert (reported.args, times) == ((item,), 0)
        else:
            assert (type(reported), times) == (OperationalError, 0)
    assert all(len(group) <= most for group in book.tried)
    if "lost" not in each:
        assert sorted(book.written) == sorted(item for item in items if item.endswith("good"))
    assert together.queued == 0
