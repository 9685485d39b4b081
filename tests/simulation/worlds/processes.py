"""Processes of the service under the scheduler: the real worker with its loops, and web processes for single calls."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ussd_server.worker
from tests.simulation.worlds.provider import SimulatedProvider
from tests.simulation.worlds.scheduler import Process, Scheduler, Task
from tests.simulation.worlds.virtual_time import TIME
from ussd_server.bootstrap import Services
from ussd_server.bootstrap.runtime import build_runtime
from ussd_server.clock import Clock
from ussd_server.models.operations import WorkerHeartbeat
from ussd_server.outbound.transport import HttpExchange, SendState, TransportFailure
from ussd_server.services.payouts import sending
from ussd_server.services.providers.providers import Providers
from ussd_server.services.webhooks.deliveries import DeliveryService
from ussd_server.settings import Settings, read_settings

# The threads of a worker that run here. The others write mails, reports and counts, which no rule here is about.
_KEPT = ("timekeeper", "heartbeat", "deliveries", "payouts")
# A worker that does nothing has sent its last heartbeat at most so long ago.
_BEAT_SECONDS = 4.0
_HOUSEKEEPING_SECONDS = 900.0
# A receiver fails no event so often that the program gives it up.
_MOST_FAILURES = 6
# A payout that waits for a review is looked at this often, instead of twice a minute for hours.
_PAYOUT_REST_SECONDS = 900.0


class Receiver:
    """A client's webhook receivers: they answer, refuse, hang or lose their answer. It notes what they got."""

    def __init__(self, scheduler: Scheduler, note: Callable[..., None], seed: str) -> None:
        self.is_honest, self.trouble = False, 1.0
        self._scheduler, self._note, self._rng = scheduler, note, Random(f"{seed}/receiver")
        self._failures: Counter[str] = Counter()

    def exchange(
        self, method: str, url: str, *, timeout_seconds: float, headers: dict[str, str], body: bytes, **_: Any
    ) -> HttpExchange:
        """Receive one event."""
        self._scheduler.point("before the webhook")
        mood = (
            "taken"
            if self.is_honest
            or self._failures[headers["webhook-id"]] >= _MOST_FAILURES
            or (self.trouble < 1 and self._rng.random() >= self.trouble)
            else self._rng.choices(("taken", "refused", "hangs", "unanswered"), (7, 1, 1, 1))[0]
        )
        self._failures[headers["webhook-id"]] += mood != "taken"
        self._scheduler.faults_at[f"receiver: {mood}", "deliveries, webhook"] += 1
        wait = timeout_seconds if mood in ("hangs", "unanswered") else self._rng.uniform(0.02, 0.5)
        if mood in ("taken", "unanswered"):
            document = json.loads(body)
            self._note(
                "received",
                url=url,
                event=headers["webhook-id"],
                type=document["type"],
                object=document["data"].get("transaction_id") or document["data"].get("payout_id"),
                status=document["data"].get("status"),
                taken=mood == "taken",
            )
        self._scheduler.pause(wait)
        self._scheduler.point("after the webhook")
        if mood in ("hangs", "unanswered"):
            return HttpExchange(SendState.LOST, trouble=TransportFailure.TIMEOUT)
        return HttpExchange(SendState.ANSWERED, status=200 if mood == "taken" else 500, complete=True)


class Stop:
    """The events of a worker: its loops wait on them, and idle in a quiet world."""

    scheduler: Scheduler

    def is_set(self) -> bool:
        """A worker of the simulation is killed and never stopped."""
        return False

    def set(self) -> None:
        """Nothing waits for the end of a worker."""

    def wait(self, seconds: float) -> bool:
        """Look for work again after so many seconds."""
        self.scheduler.idle()
        return False


class TaskThread:
    """A thread of a worker."""

    scheduler: Scheduler

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...] = (), name: str = "") -> None:
        self._work, self._name = lambda: target(*args), name

    def start(self) -> None:
        """Begin it as a task of the present process."""
        if self._name in _KEPT:
            current = self.scheduler.current
            assert current is not None
            self.scheduler.spawn(current.process, self._name, self._work)

    def join(self) -> None:
        """Nothing waits for the end of a thread."""


class TaskPool:
    """A pool of threads of a worker, each a task of its process."""

    scheduler: Scheduler

    def __init__(self, threads: int, name: str) -> None:
        self._name = name

    def __enter__(self) -> TaskPool:
        return self

    def __exit__(self, *_: object) -> None:
        """A process that is killed waits for nothing."""

    def submit(self, work: Callable[..., object], *given: Any) -> TaskFuture:
        """Begin the work as a task."""
        current = self.scheduler.current
        assert current is not None
        return TaskFuture(self.scheduler.spawn(current.process, self._name, lambda: work(*given)))


