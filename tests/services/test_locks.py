"""Locks: an action that depends on a row waits for the transaction that is changing it, and then sees the change.

SQLite has one writer at a time, so PostgreSQL alone is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile
from tests.support.books import check_everything
from tests.support.competitors import Compete
from tests.support.desk import FAILURE, SUCCESS
from tests.support.money import a_client, balances, deposit, operator, request, work
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.services.clients.messages import CreateClient, CreateUser
from ussd_server.services.payouts.messages import ApprovePayout, PayoutView, ReplacePayout
from ussd_server.services.payouts.payouts import PayoutService
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import succeed
from ussd_server.services.reconciliation.imports import lock_imports
from ussd_server.services.reconciliation.messages import ConcludeFromStatement, EndDifference, UndoImport
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.messages import Source
from ussd_server.status import Code, ServiceError

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

SILENT = "+256770000007"
TWO = {"by": "Jane Doe", "second": "Mary Roe"}


@pytest.fixture
def desk(services: Services, clock: MovableClock) -> PayoutDesk:
    return PayoutDesk(services, clock)


def approve_while(desk: PayoutDesk, draft: PayoutView, happens: Callable[[], object]) -> None:
    """Approve a payout; `happens` is called when its money is reserved and nothing is committed."""
    runtime = other_runtime(desk.services, at_kill_point=lambda name: name == "payout.reserved" and happens() and None)
    payouts = PayoutService(runtime, TransactionCreator(runtime))
    payouts.approve(ApprovePayout(draft.payout_id), desk.approver)


def test_a_cancellation_releases_what_an_approval_under_way_reserves(desk: PayoutDesk, compete: Compete) -> None:
    draft = desk.draft_of(2)
    cancelling = []
    approve_while(desk, draft, lambda: cancelling.append(compete(partial(desk.cancel, draft))))
    assert cancelling[0].result().status == "cancelled"
    assert (desk.states(draft), desk.main()) == (["cancelled"] * 2, (50_000_000, 0))
    assert check_everything() == []


def test_a_correction_is_refused_by_an_approval_under_way(desk: PayoutDesk, compete: Compete) -> None:
    draft = desk.draft_of(2)
    correcting = []
    correction = ReplacePayout(draft.payout_id, file=b"phone_number,amount,reference\n+256770000000,100,other\n")
    correct = partial(code_of, lambda: desk.payouts.replace(correction, desk.maker))
    approve_while(desk, draft, lambda: correcting.append(compete(correct)))
    assert correcting[0].result() is Code.INVALID_REQUEST
    assert (desk.see(draft).status, desk.main()) == ("approved", (50_000_000, 20_000))


def test_names_found_during_an_approval_leave_the_payout_approved_and_due(desk: PayoutDesk, compete: Compete) -> None:
    draft = desk.draft(row(name="Grace Auma"))
    (claimed,) = desk.services.payout_sender.claim(1)
    matching = []
    approve_while(desk, draft, lambda: matching.append(compete(lambda: desk.services.payout_sender.advance(claimed))))
    matching[0].result()
    desk.work(2)
    assert (desk.see(draft).status, desk.states(draft)) == ("completed", ["succeeded"])


def test_a_release_waits_for_a_cancellation_and_completes_it(desk: PayoutDesk, compete: Compete) -> None:
    draft = desk.draft_of(2)
    desk.approve(draft)
    (claimed,) = desk.services.payout_sender.claim(1)
    with unit_of_work():
        desk.cancel(draft)
        releasing = compete(lambda: desk.services.payout_sender.advance(claimed))
    releasing.result()
    assert (desk.see(draft).status, desk.states(draft)) == ("cancelled", ["cancelled"] * 2)


def test_a_row_that_is_being_sent_is_not_cancelled(desk: PayoutDesk, compete: Compete) -> None:
    draft = desk.draft_of(1)
    desk.approve(draft)
    desk.tick()
    (item,) = desk.items(draft)
    with unit_of_work():
        sent = lock_row(Transaction, item.transaction_id)
        cancelling = compete(partial(code_of, partial(desk.cancel, draft)))
        sent.asked_at = desk.clock.now()
        sent.save(only=[Transaction.asked_at])
    cancelling.result()
    assert (desk.states(draft), desk.main()) == (["sent"], (50_000_000, 10_000))


@pytest.fixture
def silent(services: Services, clock: MovableClock) -> Transaction:
    """A collection that went to review, because its provider never answered."""
    made = services.transactions.create(request("collection", SILENT), a_client()).transaction.transaction_id
    work(services, clock, 45, step=5)
    found: Transaction = Transaction.get_by_id(made)
    return found


def succeed_while(services: Services, silent: Transaction, happens: Callable[[], object]) -> None:
    """Let a worker write the success of a payment; `happens` is called when it has the row."""
    with unit_of_work():
        row = lock_row(Transaction, silent.id)
        happens()
        succeed(row, Source.POLL, services.clock.now(), ReceiptWriter(services.runtime))


def difference_of(services: Services, silent: Transaction) -> tuple[str, str]:
    """The ids of a statement in which the payment succeeded, and of the difference that it has."""
    statement = reconcile(services, [mtn_row(silent, Id="S-1")]).statement
    (difference,) = open_reviews(services)
    return statement.statement_id, difference.difference_id


def test_a_review_is_not_settled_against_an_outcome_that_a_worker_writes(
    services: Services, silent: Transaction, compete: Compete
) -> None:
    settling = []
    settle = partial(services.reviews.end, EndReview(silent.id, "by phone", **TWO, has_succeeded=False), operator())
    succeed_while(services, silent, lambda: settling.append(compete(settle)))
    with pytest.raises(ServiceError, match="not on the review list"):
        settling[0].result()
    assert balances(silent.client_id)["main"] == (500_000, 0)


def test_a_statement_does_not_conclude_again_what_a_worker_concludes(
    services: Services, silent: Transaction, compete: Compete
) -> None:
    _, difference_id = difference_of(services, silent)
    concluding = []
    conclude = partial(services.differences.conclude, ConcludeFromStatement(difference_id, "line 5", **TWO), operator())
    succeed_while(services, silent, lambda: concluding.append(compete(conclude)))
    with pytest.raises(ServiceError, match="has succeeded"):
        concluding[0].result()
    assert balances(silent.client_id)["main"] == (500_000, 0)


@pytest.mark.parametrize("how", ["end", "conclude"])
def test_a_difference_that_an_import_takes_with_it_is_not_ended(
    services: Services, silent: Transaction, compete: Compete, how: str
) -> None:
    statement_id, difference_id = difference_of(services, silent)
    actions: dict[str, Callable[[], object]] = {
        "end": lambda: services.differences.end(EndDifference(difference_id, "paid in cash"), operator()),
        "conclude": lambda: services.differences.conclude(
            ConcludeFromStatement(difference_id, "line 5", **TWO), operator()
        ),
    }
    with unit_of_work():
        lock_imports()
        ending = compete(actions[how])
        services.provider_statements.undo(UndoImport(statement_id, **TWO, reason="the wrong file"), operator())
    with pytest.raises(ServiceError, match="Difference not found"):
        ending.result()


def test_a_difference_is_ended_once_though_its_proposal_is_confirmed_at_the_same_moment(
    services: Services, silent: Transaction, compete: Compete
) -> None:
    _, difference_id = difference_of(services, silent)
    with unit_of_work():
        # What the confirmation of a proposal does: it shows the effect first, and then concludes.
        services.differences.require_conclusive(difference_id, operator())
        ending = compete(lambda: services.differences.end(EndDifference(difference_id, "paid in cash"), operator()))
        services.differences.conclude(ConcludeFromStatement(difference_id, "line 5", **TWO), operator())
    with pytest.raises(ServiceError, match="has ended"):
        ending.result()


def test_a_late_success_takes_what_is_left_of_money_that_is_being_spent_and_a_shortfall(
    services: Services, clock: MovableClock, compete: Compete
) -> None:
    context = a_client()
    deposit(services, context, 5000)
    provider = services.runtime.providers.get("sandbox")
    assert provider is not None
    conclude, made = services.processing.apply_answer, list[str]()
    for name in ("first", "second"):
        asked = request("disbursement", shillings=4000, reference=name)
        made.append(services.transactions.create(asked, context).transaction.transaction_id)
        conclude(made[-1], provider.schedule, FAILURE, Source.POLL, clock.now())
    success = replace(SUCCESS, amount_cents=400_000)
    with unit_of_work():
        succeed(lock_row(Transaction, made[0]), Source.POLL, clock.now(), ReceiptWriter(services.runtime))
        succeeding = compete(lambda: conclude(made[1], provider.schedule, success, Source.POLL, clock.now()))
    succeeding.result()
    books = balances(context.client_id)
    assert (books["main"], books["shortfall"]) == ((0, 0), (-300_000, 0))
    assert check_everything() == []


def test_of_two_first_people_of_a_client_one_is_made(services: Services, compete: Compete) -> None:
    client_id = services.clients.create(CreateClient("school"), operator()).client_id

    def first(email: str) -> CreateUser:
        return CreateUser(client_id, email, "owner", "a password of a person", is_first=True)

    with unit_of_work():
        services.clients.create_user(first("ann@school.example"), operator())
        again = compete(partial(code_of, lambda: services.clients.create_user(first("ben@school.example"), operator())))
    assert again.result() is Code.INVALID_REQUEST
    assert [each.email for each in services.clients.list_users(client_id, operator())] == ["ann@school.example"]
