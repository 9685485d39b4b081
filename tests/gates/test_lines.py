"""What lines of statements moved: held at once, by its own amount, and taken back with its import."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from tests.gates.two_records import PAYER, RECEIPT, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.days.closing import at_hour, close, cover
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile
from tests.support.money import operator
from ussd_server.models.transactions import Transaction
from ussd_server.services.gates.messages import Told
from ussd_server.services.gates.movements import find_or_make
from ussd_server.services.gates.receipts import Money
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    MovementView,
    SameMovement,
    UndonePayment,
)
from ussd_server.services.reconciliation import line_movements
from ussd_server.services.reconciliation.messages import CloseDay, UndoImport
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("books")]


@pytest.fixture
def unknown(world: World) -> Enquired:
    """A payer's payment that no notice told, as a line of a statement."""
    return Enquired(world, "unknown", PAYER, "N1")


@pytest.fixture
def day(world: World) -> date:
    at_hour(world.clock, 9)
    return world.clock.now().astimezone(KAMPALA).date()


def imported(world: World, *lines: list[str]) -> str:
    return reconcile(world.services, list(lines)).statement.statement_id


def undo(world: World, statement_id: str) -> None:
    world.services.provider_statements.undo(UndoImport(statement_id, BY, SECOND), operator())


def assign(world: World, movement: MovementView) -> MovementView:
    return world.services.movement_uses.assign(AssignMovement(movement.movement_id, "SCH1042", BY, SECOND), operator())


def collected(world: World, receipt: str | None) -> Enquired:
    way = Enquired(world, "silent", PAYER, RECEIPT)
    way.prepare()
    way.succeeds(receipt)
    way.ask_now()
    return way


def test_an_undone_import_takes_back_what_it_alone_told(world: World, unknown: Enquired) -> None:
    line = unknown.line("N1", "")
    statement_id = imported(world, line)
    (first,) = held(world)
    undo(world, statement_id)
    assert held(world) == ()
    with pytest.raises(ServiceError, match="The import that told of it was undone"):
        assign(world, first)
    imported(world, line)
    (again,) = held(world)
    assert (again.movement_id, again.receipts) == (first.movement_id, ("N1",))


def test_what_an_undone_import_told_comes_again_with_its_real_amount(world: World, unknown: Enquired) -> None:
    undo(world, imported(world, [*unknown.line("N1", "")[:7], "50.00", "UGX", "0", "1,000,000"]))
    before = main_of(world.client.id)
    told = world.till.pay("SCH1042", SHILLINGS, "N1", number=PAYER, at=world.clock.now())
    assert told.status == "booked"
    assert (held(world), main_of(world.client.id) - before) == ((), CENTS)


def test_an_import_stays_while_a_movement_that_it_alone_told_is_used(world: World, unknown: Enquired) -> None:
    statement_id = imported(world, unknown.line("N1", ""))
    used = assign(world, held(world)[0])
    with pytest.raises(ServiceError, match=f"it alone told of movement {used.movement_id} .payment."):
        undo(world, statement_id)
    released = EndMovement(used.movement_id, "Another code was meant", BY, SECOND)
    world.services.releases.release(released, operator())
    undo(world, statement_id)
    assert held(world) == ()


def test_an_import_is_undone_although_what_it_told_is_used_while_another_statement_has_its_line(
    world: World, unknown: Enquired
) -> None:
    line = unknown.line("N1", "")
    first = imported(world, line)
    used = assign(world, held(world)[0])
    second = imported(world, line, unknown.line("N2", ""))
    undo(world, first)
    while world.services.provider_statements.clean():
        pass
    shown = world.services.movements.show(used.movement_id, operator())
    assert (shown.state, shown.line and shown.line.statement_id) == ("payment", second)
    with pytest.raises(ServiceError, match=f"it alone told of movement {used.movement_id} .payment."):
        undo(world, second)


def test_what_a_notice_or_another_statement_told_too_stays_held(world: World, unknown: Enquired) -> None:
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER, at=world.clock.now())
    lines = unknown.line("N1", ""), unknown.line("N2", "")
    first, second = imported(world, *lines), imported(world, lines[1], unknown.line("N3", ""))
    undo(world, first)
    assert [each.receipts for each in held(world)] == [("N3",), ("N2",), ("N1",)]
    undo(world, second)
    assert [each.receipts for each in held(world)] == [("N1",)]