class TaskFuture:
    """Work under way in a pool."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def done(self) -> bool:
        """Whether it is over."""
        return self.task.is_over


def use_tasks(scheduler: Scheduler) -> None:
    """Let the worker's threads be tasks of this scheduler."""

    def wait(futures: Iterable[TaskFuture], seconds: float, _: object) -> None:
        scheduler.idle([future.task for future in futures if not future.done()])

    for kind in (Stop, TaskThread, TaskPool):
        kind.scheduler = scheduler  # type: ignore[attr-defined]
    module: Any = ussd_server.worker
    module._HOUSEKEEPING_SECONDS = _HOUSEKEEPING_SECONDS
    sending._LONGEST_REST_SECONDS = _PAYOUT_REST_SECONDS
    module.Event, module.Thread, module.ThreadPoolExecutor, module.wait = Stop, TaskThread, TaskPool, wait


class WakeUp:
    """The signal for workers, without Redis: the next look of a worker is never further away than its tick."""

    def send(self) -> None:
        """Every write wakes idle tasks already."""

    def wait(self, seconds: float, stop: Stop) -> None:
        """Wait as without a signal."""
        stop.wait(seconds)

    def close(self) -> None:
        """It has no connection."""


class Fleet:
    """Starts and restarts processes with services of their own, each with a clock of its own."""

    def __init__(
        self, scheduler: Scheduler, settings: Settings, connections: Sequence[SimulatedProvider], receiver: Receiver
    ) -> None:
        self._scheduler, self._settings = scheduler, settings
        self._connections, self._receiver = connections, receiver
        self._started = 0
        self.workers: list[Process] = []
        self.web: list[tuple[Process, Services]] = []
        self._hearts: dict[str, Any] = {}
        use_tasks(scheduler)
        scheduler.before_waking = self._beat

    def services(self, name: str, **settings: Any) -> Services:
        """The services of one process."""
        chosen = replace(self._settings, **settings)
        runtime = build_runtime(chosen, Clock())
        providers = Providers(self._connections)
        leases, heartbeat = runtime.leases, runtime.heartbeat
        leases.worker_id = name
        heartbeat._providers = providers
        runtime = replace(
            runtime,
            providers=providers,
            wake_up=WakeUp(),
            within_rate=lambda _: True,
            at_kill_point=lambda point: self._scheduler.point(point, may_switch=False),
        )
        services = Services(runtime)
        services.deliveries = DeliveryService(runtime, transport=self._receiver)  # type: ignore[arg-type]
        # Last uses of keys are written by a thread, which no scheduler switches.
        services.runtime.last_uses.note = lambda key_id, address: None  # type: ignore[method-assign]
        # Limits are counted by Redis, which this world does not have.
        services.gateways._limiter = SimpleNamespace(hit=lambda *_: SimpleNamespace(accepted=True))  # type: ignore[assignment]
        return services

    def start_worker(self, place: int, after: float = 0.0) -> None:
        """Start a worker at a place, instead of the one that was there."""
        self._started += 1
        process = Process(f"worker-{self._started}")
        services = self.services(process.name)
        self._hearts = {name: heart for name, heart in self._hearts.items() if name != process.name}
        self._hearts[process.name] = services.runtime.heartbeat
        self.workers[place : place + 1] = [process]
        self._scheduler.spawn(process, "settlement", lambda: ussd_server.worker.Worker(services).run(Stop()), after)

    def free_web(self) -> tuple[Process, Services]:
        """A web process that does nothing now."""
        self.web = [(process, services) for process, services in self.web if not process.is_dead]
        for process, services in self.web:
            if all(task.step == "timekeeper" for task in process.tasks):
                return process, services
        self._started += 1
        process = Process(f"web-{self._started}")
        services = self.services(process.name)
        self.web.append((process, services))
        self._scheduler.spawn(process, "timekeeper", lambda: services.timekeeper.follow(Stop()))  # type: ignore[arg-type]
        return process, services

    @property
    def has_silent_worker(self) -> bool:
        """Whether a worker is dead or frozen, so that another has to take over from it."""
        return any(process.is_dead or process.frozen_until > TIME.now for process in self.workers)

    def _beat(self) -> None:
        """Workers send heartbeats in a quiet world too; the scheduler does not run each."""
        for process in self.workers:
            heart = self._hearts.get(process.name)
            if not process.is_dead and process.frozen_until <= TIME.now and heart is not None and heart._beat_at:
                now = heart._clock.now()
                if (now - heart._beat_at).total_seconds() < _BEAT_SECONDS:
                    continue
                heart._beat_at = now
                WorkerHeartbeat.update(seen_at=now).where(WorkerHeartbeat.id == process.name).execute()


def settings_of(folder: Path, url: str, threads: int) -> Settings:
    """The settings of every process of a world."""
    given = {
        "USSD_DATA_DIR": str(folder),
        "USSD_DATABASE_URL": url,
        "USSD_REDIS_URL": "redis://127.0.0.1:1",
        "USSD_WORKERS": "1",
        "USSD_WORKER_THREADS": str(threads),
        "USSD_ALLOW_PRIVATE_ADDRESSES": "1",
    }
    with patch.dict(os.environ, given):
        return read_settings()
