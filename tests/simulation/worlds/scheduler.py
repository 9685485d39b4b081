"""One scheduler for everything that happens: tasks on a virtual clock, switched at named points, and their faults.

Each task is a greenlet. It runs until it pauses; then the task that is due first goes on. All pauses are drawn from the
seed of their task, so the same plan gives the same history.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

from tests.simulation.worlds.virtual_time import TIME

# How long a worker waits between two looks for work.
_TICK_SECONDS = 0.25
_MOST_ROUNDS = 16
_DELIVERIES = "deliveries"
# Steps whose work is a queue: when something is due, now one of their idle loops looks first, now all at once.
_QUEUES = ("settlement", "payouts", _DELIVERIES)
_ALL_AT_ONCE = 0.3
# While a worker holds a lease, heartbeats go on.
_MOST_ROUNDS_OF_LEASES = 3


class Killed(BaseException):
    """The process of this task was killed."""


class Process:
    """A process of the service: its tasks live and die together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: list[Task] = []
        self.is_dead = False
        self.frozen_until = 0.0
        self.armed: tuple[str, int] | None = None
        """The fault that waits for this process, and how many points it still passes before it."""


class Task:
    """Something that goes on in a process; `step` names it in the table of coverage."""

    def __init__(self, process: Process, step: str, number: int, rng: Random) -> None:
        self.process, self.step, self.number, self.rng = process, step, number, rng
        self.greenlet: Any = None
        self.is_over = False
        self.waiting: list[Task] = []
        self.ticket = 0
        self.database_state: Any = None