def test_a_success_whose_line_has_another_amount_is_replaced_by_what_moved(world: World, ours: Enquired) -> None:
    before = main_of(world.client.id)
    ours.report()
    imported(world, mtn_row(ours.row, Amount="3,000.00"))
    (moved,) = held(world)
    assert (moved.amount_cents, [each.transaction_id for each in moved.beside]) == (300_000, [ours.transaction_id])
    assert open_reviews(world.services) == ()
    case = CorrectMovement(moved.movement_id, world.client.id, "Case 17", BY, SECOND)
    for use in (
        lambda: world.services.corrections.correct(case, operator()),
        lambda: assign(world, moved),
        lambda: world.services.movement_uses.take_as_own(EndMovement(moved.movement_id, "x", BY, SECOND), operator()),
    ):
        with pytest.raises(ServiceError, match="counts, with another amount; say first that it never moved"):
            use()
    world.services.releases.end_unmoved(UndonePayment(ours.transaction_id, "Case 17", BY, SECOND), operator())
    world.services.corrections.correct(case, operator())
    assert (ours.row.status, main_of(world.client.id) - before) == ("reversed", 300_000)


def test_a_payers_payment_whose_line_has_another_amount_is_booked_anew(world: World, unknown: Enquired) -> None:
    before = main_of(world.client.id)
    world.till.pay("SCH1042", SHILLINGS, "N1", number=PAYER, at=world.clock.now())
    imported(world, [*unknown.line("N1", "")[:7], "3,000.00", "UGX", "0", "1,000,000"])
    (moved,) = held(world)
    payment = Transaction.get_by_id(moved.beside[0].transaction_id)
    used = world.services.movements.of_payment(payment.id, operator())
    assert used is not None
    world.services.releases.release(EndMovement(used.movement_id, "The line has 3,000", BY, SECOND), operator())
    same = SameMovement(used.movement_id, BY, SECOND, moved.movement_id)
    world.services.movement_uses.take_as_same(same, operator())
    assign(world, moved)
    assert (held(world), main_of(world.client.id) - before) == ((), 300_000)


def test_a_held_movement_does_not_keep_its_day_open(world: World, day: date) -> None:
    ours = collected(world, RECEIPT)
    statement_id = imported(world, mtn_row(ours.row), Enquired(world, "", "+256772000001", "").line("N1", ""))
    world.clock.advance(timedelta(days=1).total_seconds())
    cover(world.services, statement_id, day)
    bridge = close(world.services, day, SECOND).bridge
    steps = [(step.verdict, step.count, step.amount_cents) for step in bridge]
    assert steps == [("matched", 1, 0), ("held", 1, -CENTS)]


def test_a_held_movement_that_may_be_a_silent_success_does(world: World, day: date) -> None:
    ours = collected(world, None)
    statement_id = imported(world, ours.line("N1", ""))
    (moved,) = held(world)
    assert [each.transaction_id for each in moved.beside] == [ours.transaction_id]
    world.clock.advance(timedelta(days=1).total_seconds())
    cover(world.services, statement_id, day)
    seen = world.services.days.bridge(CloseDay(day, "sandbox", BY), operator())
    assert (seen.open_count, seen.undecided_count) == (1, 1)
    with pytest.raises(ServiceError, match="or say first what a held movement beside a payment is"):
        close(world.services, day, SECOND)
    world.services.movement_uses.take_as_same(SameMovement(moved.movement_id, BY, SECOND), operator())
    world.clock.advance(61)
    bridge = close(world.services, day, SECOND).bridge
    assert [(step.verdict, step.amount_cents) for step in bridge] == [("matched", 0)]


def test_an_undone_import_leaves_what_proved_to_be_the_money_of_its_line(world: World, unknown: Enquired) -> None:
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER, at=world.clock.now())
    first, second = imported(world, unknown.line("L1", "")), imported(world, unknown.line("L2", ""))
    of_second, of_first, of_till = held(world)
    for each in (of_first, of_till):
        same = SameMovement(each.movement_id, BY, SECOND, of_second.movement_id)
        world.services.movement_uses.take_as_same(same, operator())
    for statement_id in (second, first):
        undo(world, statement_id)
        assert [each.movement_id for each in held(world)] == [of_second.movement_id], "the till told of it, too"


