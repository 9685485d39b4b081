"""Two operators who say the same of two movements, each of the other one, wait for each other in one order.

SQLite has one writer at a time, so PostgreSQL alone is tried.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.gates.two_records import PAYER, held
from tests.gates.ways_in import BY, SECOND, SHILLINGS, World
from tests.support.books import check_everything
from tests.support.competitors import Compete
from tests.support.money import operator
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import Movement
from ussd_server.services.gates.receipts import lock_movement
from ussd_server.services.movements.messages import SameMovement
from ussd_server.status import ServiceError

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


def test_of_two_movements_that_are_each_said_to_be_the_other_one_goes(world: World, compete: Compete) -> None:
    for receipt in ("R1", "R2"):
        world.till.pay("thanks", SHILLINGS, receipt, number=PAYER)
    other, mine = (each.movement_id for each in held(world))

    def say(movement_id: str, other_id: str) -> object:
        request = SameMovement(movement_id, BY, SECOND, other_id)
        return world.services.movement_uses.take_as_same(request, operator())

    with unit_of_work():
        lock_movement(Movement.get_by_id(mine))
        saying = compete(partial(say, other, mine))
        say(mine, other)
    with pytest.raises(ServiceError, match="The other movement is of another"):
        saying.result()
    assert [each.movement_id for each in held(world)] == [other]
    assert check_everything() == []