class Scheduler:
    """Runs tasks in the order in which they are due.

    `horizon` returns for each step at which moment its idle tasks have work again, in seconds, and under the empty name
    that of all other steps.
    """

    def __init__(self, seed: str, horizon: Callable[[], dict[str, float]]) -> None:
        self.seed = seed
        self.horizon = horizon
        self.faults: Callable[[str, Task, str], None] = lambda kind, task, moment: None
        self.before_waking: Callable[[], None] = lambda: None
        self.on_switch: Callable[[Task], None] = lambda task: None
        self.points: Counter[tuple[str, str]] = Counter()
        self.faults_at: Counter[tuple[str, str]] = Counter()
        self.current: Task | None = None
        self.activity = 0
        self._hub = getcurrent()
        self._queue: list[tuple[float, int, Task, int]] = []
        self._order = count()
        self._numbers: Counter[str] = Counter()
        self._idle: dict[str, list[Task]] = defaultdict(list)
        self._horizon: tuple[int, dict[str, float]] = (-1, {})
        # How often a step was woken and found nothing to do since the last write.
        self._rounds: Counter[str] = Counter()
        self._rng = Random(f"{seed}/waking")
        self.polls_every: float | None = None
        """Every so many seconds the queues are looked at, instead of whenever the database may have work for them."""
        self._polled_at = 0.0
        TIME.now = TIME.database_ahead = 0.0
        TIME.pause = self.pause

    def spawn(self, process: Process, step: str, work: Callable[[], object], after: float = 0.0) -> Task:
        """Begin a task of a process in `after` seconds."""
        name = f"{process.name}/{step}"
        self._numbers[name] += 1
        task = Task(process, step, self._numbers[name], Random(f"{self.seed}/{name}/{self._numbers[name]}"))

        def run(*_: object) -> None:
            try:
                self._check(task)
                work()
            except Killed:
                pass
            finally:
                task.is_over = True
                process.tasks.remove(task)
                for waiting in task.waiting:
                    if not waiting.is_over:
                        self._due(waiting, TIME.now)

        task.greenlet = greenlet(run, parent=self._hub)
        process.tasks.append(task)
        self._due(task, TIME.now + after)
        return task

    def run(self, until: float) -> None:
        """Run everything that is due before `until`, in seconds since the start."""
        while True:
            while self._queue and self._queue[0][3] != self._queue[0][2].ticket:
                heapq.heappop(self._queue)
            next_at = self._queue[0][0] if self._queue else float("inf")
            if self.polls_every is not None:
                poll_at = self._polled_at + self.polls_every
                if poll_at < min(next_at, until):
                    self._poll(poll_at)
                    continue
            # The database is asked what is due only when nothing else goes on.
            elif next_at > TIME.now + _TICK_SECONDS:
                step, wake_at = self._next_step()
                if wake_at < min(next_at, until):
                    self._wake(step, wake_at)
                    continue
            if next_at >= until:
                TIME.now = max(TIME.now, until)
                return
            at, _, task, _ = heapq.heappop(self._queue)
            TIME.now = max(TIME.now, at)
            if task.is_over:
                continue
            if task.process.frozen_until > TIME.now:
                self._due(task, task.process.frozen_until)
                continue
            self._switch(task, lambda task=task: task.greenlet.switch())

    def pause(self, seconds: float) -> None:
        """Let other tasks run for so many seconds. Outside of a task nothing happens."""
        task = self.current
        if task is None:
            return
        self._check(task)
        self._due(task, TIME.now + seconds)
        self._hub.switch()
        self._check(task)

    def idle(self, during: Iterable[Task] = ()) -> None:
        """Pause, as a loop that looks for work does: until there can be work for it, or one of some tasks is over."""
        task = self.current
        if task is None:
            return
        self._check(task)
        for other in during:
            other.waiting.append(task)
        self._idle[task.step].append(task)
        task.ticket += 1
        self._hub.switch()
        self._check(task)

    def wait_for(self, other: Task, seconds: float) -> bool:
        """Wait until another task is over, at most so long; return whether it is."""
        if not other.is_over:
            other.waiting.append(self.current)  # type: ignore[arg-type]
            self.pause(seconds)
        return other.is_over

    def note_activity(self) -> None:
        """Something was written, and there may be work for idle tasks."""
        self.activity += 1
        # Deliveries that a receiver holds up are not looked for more often because payments go on.
        is_delivery = self.current is not None and self.current.step == _DELIVERIES
        for step in list(self._rounds):
            if (step == _DELIVERIES) == is_delivery:
                del self._rounds[step]

    def note_new_events(self) -> None:
        """Events wait for the relay."""
        self._rounds.pop(_DELIVERIES, None)

    def point(self, moment: str, *, may_switch: bool = True) -> None:
        """A moment between two database transactions, or around a call: a fault may strike, and others may run."""
        task = self.current
        if task is None:
            return
        self._check(task)
        if task.step in ("heartbeat", "timekeeper"):
            return
        self.points[task.step, moment] += 1
        if task.process.armed is not None:
            kind, left = task.process.armed
            if left > 0:
                task.process.armed = kind, left - 1
            elif _may_strike(kind, moment, may_switch=may_switch):
                task.process.armed = None
                self.faults_at[kind, f"{task.step}, {moment}"] += 1
                self.faults(kind, task, moment)
        if may_switch:
            self.pause(task.rng.choice((0.0005, 0.002, 0.005, 0.05)) * task.rng.random())

    def kill(self, process: Process) -> None:
        """Kill a process: none of its tasks goes on, and none of its statements is run."""
        process.is_dead = True
        for task in list(process.tasks):
            if task is not self.current:
                self._due(task, TIME.now)
        if self.current is not None and self.current.process is process:
            raise Killed

    def _check(self, task: Task) -> None:
        if task.process.is_dead:
            raise Killed

    def _due(self, task: Task, at: float) -> None:
        if task in self._idle[task.step]:
            self._idle[task.step].remove(task)
        task.ticket += 1
        heapq.heappush(self._queue, (at, next(self._order), task, task.ticket))

    def _switch(self, task: Task, into: Callable[[], object]) -> None:
        self.current = task
        self.on_switch(task)
        try:
            into()
        finally:
            self.current = None

    def _next_step(self) -> tuple[str, float]:
        """The step whose idle tasks have work first, and when."""
        if not any(self._idle.values()):
            return "", float("inf")
        if self._horizon[0] != self.activity:
            self._horizon = self.activity, self.horizon()
        times = self._horizon[1]
        # Work that no task takes is looked for less and less often.
        return min(
            (
                (step, max(times.get(step, times[""]), TIME.now) + _TICK_SECONDS * (2 ** self._rounds[step] - 1))
                for step, tasks in self._idle.items()
                if tasks
            ),
            key=lambda each: (each[1], each[0]),
        )

    def _poll(self, at: float) -> None:
        """Wake one idle task of each queue and all others but those of web processes."""
        TIME.now = self._polled_at = at
        self.before_waking()
        for step, idle in self._idle.items():
            if idle and step != "timekeeper":
                for task in [self._rng.choice(idle)] if step == _DELIVERIES else list(idle):
                    self._due(task, at + _TICK_SECONDS * task.rng.random())

    def _wake(self, step: str, at: float) -> None:
        TIME.now = at
        self.before_waking()
        most = _MOST_ROUNDS_OF_LEASES if self._horizon[1][""] < float("inf") else _MOST_ROUNDS
        self._rounds[step] = min(self._rounds[step] + 1, most)
        self._horizon = -1, {}
        idle = self._idle[step]
        is_first = step in _QUEUES and self._rng.random() > _ALL_AT_ONCE
        for task in [self._rng.choice(idle)] if is_first else list(idle):
            self._due(task, at + _TICK_SECONDS * task.rng.random())


def _may_strike(kind: str, moment: str, *, may_switch: bool) -> bool:
    """Whether a fault can happen at a moment: nothing waits within a transaction; a connection breaks around one."""
    if kind == "kill":
        return True
    if kind == "broken connection":
        return moment in ("before a transaction", "after the commit")
    return may_switch