def test_what_two_statements_told_as_one_is_taken_back_with_the_last_of_them(world: World, unknown: Enquired) -> None:
    first, second = imported(world, unknown.line("L1", "")), imported(world, unknown.line("L2", ""))
    of_second, of_first = held(world)
    same = SameMovement(of_first.movement_id, BY, SECOND, of_second.movement_id)
    world.services.movement_uses.take_as_same(same, operator())
    undo(world, second)
    assert [each.movement_id for each in held(world)] == [of_second.movement_id]
    undo(world, first)
    assert held(world) == ()
    imported(world, unknown.line("L1", ""))
    assert [each.movement_id for each in held(world)] == [of_second.movement_id], "its line tells of it again"


@pytest.mark.parametrize("told_by", ["till", "line"])
def test_what_only_an_undone_import_told_is_not_held_when_it_proves_to_be_other_money(
    world: World, unknown: Enquired, told_by: str
) -> None:
    if told_by == "till":
        world.till.pay("thanks", SHILLINGS, "N1", number=PAYER, at=world.clock.now())
        undone = imported(world, unknown.line("L1", ""))
        goes, stays = held(world)
    else:
        imported(world, unknown.line("L1", ""))
        undone = imported(world, unknown.line("L2", ""))
        stays, goes = held(world)
    same = SameMovement(goes.movement_id, BY, SECOND, stays.movement_id)
    world.services.movement_uses.take_as_same(same, operator())
    undo(world, undone)
    assert [each.movement_id for each in held(world)] == [stays.movement_id]
    world.services.releases.release(EndMovement(goes.movement_id, "A mistake", BY, SECOND), operator())
    left = stays if told_by == "till" else goes
    assert [(each.movement_id, each.receipts) for each in held(world)] == [(left.movement_id, left.receipts)]


@pytest.mark.parametrize("is_payers", [True, False])
def test_a_line_without_an_id_names_the_payment_of_which_it_may_be_the_money(
    world: World, ours: Enquired, is_payers: bool
) -> None:
    number = "+256772000005" if is_payers else PAYER
    ours.report()
    paid = str(world.notify("R1", number).transaction_id) if is_payers else ours.transaction_id
    before = main_of(world.client.id)
    statement_id = imported(world, Enquired(world, "", number, "").line("", ""))
    (moved,) = held(world)
    assert [each.transaction_id for each in moved.beside] == [paid]
    assert moved.held_because == (
        f"It may be the money of transaction {paid}" if is_payers else f"It may be what transaction {paid} asked for"
    )
    world.services.movement_uses.take_as_same(SameMovement(moved.movement_id, BY, SECOND), operator())
    assert (held(world), main_of(world.client.id)) == ((), before)
    undo(world, statement_id)
    assert held(world) == ()


def test_a_line_without_an_id_of_another_number_or_day_names_no_payment(world: World, unknown: Enquired) -> None:
    world.notify("R2", PAYER)
    world.clock.advance(4 * 86_400)
    world.notify("R1", "+256772999999")
    imported(world, unknown.line("", ""))
    assert [each.beside for each in held(world)] == [()]


def test_a_line_without_an_id_is_held_once_wherever_files_have_it(world: World, unknown: Enquired) -> None:
    line = unknown.line("", "")
    imported(world, unknown.line("L1", ""), line)
    imported(world, line)
    assert [each.receipts for each in held(world)] == [(), ("L1",)]


def test_lines_that_nothing_knows_are_held_at_once_and_only_the_others_one_by_one(
    world: World, unknown: Enquired, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one: list[str] = []

    def counted(told: Told, now: datetime) -> Money:
        one_by_one.append(told.receipt)
        return find_or_make(told, now)

    monkeypatch.setattr(line_movements, "find_or_make", counted)
    world.till.pay("thanks", SHILLINGS, "N9")
    imported(world, *(unknown.line(receipt, "") for receipt in ("N1", "N2", "N9", "N3", "n-3")))
    assert (one_by_one, len(held(world))) == (["N9", "N3", "n-3"], 4)
    silent = Enquired(world, "silent", "+256772000003", "")
    silent.prepare()
    silent.report()
    imported(world, unknown.line("N4", ""))
    assert one_by_one[3:] == ["N4"], "a success without a receipt may be the money of any line of its amount"
