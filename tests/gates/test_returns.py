"""Money that is given back at the provider: listed until its outgoing movement is named, and both leave together.

Each test ends with the invariant check.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from peewee import IntegrityError

from tests.gates.two_records import PAYER, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.statement_files import reconcile
from tests.support.books import check_everything
from tests.support.competitors import Compete
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import Movement, MovementUse
from ussd_server.services.audit.messages import ListOperatorActions
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.gates.receipts import lock_movement
from ussd_server.services.gates.uses import use
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    MovementView,
    SameMovement,
)
from ussd_server.services.operations.book_check.sums import account_sums
from ussd_server.services.reconciliation.messages import UndoImport
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases
OTHERS = "+256772000009"


@pytest.fixture(autouse=True)
def books(services: Services) -> Iterator[None]:
    yield
    assert check_everything(vault=services.runtime.vault) == []


def came(world: World, receipt: str = "R1") -> str:
    """Money of a payer that no code explains: the id of its movement."""
    world.till.pay("no code", SHILLINGS, receipt, number=PAYER)
    return str(Movement.get(Movement.receipt == receipt).id)


def left(world: World, receipt: str = "B1", amount: str = "-5,000.00", number: str = PAYER) -> str:
    """Money that left by a line of a statement: the id of its movement."""
    line = Enquired(world, "", number, "").line(receipt, "")
    line[7] = amount
    reconcile(world.services, [line], "sandbox")
    return str(Movement.get(Movement.receipt == receipt).id)


def give_back(world: World, movement_id: str, other_id: str | None = None) -> MovementView:
    request = EndMovement(movement_id, "The payer asked for it", BY, SECOND, other_id)
    return world.services.movement_uses.mark_returned(request, operator())


def release(world: World, movement_id: str) -> None:
    world.services.releases.release(EndMovement(movement_id, "A mistake", BY, SECOND), operator())


def states(world: World) -> dict[str, str]:
    """What is listed as unexplained, with its state."""
    return {each.movement_id: each.state for each in held(world)}


def test_what_is_to_be_given_back_stays_listed_until_its_outgoing_movement_is_named(world: World) -> None:
    first = came(world)
    assert give_back(world, first).state == "to be given back"
    assert states(world) == {first: "to be given back"}
    assert world.services.movements.count_held(operator()) == 1
    assert [each.held_cents for each in account_sums()] == [CENTS]
    second = left(world)
    assert world.services.movements.show(first, operator()).may_give_back == (second,)
    paired = give_back(world, first, second)
    assert (paired.state, paired.counterpart, states(world)) == ("returned", second, {})
    outgoing = world.services.movements.show(second, operator())
    assert (outgoing.counterpart, outgoing.history[-1].other_id) == (first, first)
    assert (outgoing.may_give_back, account_sums()) == ((), [])
    events = world.services.audit.list_of_operators(ListOperatorActions(action="movement.returned"), operator()).items
    assert {event.object_id for event in events} == {first, second}
    assert main_of(world.client.id) == CENTS


@pytest.mark.parametrize("is_named_from_it", [False, True])
def test_both_leave_at_once_or_from_the_side_of_the_outgoing_one(world: World, is_named_from_it: bool) -> None:
    first, second = came(world), left(world)
    if is_named_from_it:
        give_back(world, first)
        give_back(world, second, first)
    else:
        give_back(world, first, second)
    assert (states(world), Movement.get_by_id(second).counterpart) == ({}, first)
    assert MovementUse.get(MovementUse.movement_id == second).other_id == first


def test_only_a_held_movement_of_the_amount_in_the_other_direction_gives_back(world: World) -> None:
    first, also_came = came(world), came(world, "R2")
    less, second = left(world, "B1", "-4,999.00"), left(world, "B2")
    for other, reason in ((less, "another account or"), (also_came, "same direction"), (first, "same direction")):
        with pytest.raises(ServiceError, match=reason):
            give_back(world, first, other)
    give_back(world, first, second)
    for one, other in ((also_came, second), (first, less), (first, second), (second, first)):
        with pytest.raises(ServiceError, match="is returned, no longer held"):
            give_back(world, one, other)
    give_back(world, also_came)
    give_back(world, less)
    with pytest.raises(ServiceError, match="is to be given back, no longer held"):
        give_back(world, also_came, less)


def test_the_database_refuses_a_second_pair_and_other_money(world: World) -> None:
    first, second = came(world), left(world)
    others = left(world, "B2"), left(world, "B3", "-4,999.00"), came(world, "R2")
    give_back(world, first)
    for other in others[1:]:
        with pytest.raises(IntegrityError, match="given back once"), unit_of_work():
            _write(world, other, first)
    give_back(world, first, second)
    with pytest.raises(IntegrityError, match=r"given back once|movements_pairs"), unit_of_work():
        _write(world, others[0], first)
    with pytest.raises(IntegrityError, match="never edited"), unit_of_work():
        Movement.update(counterpart=others[0]).where(Movement.id == first).execute()
    assert set(states(world)) == set(others)


def _write(world: World, movement_id: str, gives_back: str) -> None:
    movement, now = Movement.get_by_id(movement_id), world.clock.now()
    use(movement, UseKind.RETURNED, now, decided_by=f"{BY}, {SECOND}", reason="r", other_id=gives_back)


def test_a_release_of_either_takes_the_pair_apart(world: World) -> None:
    first, second, other = came(world), left(world), left(world, "B2")
    give_back(world, first, second)
    release(world, second)
    assert states(world) == {first: "to be given back", second: "held", other: "held"}
    give_back(world, first, other)
    release(world, first)
    assert states(world) == {first: "held", second: "held", other: "held"}
    history = world.services.movements.show(other, operator()).history
    assert [(use.kind, use.other_id) for use in history] == [("returned", first), ("release", None)]
    give_back(world, first, second)
    assert states(world) == {other: "held"}


def test_what_the_provider_is_to_give_back_waits_for_what_comes(world: World) -> None:
    first = left(world)
    assert give_back(world, first).state == "to be given back"
    second = came(world)
    give_back(world, first, second)
    assert states(world) == {}


def test_the_movement_of_the_same_number_is_suggested_first_and_none_of_another(world: World) -> None:
    unknown, same, another = left(world, "B1", number="+256"), left(world, "B2"), left(world, "B3", number=OTHERS)
    first = came(world)
    assert world.services.movements.show(first, operator()).may_give_back == (same, unknown)
    give_back(world, another)
    give_back(world, first)
    assert world.services.movements.show(same, operator()).may_give_back == (first,)
    assert world.services.movements.show(another, operator()).may_give_back == ()


def test_a_pair_stays_whole_when_the_same_money_is_told_again(world: World) -> None:
    first, second = came(world), left(world)
    give_back(world, first, second)
    again = left(world, "B2")
    same = SameMovement(again, BY, SECOND, second)
    world.services.movement_uses.take_as_same(same, operator())
    assert world.notify("R1", PAYER).status == "held"
    assert states(world) == {}
    release(world, second)
    assert states(world) == {first: "to be given back", second: "held"}


def test_an_import_that_alone_told_of_a_pair_stays(world: World) -> None:
    first, second = came(world), left(world)
    give_back(world, first, second)
    statement = world.services.movements.show(second, operator()).line
    assert statement is not None
    undo = UndoImport(statement.statement_id, BY, SECOND, "The wrong file")
    with pytest.raises(ServiceError, match=f"movement {second}"):
        world.services.provider_statements.undo(undo, operator())
    release(world, second)
    world.services.provider_statements.undo(undo, operator())
    assert states(world) == {first: "to be given back"}
    with pytest.raises(ServiceError, match="was undone"):
        give_back(world, first, second)


def test_what_is_given_back_in_part_is_assigned_and_corrected(world: World) -> None:
    first, part = came(world), left(world, "B1", "-2,000.00")
    before = main_of(world.client.id)
    world.services.movement_uses.assign(AssignMovement(first, "SCH1042", BY, SECOND), operator())
    wanted = CorrectMovement(part, world.client.id, "Given back in part", BY, SECOND)
    world.services.corrections.correct(wanted, operator())
    assert (states(world), main_of(world.client.id) - before) == ({}, CENTS - 2000_00)


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_of_two_that_are_named_at_once_one_gives_back(world: World, compete: Compete) -> None:
    first, second, other = came(world), left(world), left(world, "B2")
    with unit_of_work():
        lock_movement(Movement.get_by_id(first))
        naming = compete(partial(give_back, world, other, first))
        give_back(world, first, second)
    with pytest.raises(ServiceError, match="no longer held"):
        naming.result()
    assert states(world) == {other: "held"}


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_release_waits_for_what_is_named_at_once(world: World, compete: Compete) -> None:
    first, second = came(world), left(world)
    give_back(world, first)
    with unit_of_work():
        lock_movement(Movement.get_by_id(first))
        releasing = compete(partial(release, world, first))
        give_back(world, first, second)
    with pytest.raises(ServiceError, match="no use that can be taken back"):
        releasing.result()
    assert states(world) == {}
