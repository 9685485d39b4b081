"""A proposal about money that another payment may have: the operator who confirms it has seen that payment."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.gates.test_corrections import correct
from tests.gates.two_records import HASHED, PAYER, RECEIPT, held, main_of, other_client
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.operators.test_operators import context_of
from tests.support.money import operator
from ussd_server.services.movements.messages import SameMovement
from ussd_server.services.operators.messages import ConfirmProposal, Propose
from ussd_server.status import ServiceError


def test_a_proposal_to_settle_is_confirmed_only_with_the_payment_that_contests_the_money(
    world: World, clock: MovableClock
) -> None:
    ours = Enquired(world, "public-1", PAYER, RECEIPT)
    ours.prepare()
    proposals, tea = world.services.proposals, other_client(world.services)
    ann, ben = (context_of(world.services, clock, f"{name}@ops.example") for name in ("ann", "ben"))
    ours.succeeds(None, CENTS - 1)
    ours.ask_now()
    settle = Propose("review.settle", ours.transaction_id, "The payer says so", {"has_succeeded": True})
    made = proposals.propose(settle, ann)
    (before,) = proposals.show_open(ben)
    paid = world.till.pay("TEA1", SHILLINGS, RECEIPT, number=HASHED)
    ours.succeeds(RECEIPT)
    ours.ask_now()
    with pytest.raises(ServiceError, match="the proposal does something else now than was shown"):
        proposals.confirm(ConfirmProposal(made.proposal_id, before.digest), ben)
    assert (ours.row.status, main_of(world.client.id), main_of(tea.id)) == ("pending", CENTS, CENTS)
    (now,) = proposals.show_open(ben)
    assert before.effect is not None
    assert now.effect is not None
    assert before.effect.state_now.endswith("and not what was asked")
    assert now.effect.state_now == (
        f"pending, under review: its receipt is that of transaction {paid.transaction_id}. Transaction "
        f"{paid.transaction_id} of tea, which may be the same money, is succeeded"
    )


def test_a_proposal_to_take_a_use_back_says_what_becomes_of_its_payment(world: World, clock: MovableClock) -> None:
    ours = Enquired(world, "silent", PAYER, RECEIPT)
    ours.prepare()
    ours.succeeds()
    ours.ask_now()
    for receipt, number in (("N1", PAYER), ("N2", "+256772000009")):
        world.till.pay("thanks", SHILLINGS, receipt, number=number)
    other, mine = held(world)
    world.services.movement_uses.take_as_same(SameMovement(mine.movement_id, BY, SECOND), operator())
    corrected = correct(world, other)
    ann, ben = (context_of(world.services, clock, f"{name}@ops.example") for name in ("ann", "ben"))
    for each in (mine, other):
        world.services.proposals.propose(Propose("movement.release", each.movement_id, "A mistake"), ann)
    assert {each.effect and each.effect.state_after for each in world.services.proposals.show_open(ben)} == {
        f"held; transaction {ours.transaction_id} still counts, without this movement and its receipts",
        f"held; transaction {corrected.id} is reversed",
    }
