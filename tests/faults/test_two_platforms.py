"""A provider's two platforms side by side: workers are killed, and the address changes in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import catch_up, work_until_killed
from tests.services.processing.moves import Move, old_connection
from tests.support.books import check_everything
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings

_KILL_POINTS = ["send.recorded", "send.answered", "answer.applied"]
_KINDS = ("disbursement", "collection", "disbursement")


@pytest.fixture
def move(settings: Settings, clock: MovableClock) -> Iterator[Move]:
    with ExitStack() as stack:
        yield Move(stack, settings, clock, "mtn")


def pay_and_be_killed(move: Move, kill_point: str, title: str) -> list[str]:
    """Make payments, and let a worker die among them."""
    made = [move.pay(kind, f"{title}-{number}", 600 + number) for number, kind in enumerate(_KINDS)]
    release_connection()
    settings = move.services.settings
    impatient = {
        name: replace(access, schedule=replace(access.schedule, delays=(0.1,)))
        for name, access in settings.providers.items()
    }
    work_until_killed(replace(settings, kill_point=kill_point, providers=impatient))
    return made


@pytest.mark.parametrize("kill_point", _KILL_POINTS)
def test_nothing_arrives_twice_and_nothing_is_lost_when_the_address_changes_among_kills(
    move: Move, kill_point: str
) -> None:
    made = pay_and_be_killed(move, kill_point, "before")
    move.start(move.new, **old_connection(move))
    made += pay_and_be_killed(move, kill_point, "after")
    catch_up(move.services, move.clock)
    rows = [Transaction.get_by_id(each) for each in made]
    assert [row.status for row in rows] == ["succeeded"] * len(made)
    at_old, at_new = ({each.reference for each in platform.book.payments()} for platform in (move.old, move.new))
    assert at_old.isdisjoint(at_new)
    assert at_old | at_new == {row.provider_reference for row in rows}
    assert at_old
    assert at_new
    for row in rows:
        is_at_old = row.sent_to.startswith(move.addresses[move.old])
        assert (row.provider_reference in at_old) is is_at_old, "each is known to be where it is"
    assert check_everything() == []
