"""Two operators say that a held movement is known money: only money that it can be, and that counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gates.two_records import PAYER, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World, succeed_between_two
from tests.services.reconciliation.statement_files import reconcile
from tests.support.books import check_everything
from tests.support.money import operator, request
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.movements.messages import AssignMovement, SameMovement, UndonePayment
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases


@pytest.fixture(autouse=True)
def books(services: Services) -> Iterator[None]:
    yield
    assert check_everything() == []


def say_same(world: World, transaction_id: str) -> None:
    (movement,) = held(world)
    same = SameMovement(movement.movement_id, BY, SECOND, transaction_id)
    world.services.movement_uses.take_as_same(same, operator())


def test_a_success_that_never_moved_gets_no_money(world: World, ours: Enquired) -> None:
    reconcile(world.services, succeed_between_two(ours, None))
    world.services.releases.end_unmoved(UndonePayment(ours.transaction_id, "Case 17", BY, SECOND), operator())
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER)
    with pytest.raises(ServiceError, match="It waits for no payment"):
        say_same(world, ours.transaction_id)


def test_money_that_came_in_is_not_that_of_a_payment_that_left(world: World) -> None:
    made = world.services.transactions.create(
        request("disbursement", shillings=SHILLINGS, reference="out"), operator_context(world.client.id)
    ).transaction
    world.provider.answers[made.transaction_id] = ProviderAnswer(Outcome.SUCCEEDED, amount_cents=CENTS)
    world.work()
    world.processing.bring_forward(str(Transaction.get_by_id(made.transaction_id).provider_reference))
    world.work()
    world.till.pay("thanks", SHILLINGS, "N1", number=None)
    with pytest.raises(ServiceError, match="It waits for no payment"):
        say_same(world, made.transaction_id)


@pytest.mark.parametrize("has_code", [True, False])
def test_what_the_payer_typed_stays_with_the_money_whichever_movement_goes(world: World, has_code: bool) -> None:
    world.till.pay("thanks a lot", SHILLINGS, "N1", number=PAYER, name="JANE")
    line = Enquired(world, "", "+256772000001", "").line("L1", "")
    reconcile(world.services, [line])
    of_line, of_till = held(world)
    goes, stays = (of_till, of_line) if has_code else (of_line, of_till)
    same = SameMovement(goes.movement_id, BY, SECOND, stays.movement_id)
    world.services.movement_uses.take_as_same(same, operator())
    (left,) = held(world)
    assert (left.code, left.name, set(left.receipts)) == ("thanks a lot", "JANE", {"N1", "L1"})
    assert left.phone_number == stays.phone_number


def test_a_payers_payment_that_a_line_without_an_id_told_gets_the_receipt_of_its_notice(world: World) -> None:
    reconcile(world.services, [Enquired(world, "", PAYER, "").line("", "")])
    assign = AssignMovement(held(world)[0].movement_id, "SCH1042", BY, SECOND)
    booked = world.services.movement_uses.assign(assign, operator()).use
    assert booked is not None
    before = main_of(world.client.id)
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER)
    say_same(world, str(booked.transaction_id))
    assert (held(world), main_of(world.client.id)) == ((), before)
    assert world.notify("N1", PAYER).transaction_id == booked.transaction_id
