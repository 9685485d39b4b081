"""The loop: while one call waits the others go on, and what they ask at the same time is asked once."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from types import SimpleNamespace
from typing import Any

import pytest

from tests.turns import Turns, taking_turns
from ussd_server.loop import after_others, elsewhere, present_loop, result_of, together

PATIENCE_SECONDS = 30
about: ContextVar[str] = ContextVar("about")


@pytest.fixture
def turns() -> Iterator[Turns]:
    with taking_turns() as turns:
        yield turns


class Oracle:
    """Doubles numbers, and keeps what it was asked at a time."""

    def __init__(self) -> None:
        self.trips: list[list[int]] = []

    def ask(self, questions: Sequence[int]) -> list[Any]:
        """The double of each; for a negative number an exception."""
        self.trips.append(list(questions))
        return [2 * each if each >= 0 else ArithmeticError(each) for each in questions]


def test_what_calls_ask_in_one_turn_is_asked_once_and_each_hears_its_own_answer(turns: Turns) -> None:
    oracle = Oracle()
    assert turns.run(*(partial(together, oracle.ask, number) for number in (3, 1, 2))) == [6, 2, 4]
    assert oracle.trips == [[3, 1, 2]]


def test_what_calls_ask_when_they_have_heard_is_asked_once_again(turns: Turns) -> None:
    oracle = Oracle()

    def ask_twice(number: int) -> Any:
        return together(oracle.ask, together(oracle.ask, number))

    assert turns.run(*(partial(ask_twice, number) for number in (1, 2))) == [4, 8]
    assert oracle.trips == [[1, 2], [2, 4]]


def test_whoever_is_asked_by_different_calls_is_asked_by_itself(turns: Turns) -> None:
    one, other = Oracle(), Oracle()
    assert turns.run(partial(together, one.ask, 1), partial(together, other.ask, 2)) == [2, 4]
    assert (one.trips, other.trips) == ([[1]], [[2]])


def test_an_exception_for_an_answer_is_raised_to_its_asker_alone(turns: Turns) -> None:
    fine, refused, too = turns.run(*(partial(together, Oracle().ask, number) for number in (1, -1, 2)))
    assert (fine, type(refused), refused.args, too) == (2, ArithmeticError, (-1,), 4)


def test_a_question_that_cannot_be_asked_is_told_to_every_asker_and_the_loop_goes_on(turns: Turns) -> None:
    def ask(_: Sequence[int]) -> list[int]:
        raise LookupError

    assert [type(each) for each in turns.run(*(partial(together, ask, number) for number in (1, 2)))] == [
        LookupError, LookupError,
    ]  # fmt: skip
    assert turns.run(partial(together, Oracle().ask, 1)) == [2]


def test_what_is_done_elsewhere_is_done_by_another_thread_for_the_same_call(turns: Turns) -> None:
    def work(number: int, *, more: int) -> tuple[int, str, threading.Thread]:
        assert present_loop() is None
        return number + more, about.get(), threading.current_thread()

    def call(name: str) -> tuple[int, str, threading.Thread]:
        about.set(name)
        done = elsewhere(work, 1, more=2)
        assert about.get() == name
        assert present_loop() is turns.loop
        return done

    for name, (number, told, thread) in zip("ab", turns.run(partial(call, "a"), partial(call, "b")), strict=True):
        assert (number, told) == (3, name)
        assert thread is not threading.current_thread()


def test_what_is_raised_elsewhere_is_raised_to_the_call(turns: Turns) -> None:
    def work() -> None:
        raise LookupError("elsewhere")

    (raised,) = turns.run(partial(elsewhere, work))
    assert (type(raised), raised.args) == (LookupError, ("elsewhere",))


def test_other_calls_go_on_while_something_is_done_elsewhere(turns: Turns) -> None:
    is_done = threading.Event()
    slow = turns.begin(partial(elsewhere, is_done.wait, PATIENCE_SECONDS))
    turns.loop.end_turn()
    assert turns.run(partial(together, Oracle().ask, 1), partial(elsewhere, str, 1)) == [2, "1"]
    assert slow not in turns.outcomes
    is_done.set()
    turns.run_until(lambda: slow in turns.outcomes)
    assert turns.outcomes[slow] is True


def test_the_reserve_works_while_all_threads_wait_for_a_call() -> None:
    with taking_turns(threads=2) as turns:
        word: Future[str] = Future()
        waiting = [turns.begin(partial(elsewhere, word.result, PATIENCE_SECONDS)) for _ in range(2)]
        turns.loop.end_turn()

        def lead() -> None:
            word.set_result(turns.loop.wait_for_thread(lambda: "from the reserve", waits_for_nobody=True))

        turns.run(lead)
        turns.run_until(lambda: turns.outcomes.keys() >= set(waiting))
        assert [turns.outcomes[number] for number in waiting] == ["from the reserve"] * 2


@pytest.mark.parametrize("set_by", ["another thread", "another call", "somebody before"])
def test_a_future_is_waited_for_whoever_sets_it(turns: Turns, set_by: str) -> None:
    future: Future[str] = Future()
    tell = partial(future.set_result, "told")
    if set_by == "somebody before":
        tell()
    numbers = [turns.begin(partial(result_of, future)) for _ in range(3)]
    turns.loop.end_turn()
    if set_by == "another thread":
        threading.Thread(target=tell).start()
    elif set_by == "another call":
        turns.begin(tell)
    turns.run_until(lambda: turns.outcomes.keys() >= set(numbers))
    assert [turns.outcomes[number] for number in numbers] == ["told"] * 3


def test_the_exception_of_a_future_is_raised_to_whoever_waits_for_it(turns: Turns) -> None:
    future: Future[str] = Future()
    future.set_exception(LookupError())
    assert [type(each) for each in turns.run(partial(result_of, future))] == [LookupError]


def test_many_words_of_many_threads_are_all_heard(turns: Turns) -> None:
    futures: list[Future[int]] = [Future() for _ in range(400)]

    def tell(some: Sequence[Future[int]]) -> None:
        for each in some:
            each.set_result(id(each))

    tellers = [threading.Thread(target=tell, args=(futures[start::4],)) for start in range(4)]
    numbers = [turns.begin(partial(result_of, each)) for each in futures]
    for teller in tellers:
        teller.start()
    turns.run_until(lambda: turns.outcomes.keys() >= set(numbers))
    assert [turns.outcomes[number] for number in numbers] == [id(each) for each in futures]


def test_who_lets_others_go_first_goes_on_when_they_have_come_as_far_as_they_can(turns: Turns) -> None:
    came: list[str] = []

    def polite() -> None:
        after_others()
        came.append("polite")

    def asking_twice() -> None:
        for word in ("first", "second"):
            together(Oracle().ask, 1)
            came.append(word)

    turns.run(polite, asking_twice, partial(came.append, "at once"))
    assert came == ["at once", "first", "second", "polite"]


def test_a_call_is_woken_by_the_file_that_it_waits_for_and_others_go_on_before(turns: Turns) -> None:
    here, there = socket.socketpair()
    with here, there:
        number = turns.begin(lambda: (turns.loop.wait_for_file(here.fileno(), EVENT_READ, 60), here.recv(9)))
        turns.turn()
        assert turns.run(partial(together, Oracle().ask, 1)) == [2]
        assert number not in turns.outcomes
        there.send(b"word")
        turns.run_until(lambda: number in turns.outcomes)
        assert turns.outcomes[number] == (True, b"word")
        assert turns.run(partial(turns.loop.wait_for_file, here.fileno(), EVENT_WRITE, 60)) == [True]


def test_a_call_gives_up_a_file_after_its_seconds_and_may_wait_for_it_again(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("ussd_server.loop.time", SimpleNamespace(monotonic=lambda: now[0]))
    here, there = socket.socketpair()
    with here, there:
        wait = partial(turns.loop.wait_for_file, here.fileno(), EVENT_READ, 5)
        number = turns.begin(lambda: (wait(), wait()))
        now[0] = 4.9
        turns.turn()
        there.send(b"word")
        turns.turn()
        here.recv(9)
        now[0] = 9.8
        turns.turn()
        assert number not in turns.outcomes
        now[0] = 10.0
        turns.turn()
        assert turns.outcomes[number] == (True, False)


def test_a_file_that_cannot_be_waited_for_is_the_trouble_of_its_call_alone(turns: Turns) -> None:
    here, there = socket.socketpair()
    with here, there:
        wait = partial(turns.loop.wait_for_file, here.fileno(), EVENT_READ, 0)
        first, second = turns.begin(wait), turns.begin(partial(turns.loop.wait_for_file, -1, EVENT_READ, 0))
        turns.run_until(lambda: turns.outcomes.keys() >= {first, second})
        assert (turns.outcomes[first], type(turns.outcomes[second])) == (False, ValueError)


def test_off_the_loop_everything_is_simply_done(turns: Turns) -> None:
    oracle = Oracle()

    def everything() -> tuple[Any, ...]:
        assert present_loop() is None
        future: Future[str] = Future()
        future.set_result("told")
        after_others()
        return together(oracle.ask, 1), elsewhere(threading.current_thread), result_of(future)

    def in_a_thread(work: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        found: list[tuple[Any, ...]] = []
        thread = threading.Thread(target=lambda: found.append(work()), name="another")
        thread.start()
        thread.join()
        return found[0]

    assert everything() == (2, threading.current_thread(), "told")
    answer, thread, word = in_a_thread(everything)
    assert (answer, thread.name, word) == (2, "another", "told")
    with pytest.raises(ArithmeticError):
        together(oracle.ask, -1)
    assert oracle.trips == [[1], [1], [-1]]


@pytest.mark.parametrize("wait", ["thread", "answer"])
def test_a_failure_keeps_nothing_alive_that_the_failed_call_used(turns: Turns, wait: str) -> None:
    class Used:
        """Something that a call holds."""

    used = Used()
    gone = weakref.ref(used)

    def raise_refused(_used: Used) -> None:
        raise LookupError

    def call(used: Used) -> bool:
        waits: dict[str, Callable[[], object]] = {
            "thread": lambda: elsewhere(raise_refused, used),
            "answer": lambda: together(lambda _: [LookupError()], 1),
        }
        try:
            waits[wait]()
        except LookupError:
            return True
        return False

    gc.disable()
    try:
        assert turns.run(partial(call, used)) == [True]
        del used
        # A thread drops its work after it has told the result.
        turns.close()
        assert gone() is None
    finally:
        gc.enable()
