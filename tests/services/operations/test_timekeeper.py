"""The clocks of all processes follow the database's time, and no clock that is set moves the service's time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import le
from random import Random
from types import SimpleNamespace

import pytest
from peewee import OperationalError

from ussd_server.clock import Clock
from ussd_server.database.opening import open_database
from ussd_server.database.postgres import Postgres
from ussd_server.database.sqlite import Sqlite
from ussd_server.database.unit_of_work import close_connections, database, database_now, release_connection
from ussd_server.models import operations
from ussd_server.models.operations import ServiceClock
from ussd_server.services.operations.timekeeper import Timekeeper

START = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


class Process:
    """A process's clock and its timekeeper. `drift` is how far its monotonic clock is ahead of the time that passed."""

    def __init__(self, world: World) -> None:
        self.drift = 0.0
        self.clock = Clock(lambda: world.passed + self.drift)
        self.timekeeper = Timekeeper(self.clock, lambda: world.passed + self.drift, world.sleep)
        world.processes.append(self)


class World:
    """Time, a database with a clock that can be set, and processes that look at it once a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.passed = 0.0
        self.set_by = 0.0
        self.processes: list[Process] = []
        self.set_database_clock(0)

    def set_database_clock(self, seconds: float) -> None:
        """Set the database's clock forward, or back when negative."""
        self.set_by += seconds
        at = START + timedelta(seconds=self.passed + self.set_by)
        literal = f"'{at.isoformat(timespec='milliseconds')}'"
        self._monkeypatch.setattr(Postgres, "clock", f"{literal}::timestamptz")
        self._monkeypatch.setattr(Sqlite, "clock", literal)

    def go_on(self, seconds: int = 1) -> None:
        """Let time pass, and every process look once a second, one after the other."""
        for _ in range(seconds):
            for process in self.processes:
                self.passed += 1 / len(self.processes)
                self.set_database_clock(0)
                process.timekeeper.look()

    def sleep(self, seconds: float) -> None:
        """Let time pass for a process that starts, while the others go on."""
        self.passed += seconds
        self.set_database_clock(0)
        for process in self.processes:
            if process.clock.is_set:
                process.timekeeper.look()

    def times(self) -> list[float]:
        """How far each process's clock is ahead of the time that passed, in seconds."""
        return [(each.clock.now() - START).total_seconds() - self.passed for each in self.processes]


