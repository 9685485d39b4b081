"""The loop of a web process: one thread answers all calls, and while one call waits it goes on with the next.

Threads that compute take the one interpreter from each other at every system call, and each time costs more than the
door (docs/PERFORMANCE.md). So calls are greenlets of one thread. What several calls ask at the same time is asked
together, in one trip, and what would hold up all others is done elsewhere, by a thread that has nothing else to do.
Off the loop, in every other thread and program, the functions below simply do what they are asked for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextvars import Context, copy_context
from functools import partial
from selectors import BaseSelector
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

Result = TypeVar("Result")
Question = TypeVar("Question")
Ask = Callable[[Sequence[Question]], Sequence[Any]]

_present = threading.local()


class Loop:
    """Runs calls on the thread that makes it, in turns. In a turn every call goes on that has no more to wait for."""

    def __init__(
        self,
        threads: Executor,
        reserve: Executor,
        selector: BaseSelector,
        call_soon: Callable[[Callable[[], object]], object],
        after_work: Callable[[], None],
    ) -> None:
        """`threads` do what would hold up the loop, and may all be waiting for one of its calls.

        `reserve` does what waits for no call, so that it is done even then. Both call `after_work`, which must not
        raise, when something is done.

        Whoever runs the turns calls the data of what is ready in `selector`, with the file as its argument, and what
        `call_soon`, from any thread, was given.
        """
        self._threads = threads
        self._reserve = reserve
        self._selector = selector
        self._call_soon = call_soon
        self._after_work = after_work
        self._root = getcurrent()
        self._asked: dict[Ask[Any], list[tuple[greenlet, Any]]] = {}
        self._last: list[greenlet] = []
        self._work: list[tuple[Executor, greenlet, Context, Callable[[], Any]]] = []
        self._told: deque[tuple[greenlet, Future[Any]]] = deque()
        self._put_off: list[Callable[[], object]] = []
        self._is_called = False
        self._patience: dict[int, float] = {}
        _present.loop = self

    def begin(self, call: Callable[[], None]) -> None:
        """Run a call until it ends or waits. It must not raise."""
        greenlet(call, self._root).switch()

    def end_turn(self) -> None:
        """Ask, together, what the calls are waiting for; they run on until none waits for such an answer."""
        self._give_up_waits()
        while self._asked or self._last:
            asked, self._asked = self._asked, {}
            for ask, places in asked.items():
                answers = _answers(ask, [question for _, question in places])
                for (caller, _), answer in zip(places, answers, strict=True):
                    caller.switch(answer)
            if not self._asked:
                last, self._last = self._last, []
                for caller in last:
                    caller.switch()
        self._clear_up()
        # Only now: threads that begin earlier would take the interpreter from those who are still in the middle.
        work, self._work = self._work, []
        for threads, caller, context, each in work:
            future = threads.submit(context.run, self._do, each)
            future.add_done_callback(partial(self._go_on_soon, caller))

    def put_off(self, work: Callable[[], object]) -> None:
        """Do `work` at the end of the turn, with that of other calls: the same few things cost half in a row."""
        self._put_off.append(work)

    def wait_for_answer(self, ask: Ask[Question], question: Question) -> Any:
        """Let the present call wait for what is asked together at the end of the turn."""
        self._asked.setdefault(ask, []).append((getcurrent(), question))
        return self._root.switch()

    def wait_for_others(self) -> None:
        """Let the present call wait until all others of this turn have come as far as they can."""
        self._last.append(getcurrent())
        self._root.switch()

    def wait_for_thread(self, work: Callable[[], Result], *, waits_for_nobody: bool = False) -> Result:
        """Let the present call wait while a thread does `work`, one of the reserve if that `waits_for_nobody`."""
        threads = self._reserve if waits_for_nobody else self._threads
        self._work.append((threads, getcurrent(), copy_context(), work))
        # A name for the future here would keep the frames of what failed, and all that they hold, until the garbage
        # collector runs: the failure would refer to this frame, and this frame to the failure.
        result: Result = self._root.switch().result()
        return result

    def wait_for_future(self, future: Future[Result]) -> Result:
        """Let the present call wait for what another will have."""
        future.add_done_callback(partial(self._go_on_soon, getcurrent()))
        self._root.switch()
        return future.result()

    def wait_for_file(self, fileno: int, events: int, seconds: float) -> bool:
        """Let the present call wait until a file can be read (1), written (2) or either (3); False after `seconds`."""
        self._selector.register(fileno, events, partial(self._end_wait, getcurrent(), True))
        self._patience[fileno] = time.monotonic() + seconds
        is_ready: bool = self._root.switch()
        return is_ready

    @property
    def is_answering(self) -> bool:
        """Whether it is a call that runs now, and not the loop itself."""
        return getcurrent() is not self._root

    def _end_wait(self, caller: greenlet, is_ready: bool, fileno: int) -> None:
        self._selector.unregister(fileno)
        del self._patience[fileno]
        caller.switch(is_ready)

    def _give_up_waits(self) -> None:
        now = time.monotonic()
        for fileno in [fileno for fileno, ends_at in self._patience.items() if ends_at < now]:
            end_wait = self._selector.get_key(fileno).data
            self._end_wait(end_wait.args[0], False, fileno)

    def _clear_up(self) -> None:
        work, self._put_off = self._put_off, []
        for each in work:
            try:
                each()
            except Exception:
                # Nobody is there to hear of it but whoever hears of what ends a thread.
                sys.excepthook(*sys.exc_info())

    def _do(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        finally:
            self._after_work()

    def _go_on_soon(self, caller: greenlet, future: Future[Any]) -> None:
        self._told.append((caller, future))
        # One word to the loop's thread is enough for all who were told before it hears of it.
        if not self._is_called:
            self._is_called = True
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_called = False
        while self._told:
            caller, future = self._told.popleft()
            caller.switch(future)


def _answers(ask: Ask[Question], questions: Sequence[Question]) -> Sequence[Any]:
    try:
        return ask(questions)
    except Exception as mistake:
        # Whoever asked is to hear of it, and the loop goes on.
        return [mistake] * len(questions)


def present_loop() -> Loop | None:
    """The loop whose call runs now; None on every other thread."""
    loop: Loop | None = getattr(_present, "loop", None)
    return loop if loop is not None and loop.is_answering else None


def elsewhere(work: Callable[..., Result], *given: Any, **named: Any) -> Result:
    """Do what may take long without holding up other calls."""
    loop = present_loop()
    return work(*given, **named) if loop is None else loop.wait_for_thread(partial(work, *given, **named))


def result_of(future: Future[Result]) -> Result:
    """The result of a future, waited for without holding up other calls."""
    loop = present_loop()
    return future.result() if loop is None else loop.wait_for_future(future)


def after_others() -> None:
    """Go on when all other calls have come as far as they can without waiting."""
    loop = present_loop()
    if loop is not None:
        loop.wait_for_others()


def afterwards(work: Callable[..., object], **named: Any) -> None:
    """Do what nobody waits for, when the calls of this turn are answered."""
    loop = present_loop()
    if loop is None:
        work(**named)
    else:
        loop.put_off(partial(work, **named))


def together(ask: Ask[Question], question: Question) -> Any:
    """The answer to a question that `ask` can ask along with those of other calls.

    `ask` gives one answer for each question, in their order, and does not raise: an answer that is an exception is
    raised here.
    """
    loop = present_loop()
    answer = ask([question])[0] if loop is None else loop.wait_for_answer(ask, question)
    try:
        if isinstance(answer, Exception):
            raise answer
        return answer
    finally:
        del answer
