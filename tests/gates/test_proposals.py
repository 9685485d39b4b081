"""A proposal about money that another payment may have: the operator who confirms it has seen that payment."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.gates.two_records import HASHED, PAYER, RECEIPT, main_of, other_client
from tests.gates.ways_in import CENTS, SHILLINGS, Enquired, World
from tests.services.operators.test_operators import context_of
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
