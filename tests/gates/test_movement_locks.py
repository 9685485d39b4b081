"""What is decided about movements waits for other decisions, and for payments, in one order.

SQLite has one writer at a time, so PostgreSQL alone is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.gates.test_corrections import correct, taken_back
from tests.gates.test_releases import release, sold
from tests.gates.two_records import PAYER, RECEIPT, held, seen, settle
from tests.gates.ways_in import BY, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.books import check_everything
from tests.support.competitors import Compete
from tests.support.money import operator
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.ledger import Account
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.movements import learn_receipt
from ussd_server.services.gates.receipts import lock_movement, lock_receipt
from ussd_server.services.movements.messages import AssignMovement, SameMovement
from ussd_server.services.reconciliation.messages import UndoImport
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


def test_a_release_waits_for_a_refund_of_the_same_collection_before_it_moves_money(
    world: World, compete: Compete
) -> None:
    sale = sold(world)
    back = taken_back(world, sale)
    correct(world, back)
    with unit_of_work():
        # As the creation of a refund does: the collection first, then the account.
        lock_row(Transaction, sale.transaction_id)
        releasing = compete(partial(release, world, back.movement_id))
        for_update(Account.select().where(Account.client_id == world.client.id, Account.name == "main")).get()
    releasing.result()
    assert seen(world, sale.transaction_id).status == "succeeded"
    assert check_everything() == []


def test_a_statement_locks_what_proved_to_be_one_in_the_order_of_operators(world: World, compete: Compete) -> None:
    for receipt in ("R1", "R2", "R3", "R4"):
        world.till.pay("thanks", SHILLINGS, receipt, number=PAYER)
    last, second, goes, first = (each.movement_id for each in held(world))
    for movement_id, other_id in ((goes, first), (last, second)):
        world.services.movement_uses.take_as_same(SameMovement(movement_id, BY, SECOND, other_id), operator())
    way = Enquired(world, "", PAYER, "")
    with unit_of_work():
        lock_movement(Movement.get_by_id(first))
        importing = compete(partial(reconcile, world.services, [way.line("R4", ""), way.line("R2", "")]))
        lock_movement(Movement.get_by_id(second))
    importing.result()
    assert [each.movement_id for each in held(world)] == [second, first]


def test_a_line_without_an_id_is_found_to_be_a_payment_in_the_order_of_their_movements(
    world: World, compete: Compete
) -> None:
    paid = str(world.notify("R1", PAYER).transaction_id)
    reconcile(world.services, [Enquired(world, "", PAYER, "").line("", "")])
    (moved,) = held(world)
    say = SameMovement(moved.movement_id, BY, SECOND, paid)
    with unit_of_work():
        lock_row(Movement, Movement.get(Movement.transaction_id == paid).id)
        saying = compete(partial(world.services.movement_uses.take_as_same, say, operator()))
        lock_row(Movement, moved.movement_id)
    saying.result()
    assert (held(world), check_everything()) == ((), [])


def test_a_payment_learns_a_receipt_in_the_order_of_its_movement_and_that_of_the_receipt(
    world: World, compete: Compete
) -> None:
    ours = Enquired(world, "silent", PAYER, "")
    ours.prepare()
    ours.succeeds()
    ours.ask_now()
    for receipt, number in (("R9", PAYER), ("A1", "+256772000001"), ("A2", "+256772000002")):
        world.till.pay("thanks", SHILLINGS, receipt, number=number)
    second, first, own = (each.movement_id for each in held(world))
    for movement_id, other_id in ((second, first), (own, ours.transaction_id)):
        world.services.movement_uses.take_as_same(SameMovement(movement_id, BY, SECOND, other_id), operator())
    with unit_of_work():
        lock_movement(Movement.get_by_id(own))
        importing = compete(partial(reconcile, world.services, [mtn_row(ours.row, Id="A2")]))
        lock_row(Movement, first)
    importing.result()
    assert (held(world), check_everything()) == ((), [])


def test_an_import_is_undone_after_what_operators_say_at_that_moment_of_its_movements(
    world: World, compete: Compete
) -> None:
    statement = reconcile(world.services, [Enquired(world, "", PAYER, "").line("N1", "")]).statement
    (moved,) = held(world)
    undo = UndoImport(statement.statement_id, BY, SECOND)
    with unit_of_work():
        world.services.movement_uses.assign(AssignMovement(moved.movement_id, "SCH1042", BY, SECOND), operator())
        undoing = compete(partial(world.services.provider_statements.undo, undo, operator()))
    with pytest.raises(ServiceError, match=f"it alone told of movement {moved.movement_id}"):
        undoing.result()
    assert check_everything() == []


@pytest.mark.parametrize("decision", ["release", "same"])
def test_what_operators_say_of_a_payers_payment_locks_it_after_its_movement(
    world: World, compete: Compete, decision: str
) -> None:
    paid = str(world.notify("R1", PAYER).transaction_id)
    booked = Movement.get(Movement.transaction_id == paid)
    reconcile(world.services, [Enquired(world, "", PAYER, "").line("", "")])
    say = SameMovement(held(world)[0].movement_id, BY, SECOND, paid)
    decide: dict[str, Callable[[], object]] = {
        "release": partial(release, world, booked.id),
        "same": partial(world.services.movement_uses.take_as_same, say, operator()),
    }
    with unit_of_work():
        # As a repeated notice does, and a success under its receipt.
        lock_movement(booked)
        deciding = compete(decide[decision])
        lock_row(Transaction, paid)
    deciding.result()
    assert (len(held(world)), check_everything()) == ({"release": 2, "same": 0}[decision], [])


def test_a_payers_payment_is_released_after_what_failed_because_of_it(
    world: World, ours: Enquired, compete: Compete
) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS + 1, RECEIPT, number=PAYER)
    ours.report()
    settle(world, ours.transaction_id, has_succeeded=False)
    booked = Movement.get(Movement.transaction_id == paid.transaction_id)
    with unit_of_work():
        # As a late answer of its provider does.
        lock_row(Transaction, ours.transaction_id)
        releasing = compete(partial(release, world, booked.id))
        lock_movement(booked)
    releasing.result()
    assert (ours.row.is_in_review, check_everything()) == (True, [])


def test_an_undone_line_gives_its_receipt_away_before_its_movement_is_locked(world: World, compete: Compete) -> None:
    sold(world)
    line = Enquired(world, "", "+256772999998", "").line("R1", "")
    wrong = reconcile(world.services, [[*line[:7], "3,000.00", *line[8:]]]).statement
    reconcile(world.services, [line])
    told = Movement.get(Movement.receipt == "R1")
    with unit_of_work():
        # As a notice of the receipt does.
        lock_receipt(told.account, told.direction, "R1")
        undo = UndoImport(wrong.statement_id, BY, SECOND)
        undoing = compete(partial(world.services.provider_statements.undo, undo, operator()))
        lock_row(Movement, told.id)
    undoing.result()
    assert ([each.receipts for each in held(world)], check_everything()) == ([("R1",)], [])


def test_a_statement_gives_its_receipt_beside_the_one_that_an_answer_gives_at_that_moment(
    world: World, ours: Enquired, compete: Compete
) -> None:
    ours.succeeds()
    ours.ask_now()
    line = mtn_row(ours.row, Id="L1")
    with unit_of_work():
        row = lock_row(Transaction, ours.transaction_id)
        importing = compete(partial(reconcile, world.services, [line]))
        learn_receipt(row, "E1", WayIn.ENQUIRY, world.clock.now())
    importing.result()
    assert (ours.row.provider_transaction_id, ours.row.provider_receipt) == ("E1", "L1")
