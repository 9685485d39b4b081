"""A receipt is one however it is written and whenever it is learnt."""

from __future__ import annotations

import pytest

from tests.gates.two_records import PAYER, RECEIPT, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, WAYS, Enquired, World
from tests.services.reconciliation.statement_files import reconcile
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import OUT, MovementReceipt
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.receipts import lock_receipts
from ussd_server.services.movements.messages import AssignMovement
from ussd_server.services.reconciliation.messages import Verdict
from ussd_server.services.search.messages import Search
from ussd_server.services.transactions.messages import ListTransactions, Source
from ussd_server.status import ServiceError


@pytest.mark.parametrize("written", ["mt90001", "MT90001", "MT 90001", "MT\u200b90001", "ＭＴ９０００１", "MT–90-001"])
def test_a_receipt_is_the_same_however_it_is_written(world: World, written: str) -> None:
    first = world.notify("Mt90001", PAYER)
    assert world.notify(written, PAYER) == first
    assert main_of(world.client.id) == 2 * CENTS


@pytest.mark.parametrize("is_told_again", [True, False])
def test_money_under_the_receipt_of_a_success_is_not_booked_beside_it_however_it_is_written(
    world: World, ours: Enquired, is_told_again: bool
) -> None:
    world.till.pay("thanks", SHILLINGS - 1, " mt-90 001", number=PAYER)
    ours.succeeds("MT90-001")
    ours.ask_now()
    if is_told_again:
        world.till.pay("SCH1042", SHILLINGS - 1, "mt 90001", number=PAYER)
    (other,) = held(world)
    assert [each.transaction_id for each in other.beside] == [ours.transaction_id]
    assign = AssignMovement(other.movement_id, "SCH1042", BY, SECOND)
    with pytest.raises(ServiceError, match=f"has this receipt: transaction {ours.transaction_id}"):
        world.services.movement_uses.assign(assign, operator())


@pytest.mark.both_databases
@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
@pytest.mark.parametrize("written", ["mt-90 001", "MT90001"])
def test_money_under_the_receipt_of_a_payment_that_did_not_succeed_is_held_however_its_provider_wrote_it(
    world: World, ours: Enquired, outcome: Outcome, written: str
) -> None:
    answer = ProviderAnswer(outcome, provider_transaction_id=written, amount_cents=CENTS - 1)
    world.provider.answers[ours.transaction_id] = answer
    ours.ask_now()
    assert world.till.pay("SCH1042", SHILLINGS - 2, " Mt90001", number=PAYER).status == "held"
    (other,) = held(world)
    assert [each.transaction_id for each in other.beside] == [ours.transaction_id]
    assert "has its receipt" in str(other.held_because)


@pytest.mark.both_databases
def test_money_under_the_second_receipt_of_a_payment_that_did_not_succeed_is_held_however_it_is_written(
    world: World, ours: Enquired
) -> None:
    answer = ProviderAnswer(Outcome.FAILED, provider_transaction_id="R1", receipt="mt-90 001", amount_cents=CENTS - 1)
    world.provider.answers[ours.transaction_id] = answer
    ours.ask_now()
    assert world.till.pay("SCH1042", SHILLINGS - 2, " Mt90001", number=PAYER).status == "held"
    assert [each.transaction_id for each in held(world)[0].beside] == [ours.transaction_id]


def test_a_reference_of_the_bank_is_the_same_however_it_is_written(world: World) -> None:
    pair = [WAYS[WayIn.SETTLEMENT](world, f"of {written}", PAYER, written) for written in ("FT26", "ft-26")]
    for each in pair:
        each.prepare()
    for each in pair:
        each.report()
    settlements = Transaction.select().where(Transaction.type == "settlement").order_by(Transaction.id)
    assert [each.status for each in settlements] == ["succeeded", "created"]


@pytest.mark.parametrize("written", [RECEIPT, "3100 0000-041", "31000000041\u200b"])
def test_a_payment_is_found_by_its_receipt_however_it_is_written(world: World, ours: Enquired, written: str) -> None:
    ours.report()
    found = world.services.transactions.list(
        ListTransactions(provider_transaction_id=written), operator_context(world.client.id)
    )
    assert [each.transaction_id for each in found.items] == [ours.transaction_id]
    hits = world.services.search.find(Search(written), operator()).items
    assert [hit.id for hit in hits] == [ours.transaction_id]


@pytest.mark.parametrize("written", ["3100 0000-041", "31000000041\u200b"])
def test_a_line_of_a_statement_is_matched_however_its_receipt_is_written(
    world: World, ours: Enquired, written: str
) -> None:
    ours.report()
    statement = reconcile(world.services, [ours.line(written, "")]).statement
    assert (statement.lines[Verdict.MATCHED], statement.difference_count) == (1, 0)


def test_a_second_receipt_of_one_collection_is_free_for_another(world: World, ours: Enquired) -> None:
    ours.report()
    row = ours.row
    answer = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id="R2", amount_cents=CENTS)
    world.processing.apply_answer(row.id, world.provider.schedule, answer, Source.POLL, world.clock.now())
    assert ours.row.provider_transaction_id == RECEIPT
    second = Enquired(world, "public-2", "+256772000009", "R2")
    second.prepare()
    second.report()
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []


def test_a_collection_learns_its_receipt_after_its_success(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    answer = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id=RECEIPT, amount_cents=CENTS)
    world.processing.apply_answer(ours.transaction_id, world.provider.schedule, answer, Source.POLL, world.clock.now())
    assert world.notify(RECEIPT, PAYER).transaction_id == ours.transaction_id
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_receipts_that_are_locked_together_stay_as_they_were_written(services: Services) -> None:
    with unit_of_work():
        lock_receipts("bank", OUT, ("ft-2", "FT 1", ""))
    assert [row.written for row in MovementReceipt.select().order_by(MovementReceipt.receipt)] == ["FT 1", "ft-2"]