@pytest.fixture
def world(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    open_database(database_url, 4)
    yield World(monkeypatch)
    close_connections()


@pytest.mark.both_databases
@pytest.mark.parametrize("seconds", [600, -600, 3, -3, 1.1, 86_400 * 365, -86_400 * 365])
def test_a_database_clock_that_is_set_moves_no_process_and_all_agree(world: World, seconds: float) -> None:
    Process(world), Process(world)
    world.go_on(10)
    world.set_database_clock(seconds)
    for _ in range(20):
        world.go_on()
        first, second = world.times()
        assert abs(first - second) < 0.1
        assert abs(first) < 0.3
    late = Process(world)
    late.timekeeper.look()
    world.go_on(3)
    assert max(world.times()) - min(world.times()) < 0.1
    assert abs(world.times()[-1]) < 0.3


@pytest.mark.parametrize("seconds", [0.9, 0.2, -0.2, -0.9])
def test_less_than_a_second_is_followed_slowly_by_all_processes_together(world: World, seconds: float) -> None:
    Process(world), Process(world)
    world.go_on(10)
    world.set_database_clock(seconds)
    last = world.processes[0].clock.now()
    for _ in range(20):
        world.go_on()
        now = world.processes[0].clock.now()
        assert 0.9 <= (now - last).total_seconds() <= 1.1
        last = now
        assert abs(world.times()[0] - world.times()[1]) < 0.1
    assert world.times() == pytest.approx([seconds, seconds], abs=0.02)
    assert ServiceClock.get().ahead_ms == 0


def test_a_wait_for_a_processor_is_taken_for_no_jump_and_sets_no_clock_off(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waits = Random(7)
    real = operations.read_service_clock

    def after_a_wait() -> operations.ClockReading:
        is_busy = waits.random() < 0.6
        world.passed += waits.uniform(0, 0.4) if is_busy else 0.001
        world.set_database_clock(0)
        reading = real()
        world.passed += waits.uniform(0, 0.4) if is_busy else 0.001
        return reading

    monkeypatch.setattr("ussd_server.services.operations.timekeeper.read_service_clock", after_a_wait)
    Process(world), Process(world)
    last = [each.clock.now() for each in world.processes]
    assert world.times() == pytest.approx([0, 0], abs=0.01)
    for _ in range(200):
        world.go_on()
        now = [each.clock.now() for each in world.processes]
        assert all(map(le, last, now))
        assert world.times() == pytest.approx([0, 0], abs=0.01)
        last = now
    assert ServiceClock.get().ahead_ms == 0
    assert caplog.messages == []


def test_a_process_that_only_has_slow_readings_errs_by_no_more_than_half_of_the_fastest(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, before = operations.read_service_clock, iter([0.4, 0.3, 0.0, 0.3, 0.4])

    def slowly() -> operations.ClockReading:
        wait = next(before, 0.0)
        world.passed += wait
        world.set_database_clock(0)
        reading = real()
        world.passed += 0.4 - wait
        return reading

    monkeypatch.setattr("ussd_server.services.operations.timekeeper.read_service_clock", slowly)
    process = Process(world)
    process.clock.now()
    assert world.times() == pytest.approx([0], abs=0.201)
    monkeypatch.setattr("ussd_server.services.operations.timekeeper.read_service_clock", real)
    last = process.clock.now()
    for _ in range(6):
        world.go_on()
        assert process.clock.now() >= last
        last = process.clock.now()
    assert world.times() == pytest.approx([0], abs=0.01)
    assert caplog.messages == []


def test_a_process_that_is_held_up_after_its_reading_takes_that_for_no_jump(world: World) -> None:
    process = Process(world)
    world.go_on(2)
    pauses = iter([0.0, 2.0])

    def then_held_up() -> float:
        now = world.passed
        world.passed += next(pauses)
        return now

    world.set_database_clock(0)
    Timekeeper(process.clock, then_held_up, world.sleep).look()
    assert world.times() == pytest.approx([0.0], abs=0.01)
    assert ServiceClock.get().ahead_ms == 0


def test_a_difference_is_made_up_little_by_little_until_nothing_is_left(world: World) -> None:
    Process(world), Process(world)
    world.go_on(2)
    world.set_database_clock(-5)
    last = world.processes[0].clock.now()
    for _ in range(520):
        world.go_on()
        now = world.processes[0].clock.now()
        assert 0.9 <= (now - last).total_seconds() <= 1.1
        last = now
        assert abs(world.times()[0] - world.times()[1]) < 0.1
    assert world.times() == pytest.approx([-5, -5], abs=0.1)


def test_a_process_that_starts_after_the_clock_was_set_back_goes_on_from_what_others_saw(world: World) -> None:
    Process(world)
    world.go_on(20)
    world.processes.clear()
    world.set_database_clock(-600)
    late = Process(world)
    assert -10 < (late.clock.now() - START).total_seconds() - world.passed <= 0
    Process(world)
    world.go_on(3)
    assert abs(world.times()[0] - world.times()[1]) < 0.1


def test_processes_that_start_one_after_the_other_after_the_clock_was_set_back_agree(world: World) -> None:
    Process(world)
    world.go_on(20)
    world.processes.clear()
    world.set_database_clock(-600)
    Process(world).clock.now()
    world.passed += 0.9
    world.set_database_clock(0)
    Process(world).clock.now()
    first, second = world.times()
    assert abs(first - second) < 0.1


@pytest.mark.both_databases
@pytest.mark.parametrize("seconds", [3, -3, 600, -600])
def test_a_process_that_starts_before_the_others_notice_moves_none_of_them(world: World, seconds: float) -> None:
    first = Process(world)
    world.go_on(20)
    world.set_database_clock(seconds)
    late = Process(world)
    late.timekeeper.look()
    late.timekeeper.look()
    world.passed += 0.5
    world.set_database_clock(0)
    first.timekeeper.look()
    late.timekeeper.look()
    assert world.times() == pytest.approx([0, 0], abs=0.1)


def test_a_difference_that_grew_while_the_database_was_away_is_slewed(world: World) -> None:
    process = Process(world)
    world.go_on(2)
    world.set_database_clock(60)
    world.go_on(2)
    before = ServiceClock.get().decided_at
    world.passed += 20
    world.set_database_clock(0)
    process.timekeeper.look()
    assert ServiceClock.get().decided_at == before
    world.go_on(6)
    assert world.times() == pytest.approx([0.28], abs=0.05)


def test_a_correction_ends_when_it_is_made_also_while_the_database_is_away(world: World) -> None:
    process = Process(world)
    world.go_on(2)
    process.drift = 0.04
    process.timekeeper.look()
    world.passed += 60
    assert abs(world.times()[0]) < 0.05


def test_a_database_time_from_before_the_first_decision_is_taken_as_it_is(world: World) -> None:
    world.set_database_clock(-86_400 * 1000)
    process = Process(world)
    assert process.clock.now() == START - timedelta(days=1000)


def test_of_two_decisions_from_one_reading_the_first_stands(world: World) -> None:
    reading = operations.read_service_clock()
    assert operations.put_ahead(reading, timedelta(seconds=5))
    assert operations.put_ahead(reading, timedelta(seconds=7)) is None
    assert ServiceClock.get().ahead_ms == 5000


@pytest.mark.parametrize("seconds", [120.0, -120.0])
def test_a_process_whose_own_clock_stood_still_follows_the_others(world: World, seconds: float) -> None:
    Process(world), Process(world)
    world.go_on(20)
    world.processes[0].drift = seconds
    world.go_on(2)
    assert world.times() == pytest.approx([0, 0], abs=0.1)


def test_small_differences_are_slewed_and_time_never_goes_back(world: World) -> None:
    process = Process(world)
    world.go_on(3)
    for drift in (0.04, 0.0, 0.05, 0.01):
        process.drift = drift
        process.timekeeper.look()
        moments = []
        for _ in range(10):
            moments.append(process.clock.now())
            world.passed += 0.1
        assert moments == sorted(moments)
        world.set_database_clock(0)
        assert world.times() == pytest.approx([0], abs=0.01)
    assert ServiceClock.get().ahead_ms == 0


def test_a_slow_answer_of_the_database_moves_the_clock_no_further_than_it_proves(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(world)
    world.go_on(2)
    real = operations.read_service_clock

    def slowly() -> operations.ClockReading:
        reading = real()
        world.passed += 4
        return reading

    monkeypatch.setattr("ussd_server.services.operations.timekeeper.read_service_clock", slowly)
    process.timekeeper.look()
    world.passed += 1
    assert world.times() == pytest.approx([0], abs=0.01)
    assert ServiceClock.get().ahead_ms == 0


def test_a_process_that_starts_without_a_database_has_no_time_until_the_database_is_there(
    world: World, database_url: str
) -> None:
    open_database("postgresql://nobody@127.0.0.1:1/none", 2)
    process = Process(world)
    with pytest.raises(OperationalError):
        process.clock.now()
    assert abs(process.clock.rough() - datetime.now(UTC)) < timedelta(minutes=1)
    once = iter([False, True])
    process.timekeeper.follow(SimpleNamespace(wait=lambda _: next(once)))
    assert not process.clock.is_set
    open_database(database_url, 4)
    assert process.clock.now() == START
    assert process.clock.rough() == START


def test_a_database_that_is_not_migrated_yet_gives_its_time_alone(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    open_database(f"sqlite:///{tmp_path_factory.mktemp('bare')}/bare.db", 2)
    process = Process(world)
    for _ in range(2):
        process.timekeeper.look()
    assert abs(process.clock.now() - START) < timedelta(minutes=1)
    assert not database.table_exists("service_clock")
    close_connections()


def test_the_doctor_shows_the_database_time(database_url: str) -> None:
    open_database(database_url, 2)
    clock = Clock()
    Timekeeper(clock)
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    release_connection()
    close_connections()


@pytest.mark.parametrize(
    "mistake", ["DELETE FROM service_clock", "UPDATE service_clock SET ahead_ms = 9000000000000000000"]
)
def test_a_row_that_is_gone_or_cannot_be_true_stops_no_clock(database_url: str, mistake: str) -> None:
    open_database(database_url, 2)
    running, started = Clock(), Clock()
    timekeeper = Timekeeper(running)
    timekeeper.look()
    database.execute_sql(mistake)
    timekeeper.look()
    Timekeeper(started).look()
    for clock in (running, started):
        assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    ServiceClock.delete().execute()
    ServiceClock.insert(id=1, ahead_ms=3_600_000, decided_at=database_now()).execute()
    timekeeper.look()
    assert abs(running.now() - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=1)
    close_connections()
