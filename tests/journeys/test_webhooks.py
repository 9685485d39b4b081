"""Webhooks end to end: senders die, receivers fail and hang, and every event still arrives in order."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from tests.services.webhooks.receivers import Received, Receiver, happen, subscribe
from tests.support.commands import FORK_SERVER
from tests.support.eventually import eventually
from tests.support.money import a_client
from tests.support.real_service.sender import send
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Delivery
from ussd_server.settings import Settings
from ussd_server.values import new_id
from ussd_server.worker import Worker

_EVENTS = int(os.environ.get("USSD_TEST_WEBHOOK_EVENTS", "300"))
_EVENTS_OF_AN_OBJECT = 5
_SENDERS = 2
_PATIENCE_SECONDS = 250.0


class Sender:
    """One worker process of the test's own."""

    def __init__(self, settings: Settings) -> None:
        self._process = FORK_SERVER.Process(target=send, args=(replace(settings, worker_threads=8),), daemon=True)
        self._process.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still works; one that this test did not kill always should."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._process.kill()
        self._process.join()

    def stop(self) -> int | None:
        """Ask it to finish; give its status."""
        self._process.terminate()
        self._process.join()
        return self._process.exitcode


@contextmanager
def working(services: Services) -> Iterator[None]:
    """A real worker in this process, until the block ends."""
    stop = threading.Event()
    worker = threading.Thread(target=Worker(services).run, args=(stop,))
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def count_delivered() -> int:
    return Delivery.select().where(Delivery.status == "delivered").count()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_with_a_failing_receiver_and_dying_senders_nothing_is_missing_and_nothing_out_of_order(
    services: Services, settings: Settings, record_property: Callable[[str, object], None]
) -> None:
    call, chance = a_client(), random.Random(7)
    taken: list[Received] = []
    next_kill = _EVENTS // 10
    killed = threading.Event()

    def fail_three_in_ten(received: Received) -> int:
        # However fast the senders are, none gets far beyond the next kill.
        if len(taken) >= next_kill:
            killed.wait(0.2)
        if chance.random() < 0.3:
            return chance.choice([500, 503, 301, 404])
        taken.append(received)
        return 200

    with Receiver(fail_three_in_ten) as receiver:
        secret = subscribe(services, call, receiver.url).secret
        senders = [Sender(settings) for _ in range(_SENDERS)]
        written: dict[str, list[str]] = {}
        for _ in range(_EVENTS // _EVENTS_OF_AN_OBJECT):
            thing = new_id(services.clock.now())
            written[thing] = happen(services, call, thing, _EVENTS_OF_AN_OBJECT)
        expected = [event for events in written.values() for event in events]
        kills = 0
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while count_delivered() < len(expected) and time.monotonic() < deadline:
            if len(taken) >= next_kill:
                # In the middle of the work, wherever it happens to be.
                victim = chance.randrange(_SENDERS)
                senders[victim].kill()
                senders[victim] = Sender(settings)
                kills += 1
                next_kill = len(taken) + _EVENTS // 10
                killed.set()
                killed.clear()
            assert all(sender.is_alive for sender in senders)
            time.sleep(0.05)
        # A process that has just started may not handle signals yet.
        assert {sender.stop() for sender in senders} <= {0, -signal.SIGTERM}

    first_taken: dict[str, list[str]] = defaultdict(list)
    thing_of = {event: thing for thing, events in written.items() for event in events}
    for received in taken:
        order = first_taken[thing_of[received.id]]
        if received.id not in order:
            order.append(received.id)
    out_of_order = [thing for thing, order in first_taken.items() if order != written[thing][: len(order)]]
    repeats = len(taken) - len(expected)
    figures = {
        "events": len(expected),
        "calls": len(receiver.calls),
        "senders_killed": kills,
        "missing": len(set(expected) - {received.id for received in taken}),
        "out_of_order": len(out_of_order),
        "badly_signed": sum(not received.is_signed_with(secret) for received in receiver.calls),
        "repeats_of_what_was_taken": repeats,
    }
    for name, figure in figures.items():
        record_property(name, figure)
    assert (figures["missing"], figures["out_of_order"], figures["badly_signed"]) == (0, 0, 0)
    assert kills >= 3
    assert len(receiver.calls) > 1.2 * len(expected)
    assert count_delivered() == Delivery.select().count() == len(expected)


def test_one_receiver_that_hangs_holds_up_none_of_nine_others(services: Services) -> None:
    hanging = Receiver()
    hanging.answers = hanging.hang
    with ExitStack() as receivers:
        good = [(a_client(f"good {number}"), receivers.enter_context(Receiver())) for number in range(9)]
        for call, receiver in good:
            subscribe(services, call, receiver.url)
        bad = a_client("hangs")
        receivers.enter_context(working(services))
        # Left first, so that the worker has nothing to wait for.
        receivers.enter_context(hanging)
        subscribe(services, bad, hanging.url)
        for _ in range(2 * services.settings.delivery_slots):
            happen(services, bad)
        eventually(lambda: bool(hanging.calls))
        for call, _ in good:
            happen(services, call)
        eventually(lambda: all(receiver.calls for _, receiver in good))
        assert len(hanging.calls) == 1
        assert not Delivery.select().where(Delivery.client_id == bad.client_id, Delivery.attempts > 0).exists(), (
            "the others were served before the receiver that hangs was given up"
        )
