"""Settlement: every order in which workers, companies, callbacks and crashes can meet over one payment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.books import check_everything
from tests.services.money import a_client, balances, deposit, operator, wish
from ussd_server.house import Services
from ussd_server.messages.providers import Answer, Direction, FailureCode, Outcome, Pace, Payment
from ussd_server.messages.review import EndReview
from ussd_server.messages.transactions import CreateRefund, GetTransaction, TransactionStatus, TransactionView
from ussd_server.models.events import Event
from ussd_server.models.transactions import Transaction
from ussd_server.rpc.context import CallContext
from ussd_server.services.outcomes import (
    REVIEW_AMOUNT,
    REVIEW_CONTRADICTION,
    REVIEW_LATE,
    REVIEW_RETRACTED,
    REVIEW_SILENT,
)
from ussd_server.services.providers import Providers
from ussd_server.services.settlement import Settlement

SUCCESS = Answer(Outcome.SUCCEEDED, provider_transaction_id="R-1", amount_cents=500_000)
FAILURE = Answer(Outcome.FAILED, FailureCode.PAYER_DECLINED)
PENDING, UNKNOWN = Answer(Outcome.PENDING), Answer(Outcome.UNKNOWN)
NOT_FOUND, NOT_SENT = Answer(Outcome.NOT_FOUND), Answer(Outcome.NOT_SENT)
PACE = Pace(
    delays=(5.0, 10.0), not_found_means_lost_after=60.0, late_check_after=600.0, give_up_after=1000.0, per_second=10.0
)


@dataclass
class Company:
    """A company whose every answer a test has written; the last one of each kind repeats."""

    asked: list[Answer] = field(default_factory=lambda: [PENDING])
    told: list[Answer] = field(default_factory=lambda: [PENDING])
    while_asked: Callable[[], object] = lambda: None
    while_told: Callable[[], object] = lambda: None
    asks: list[Payment] = field(default_factory=list)
    enquiries: int = 0
    mistakes: list[Exception] = field(default_factory=list)
    name: str = "sandbox"
    pace: Pace = PACE
    moves_whole_shillings_only: bool = False
    refunds_in_full_only: bool = False
    available: bool = True

    def ask(self, payment: Payment, timeout_seconds: float) -> Answer:
        self.asks.append(payment)
        self.meanwhile(self.while_asked)
        return self.asked.pop(0) if len(self.asked) > 1 else self.asked[0]

    def enquire(self, payment: Payment, timeout_seconds: float) -> Answer:
        self.enquiries += 1
        self.meanwhile(self.while_told)
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]

    def meanwhile(self, happens: Callable[[], object]) -> None:
        """Keep what goes wrong: a worker goes on after an exception of an adapter, but a test must not."""
        try:
            happens()
        except Exception as mistake:
            self.mistakes.append(mistake)
            raise

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        return None

    def lookup_name(self, phone_number: str, timeout_seconds: float) -> str | None:
        return None

    def reference_in(self, callback: bytes) -> str | None:
        return None


class Desk:
    """One payment of one client, and the workers who settle it with a company."""

    def __init__(self, house: Services, clock: MovableClock, company: Company) -> None:
        self.house, self.clock, self.company = house, clock, company
        self.settlement = self.another_worker()
        self.call: CallContext = a_client()
        self.id = ""

    def another_worker(
        self,
        within_pace: Callable[[str], bool] = lambda _: True,
        at_kill_point: Callable[[str], None] = lambda _: None,
    ) -> Settlement:
        return Settlement(
            Providers([self.company], lambda _: None), self.clock, within_pace, at_kill_point=at_kill_point
        )

    def order(self, kind: str = "collection", **more: object) -> str:
        if kind == "disbursement":
            deposit(self.house, self.call, 5000)
        self.id = self.house.transactions.create(wish(kind, **more), self.call).transaction.transaction_id  # type: ignore[arg-type]
        return self.id

    def work(self, seconds: float = 0.0) -> None:
        """Claim and advance what is due now, and then whatever falls due within `seconds`."""
        until = self.clock.now() + timedelta(seconds=seconds)
        while True:
            for claimed in self.settlement.claim(10):
                self.settlement.advance(claimed)
                self.check()
            row = self.row
            if row.due_at is None or row.due_at > until:
                break
            self.clock.advance(max(0.001, (row.due_at - self.clock.now()).total_seconds()))
        if self.clock.now() < until:
            self.clock.advance((until - self.clock.now()).total_seconds())

    def check(self) -> None:
        """What must hold at every moment: nobody unfinished is forgotten, and the money says what the state says."""
        row = self.row
        open_review = row.review_opened_at is not None and row.review_closed_at is None
        assert row.completed_at or row.due_at or open_review
        main, reserved = balances(self.call.client_id).get("main", (0, 0))
        if row.type == "collection":
            assert (main, reserved) == (500_000 if row.status == "succeeded" else 0, 0)
        if row.type == "disbursement" and not row.late:
            assert main == (0 if row.status == "succeeded" else 500_000)
            assert reserved == (0 if row.completed_at else 500_000)

    @property
    def row(self) -> Transaction:
        found: Transaction = Transaction.get_by_id(self.id)
        return found

    @property
    def view(self) -> TransactionView:
        return self.house.transactions.get(GetTransaction(self.id), self.call)

    @property
    def statuses(self) -> list[str]:
        return [change.status.value for change in self.view.events]

    def events(self, event_type: str) -> int:
        count: int = Event.select().where(Event.object_id == self.id, Event.type == event_type).count()
        return count


@pytest.fixture
def company() -> Iterator[Company]:
    company = Company()
    yield company
    assert company.mistakes == []


@pytest.fixture
def desk(house: Services, clock: MovableClock, company: Company) -> Desk:
    return Desk(house, clock, company)


def test_whoever_slept_longer_than_its_lease_enquires_instead_of_asking_again(desk: Desk, company: Company) -> None:
    desk.order()
    sleeper, other = desk.another_worker(), desk.settlement
    (claimed,) = sleeper.claim(1)
    assert other.claim(1) == []
    desk.clock.advance(61)
    assert other.claim(1) == [claimed]
    other.advance(claimed)
    sleeper.advance(claimed)
    assert (len(company.asks), company.enquiries) == (1, 1)


def test_two_workers_at_the_very_moment_of_asking_ask_once(desk: Desk, company: Company) -> None:
    desk.order()
    other = desk.settlement

    def overtake(point: str) -> None:
        if point == "claimed" and not company.asks:
            desk.clock.advance(61)
            assert other.claim(1) == [claimed]
            other.advance(claimed)

    sleeper = desk.another_worker(at_kill_point=overtake)
    (claimed,) = sleeper.claim(1)
    sleeper.advance(claimed)
    assert len(company.asks) == 1


@pytest.mark.parametrize("last", [SUCCESS, FAILURE, PENDING, UNKNOWN, NOT_FOUND, NOT_SENT])
@pytest.mark.parametrize("first", [SUCCESS, FAILURE, PENDING, UNKNOWN, NOT_FOUND])
@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_an_answer_that_was_overtaken_by_another_moves_money_once(
    desk: Desk, company: Company, kind: str, first: Answer, last: Answer
) -> None:
    desk.order(kind)
    company.asked, company.told = [last], [first]

    def overtake() -> None:
        company.while_asked = lambda: None
        assert desk.settlement.bring_forward(desk.row.provider_reference)
        other = desk.another_worker()
        (claimed,) = other.claim(1)
        other.advance(claimed)
        desk.check()

    company.while_asked = overtake
    (claimed,) = desk.settlement.claim(1)
    desk.settlement.advance(claimed)
    if first is not FAILURE:
        desk.check()
    row = desk.row
    if SUCCESS in (first, last):
        assert row.status == "succeeded"
        assert row.late == (first is FAILURE)
    elif FAILURE in (first, last):
        assert row.status == "failed"
    else:
        assert row.status in ("pending", "ambiguous")
        assert row.asked_at is not None, "what another worker may have sent is never called unsent"
    if (first, last) == (SUCCESS, FAILURE):
        assert row.review_reason == REVIEW_CONTRADICTION


def test_a_request_that_could_not_leave_is_tried_again_and_then_called_off(desk: Desk, company: Company) -> None:
    company.asked = [NOT_SENT]
    desk.order("disbursement")
    desk.work(50)
    assert desk.row.status == "submitted"
    assert len(company.asks) > 5
    desk.work(20)
    assert (desk.row.status, desk.row.failure_code) == ("failed", "PROVIDER_UNAVAILABLE")
    assert desk.row.ask_attempts == 0


def test_a_lost_payment_that_cannot_be_sent_again_is_asked_in_its_pace_and_reaches_review(
    desk: Desk, company: Company
) -> None:
    company.asked, company.told = [UNKNOWN, NOT_SENT], [NOT_FOUND]
    desk.order("disbursement")
    desk.work(1100)
    row = desk.row
    assert (row.status, row.review_reason) == ("ambiguous", REVIEW_SILENT)
    assert row.ask_attempts == 1, "what did not leave is not counted"
    assert len(company.asks) + company.enquiries < 150
    before = len(company.asks)
    desk.work(3 * 3600)
    assert len(company.asks) == before, "nothing is sent while a person looks at it"
    company.told = [SUCCESS]
    assert desk.settlement.bring_forward(desk.row.provider_reference), "a callback still hurries the next enquiry"
    desk.work()
    assert desk.row.status == "succeeded"


def test_a_lost_payment_that_could_not_be_sent_again_at_first_is_sent_later(desk: Desk, company: Company) -> None:
    company.asked, company.told = [UNKNOWN, NOT_SENT, NOT_SENT, SUCCESS], [NOT_FOUND]
    desk.order()
    desk.work(500)
    assert (desk.row.status, len(company.asks), desk.row.ask_attempts) == ("succeeded", 4, 2)


def test_an_adapter_that_raises_exceptions_sends_a_payment_to_review(desk: Desk, company: Company) -> None:
    company.while_asked = company.while_told = lambda: 1 / 0
    desk.order()
    desk.work(1100)
    assert (desk.row.status, desk.row.review_reason) == ("ambiguous", REVIEW_SILENT)
    assert {type(mistake) for mistake in company.mistakes} == {ZeroDivisionError}
    company.mistakes.clear()


def test_no_other_worker_takes_a_payment_while_its_provider_takes_all_of_its_time(desk: Desk, company: Company) -> None:
    longest = 25
    settlement = Settlement(Providers([company], lambda _: None), desk.clock, lambda _: True, timeout_seconds=longest)
    desk.order()

    def wait() -> None:
        desk.clock.advance(longest * 2 - 1)
        assert desk.another_worker().claim(1) == []

    company.while_asked = wait
    (claimed,) = settlement.claim(1)
    settlement.advance(claimed)
    assert desk.row.status == "pending"


def test_a_provider_that_did_not_know_a_payment_yet_does_not_make_it_lost_by_answering_late(
    desk: Desk, company: Company
) -> None:
    company.asked, company.told = [UNKNOWN], [NOT_FOUND]
    desk.order()
    (claimed,) = desk.settlement.claim(1)
    desk.settlement.advance(claimed)
    slow = desk.another_worker(at_kill_point=lambda point: point == "enquiry.answered" and desk.clock.advance(120))
    desk.clock.advance(6)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    assert desk.row.asked_at is not None
    assert (desk.row.status, len(company.asks)) == ("ambiguous", 1)
    desk.work(15)
    assert len(company.asks) == 2, "what it does not know now it never got"


def test_an_overtaken_answer_does_not_make_a_payment_lost_that_was_sent_again(desk: Desk, company: Company) -> None:
    company.asked, company.told = [UNKNOWN], [NOT_FOUND]
    desk.order()
    desk.work(40)
    sleeper = desk.another_worker(at_kill_point=lambda point: point == "enquiry.answered" and overtake())

    def overtake() -> None:
        desk.clock.advance(61)
        other = desk.another_worker()
        for _ in range(2):
            (claimed,) = other.claim(1)
            other.advance(claimed)
        assert len(company.asks) == 2
        desk.clock.advance(61)

    desk.clock.advance(70)
    (claimed,) = sleeper.claim(1)
    sleeper.advance(claimed)
    assert desk.row.asked_at is not None
    company.told = [PENDING]
    desk.work(120)
    assert (len(company.asks), desk.row.status) == (2, "pending")


def test_an_enquiry_that_could_not_leave_proves_nothing(desk: Desk, company: Company) -> None:
    desk.order("disbursement")
    crashed = desk.another_worker(at_kill_point=lambda point: 1 / 0 if point == "ask.recorded" else None)
    (claimed,) = crashed.claim(1)
    with pytest.raises(ZeroDivisionError):
        crashed.advance(claimed)
    company.told = [NOT_SENT]
    desk.clock.advance(61)
    desk.work(300)
    assert desk.row.status == "ambiguous"
    assert company.asks == []


def test_what_the_company_cannot_find_is_asked_again_under_the_same_name_when_it_must_be_lost(
    desk: Desk, company: Company
) -> None:
    company.asked, company.told = [UNKNOWN], [NOT_FOUND]
    desk.order()
    desk.work(50)
    assert len(company.asks) == 1
    desk.work(200)
    assert len(company.asks) == 3, "asked again, and no more than twice again"
    assert len({payment.provider_reference for payment in company.asks}) == 1
    desk.work(600)
    assert (len(company.asks), desk.row.status) == (3, "ambiguous")


def test_an_accepted_payment_that_is_not_found_yet_stays_pending(desk: Desk, company: Company) -> None:
    company.told = [NOT_FOUND, NOT_FOUND, SUCCESS]
    desk.order()
    desk.work(60)
    assert desk.statuses == ["created", "submitted", "pending", "succeeded"]


def test_what_nobody_can_confirm_goes_to_review_and_is_still_asked_about(desk: Desk, company: Company) -> None:
    company.asked, company.told = [UNKNOWN], [UNKNOWN]
    desk.order("disbursement")
    desk.work(1100)
    row = desk.row
    assert (row.status, row.review_reason, row.review_closed_at) == ("ambiguous", REVIEW_SILENT, None)
    assert desk.events("transaction.needs_review") == 1
    before = company.enquiries
    desk.work(3 * 3600)
    assert 2 <= company.enquiries - before <= 4
    assert desk.events("transaction.needs_review") == 1
    company.told = [SUCCESS]
    desk.work(4000)
    row = desk.row
    assert (row.status, row.late) == ("succeeded", False)
    assert row.review_closed_at is not None


def test_what_nobody_could_confirm_leaves_the_review_list_when_it_failed(desk: Desk, company: Company) -> None:
    company.asked, company.told = [UNKNOWN], [UNKNOWN]
    desk.order("disbursement")
    desk.clock.advance(1)
    desk.work(1100)
    company.told = [FAILURE]
    desk.work(4000)
    row = desk.row
    assert (row.status, row.review_reason, row.review_closed_at is None) == ("failed", REVIEW_SILENT, False)


def test_a_review_is_announced_again_when_its_reason_changes(desk: Desk, company: Company) -> None:
    company.asked, company.told = [UNKNOWN], [UNKNOWN]
    desk.order("disbursement")
    desk.work(1100)
    company.told = [replace(SUCCESS, amount_cents=1)]
    desk.work(4000)
    assert desk.row.review_reason == REVIEW_AMOUNT.format(0.01)
    assert desk.events("transaction.needs_review") == 2


def test_another_amount_than_asked_moves_nothing_and_goes_to_review(desk: Desk, company: Company) -> None:
    company.told = [replace(SUCCESS, amount_cents=499_999)]
    desk.order()
    desk.work(60)
    row = desk.row
    assert (row.status, row.review_reason, row.due_at) == ("pending", REVIEW_AMOUNT.format("4999.99"), None)
    assert desk.row.provider_transaction_id == "R-1"


def test_a_failure_gets_one_more_look_and_a_look_that_failed_is_made_again(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [UNKNOWN, SUCCESS]
    desk.order()
    desk.work(700)
    assert (desk.row.status, company.enquiries) == ("failed", 1)
    desk.work(600)
    row = desk.row
    assert (row.status, row.late, row.review_reason) == ("succeeded", True, REVIEW_LATE)
    assert row.review_closed_at is None


def test_a_failure_that_stays_one_is_looked_at_once(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [FAILURE]
    desk.order()
    desk.work(5000)
    assert (desk.row.status, desk.row.due_at, company.enquiries) == ("failed", None, 1)
    assert desk.statuses == ["created", "submitted", "failed"]


@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_a_failure_that_the_provider_takes_back_is_asked_about_until_it_is_decided(
    desk: Desk, company: Company, kind: str
) -> None:
    company.asked, company.told = [FAILURE], [PENDING, PENDING, SUCCESS]
    desk.order(kind)
    desk.work(700)
    row = desk.row
    assert (row.status, row.review_reason, row.review_closed_at) == ("failed", REVIEW_RETRACTED, None)
    desk.work(1300)
    assert desk.events("transaction.needs_review") == 1
    desk.work(3700)
    row = desk.row
    assert (row.status, row.late, row.review_reason, row.due_at) == ("succeeded", True, REVIEW_LATE, None)
    assert desk.statuses == ["created", "submitted", "failed", "succeeded"]
    assert check_everything() == []


def test_a_failure_that_was_taken_back_and_then_confirmed_needs_nobody(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [PENDING, UNKNOWN, UNKNOWN, FAILURE]
    desk.order("disbursement")
    desk.work(2 * 3600)
    assert company.enquiries == 3, "hourly, when the provider has not decided for long"
    desk.work(3600)
    row = desk.row
    assert (row.status, row.review_reason, row.due_at) == ("failed", REVIEW_RETRACTED, None)
    assert row.review_closed_at is not None


@pytest.mark.parametrize("older", [PENDING, UNKNOWN, NOT_FOUND, FAILURE])
def test_an_answer_that_is_older_than_a_failure_does_not_end_the_look_after_it(
    desk: Desk, company: Company, older: Answer
) -> None:
    company.told = [FAILURE, older, SUCCESS]
    desk.order()
    desk.work()
    desk.clock.advance(6)

    def overtake() -> None:
        company.while_told = lambda: None
        assert desk.settlement.bring_forward(desk.row.provider_reference)
        other = desk.another_worker()
        (claimed,) = other.claim(1)
        other.advance(claimed)
        assert desk.row.status == "failed"

    company.while_told = overtake
    (claimed,) = desk.settlement.claim(1)
    desk.settlement.advance(claimed)
    assert (desk.row.review_opened_at, desk.row.completed_at is None) == (None, False)
    desk.work(590)
    assert desk.row.status == "failed"
    desk.work(20)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_a_callback_soon_after_a_failure_does_not_spare_the_later_look(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [FAILURE, SUCCESS]
    desk.order()
    desk.work(1)
    assert desk.settlement.bring_forward(desk.row.provider_reference)
    desk.work(590)
    assert (desk.row.status, company.enquiries) == ("failed", 1)
    desk.work(10)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_a_callback_during_the_look_after_a_failure_is_followed(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [FAILURE, SUCCESS]
    desk.order()
    desk.work()

    def call_back() -> None:
        company.while_told = lambda: None
        assert desk.settlement.bring_forward(desk.row.provider_reference)

    company.while_told = call_back
    desk.clock.advance(601)
    desk.work(1)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_a_failure_that_overtakes_another_look_is_looked_at_as_late_as_any(desk: Desk, company: Company) -> None:
    company.asked, company.told = [PENDING], [PENDING, FAILURE]
    desk.order()
    desk.work()

    def overtake() -> None:
        company.while_told = lambda: None
        assert desk.settlement.bring_forward(desk.row.provider_reference)

    company.told = [FAILURE]
    company.while_told = overtake
    desk.clock.advance(6)
    desk.work(300)
    assert (desk.row.status, company.enquiries) == ("failed", 1)
    company.told = [SUCCESS]
    desk.work(400)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


def test_the_look_after_a_failure_waits_for_a_company_that_was_switched_off(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [SUCCESS]
    desk.order()
    desk.work()
    with_company = desk.settlement
    desk.settlement = Settlement(Providers([], lambda _: None), desk.clock, lambda _: True)
    desk.clock.advance(600)
    desk.work()
    assert desk.row.status == "failed"
    desk.settlement = with_company
    desk.work(3700)
    assert (desk.row.status, desk.row.late) == ("succeeded", True)


@pytest.mark.parametrize("was_sent", [False, True])
def test_a_company_that_is_switched_off_midway_ends_only_what_was_never_sent(
    desk: Desk, company: Company, was_sent: bool
) -> None:
    desk.order("disbursement")
    if was_sent:
        desk.work()
    desk.settlement = Settlement(Providers([], lambda _: None), desk.clock, lambda _: True)
    desk.work(100)
    assert desk.row.status == ("pending" if was_sent else "failed")
    desk.clock.advance(2 * 3600)
    desk.work()
    assert desk.row.review_reason == (REVIEW_SILENT if was_sent else None)
    if was_sent:
        company.told = [SUCCESS]
        desk.settlement = desk.another_worker()
        desk.work(3700)
        assert desk.row.status == TransactionStatus.SUCCEEDED


def test_a_company_out_of_breath_keeps_the_order_of_those_who_wait(desk: Desk, company: Company) -> None:
    ids = []
    for number in range(6):
        ids.append(desk.order(reference=str(number)))
        desk.clock.advance(0.01)
    allowed = 2

    def within_pace(_: str) -> bool:
        nonlocal allowed
        allowed -= 1
        return allowed >= 0

    worker = desk.another_worker(within_pace)
    for claimed in worker.claim(4):
        worker.advance(claimed)
    assert [payment.transaction_id for payment in company.asks] == ids[:2]
    assert worker.claim(6) == [], "it is left alone for a moment"
    desk.clock.advance(0.3)
    allowed = 10
    for claimed in worker.claim(6):
        worker.advance(claimed)
    assert [payment.transaction_id for payment in company.asks] == ids


def test_payments_of_one_moment_are_not_asked_about_in_one_moment(desk: Desk, company: Company) -> None:
    delays = set()
    for number in range(10):
        desk.order(reference=str(number))
        began_at = desk.clock.now()
        desk.settlement.advance(*desk.settlement.claim(1))
        delays.add(round((desk.row.due_at - began_at).total_seconds(), 1))
    assert len(delays) > 1
    assert min(delays) >= 4.5


def test_a_callback_brings_the_next_enquiry_forward_and_is_named_as_its_source(desk: Desk, company: Company) -> None:
    company.told = [PENDING, SUCCESS]
    desk.order()
    desk.work(8)
    reference = desk.row.provider_reference
    assert desk.settlement.bring_forward(reference)
    assert not desk.settlement.bring_forward(reference), "it is due already"
    desk.work()
    assert desk.statuses[-1] == "succeeded"
    assert desk.view.events[-1].source == "callback"
    assert not desk.settlement.bring_forward(reference), "there is nothing left to hurry"
    assert not desk.settlement.bring_forward("00000000-0000-4000-8000-000000000000")


def test_a_callback_before_anything_was_asked_changes_nothing(desk: Desk, company: Company) -> None:
    desk.order()
    assert not desk.settlement.bring_forward(desk.row.provider_reference)
    (claimed,) = desk.settlement.claim(1)
    assert not desk.settlement.bring_forward(desk.row.provider_reference)
    assert desk.another_worker().claim(1) == []
    desk.settlement.advance(claimed)
    assert len(company.asks) == 1


def test_only_the_enquiry_that_a_callback_brought_forward_names_it_as_its_source(desk: Desk, company: Company) -> None:
    company.told = [PENDING, SUCCESS]
    desk.order()
    desk.work()
    assert desk.settlement.bring_forward(desk.row.provider_reference)
    desk.work(60)
    assert (desk.statuses[-1], desk.view.events[-1].source) == ("succeeded", "poll")


def test_a_payment_that_its_provider_calls_about_was_sent_whatever_the_request_seemed_to_show(
    desk: Desk, company: Company
) -> None:
    company.asked, company.told = [NOT_SENT], [UNKNOWN]
    desk.order()
    desk.work(58)
    company.while_asked = lambda: desk.settlement.bring_forward(desk.row.provider_reference)
    desk.work(20)
    assert desk.row.status == "ambiguous"


def test_a_worker_out_of_pace_leaves_the_lease_of_another(desk: Desk, company: Company) -> None:
    desk.order()

    def overtake(_: str) -> bool:
        desk.clock.advance(61)
        assert desk.settlement.claim(1) == [claimed]
        return False

    slow = desk.another_worker(overtake)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    assert desk.another_worker().claim(1) == []


def test_a_lost_payment_is_not_sent_again_while_another_worker_enquires(desk: Desk, company: Company) -> None:
    company.asked, company.told = [UNKNOWN], [NOT_FOUND, PENDING]
    desk.order()
    (claimed,) = desk.settlement.claim(1)
    desk.settlement.advance(claimed)
    desk.clock.advance(70)

    def overtake(point: str) -> None:
        if point == "enquiry.answered":
            assert desk.settlement.bring_forward(desk.row.provider_reference)
            assert desk.settlement.claim(1) == [claimed]

    slow = desk.another_worker(at_kill_point=overtake)
    assert slow.claim(1) == [claimed]
    slow.advance(claimed)
    desk.settlement.advance(claimed)
    desk.work(100)
    assert (desk.row.status, len(company.asks)) == ("pending", 1)


@pytest.mark.parametrize("has_operator_settled", [False, True])
def test_nothing_is_sent_once_a_person_decides(desk: Desk, company: Company, has_operator_settled: bool) -> None:
    company.asked, company.told = [UNKNOWN], [NOT_FOUND]
    desk.order("disbursement")
    desk.work()
    desk.clock.advance(61)
    (claimed,) = desk.settlement.claim(1)
    desk.settlement.advance(claimed)
    assert desk.row.asked_at is None, "it is about to be sent again"
    with_company = desk.settlement
    desk.settlement = Settlement(Providers([], lambda _: None), desk.clock, lambda _: True)
    desk.clock.advance(2 * 3600)
    desk.work()
    assert desk.row.review_reason == REVIEW_SILENT
    if has_operator_settled:
        desk.house.review.end(EndReview(desk.id, "no trace of it", "Ann", "Ben", has_succeeded=False), operator())
    desk.settlement = with_company
    desk.work(3 * 3600)
    assert len(company.asks) == 1
    assert desk.row.status == ("failed" if has_operator_settled else "ambiguous")


def test_what_could_never_be_sent_fails_when_its_company_is_switched_off(desk: Desk, company: Company) -> None:
    company.asked = [NOT_SENT]
    desk.order("disbursement")
    desk.work()
    assert desk.row.status == "submitted"
    desk.settlement = Settlement(Providers([], lambda _: None), desk.clock, lambda _: True)
    desk.work(70)
    assert (desk.row.status, desk.row.failure_code) == ("failed", "PROVIDER_UNAVAILABLE")


def test_what_another_worker_has_just_called_off_is_not_sent(desk: Desk, company: Company) -> None:
    desk.order()
    company.told = [NOT_FOUND]
    without_company = Settlement(Providers([], lambda _: None), desk.clock, lambda _: True)

    def call_off(point: str) -> None:
        if point == "claimed":
            desk.clock.advance(61)
            assert without_company.claim(1) == [claimed]
            without_company.advance(claimed)

    slow = desk.another_worker(at_kill_point=call_off)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    assert (company.asks, desk.row.status) == ([], "failed")


def test_a_callback_after_a_failure_finds_the_late_success(desk: Desk, company: Company) -> None:
    company.asked, company.told = [FAILURE], [SUCCESS]
    desk.order("disbursement")
    desk.work()
    assert desk.settlement.bring_forward(desk.row.provider_reference)
    desk.work()
    row = desk.row
    assert (row.status, row.late, row.review_reason) == ("succeeded", True, REVIEW_LATE)
    assert row.provider_transaction_id == "R-1"
    assert balances(desk.call.client_id)["main"] == (0, 0)


def test_a_refund_that_falls_silent_keeps_its_reservation_and_is_asked_once(desk: Desk, company: Company) -> None:
    company.asked = [SUCCESS, UNKNOWN]
    original = desk.order()
    desk.work()
    company.told = [UNKNOWN]
    recorded = desk.house.refunds.create(CreateRefund(original, "back"), desk.call)
    desk.id = recorded.transaction.transaction_id
    desk.work(1100)
    assert (desk.row.status, desk.row.review_reason) == ("ambiguous", REVIEW_SILENT)
    assert balances(desk.call.client_id)["main"] == (500_000, 500_000)
    assert len(company.asks) == 2
    assert company.asks[1].original_provider_transaction_id == "R-1"
