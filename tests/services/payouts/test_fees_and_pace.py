"""Payouts: which fees an approval counts, how a row is judged and counted, and at which pace rows are released."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.faults.workers import services_of
from tests.services.payouts.desk import PayoutDesk, row
from tests.services.processing.moves import NUMBERS, Move, second_connection
from tests.support.money import a_client, agree_fee, deposit, operator, request, work
from tests.support.stand_ins import airtel_settings, mtn_settings
from ussd_server.models.payouts import PayoutAttempt
from ussd_server.models.transactions import QUEUED_UNTIL, Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.payouts.messages import PayoutView
from ussd_server.services.providers.messages import ChooseConnection
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.settings import Settings

_NOWHERE = "http://127.0.0.1:9"


def agree(desk: PayoutDesk, fixed_cents: int) -> None:
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, fixed_cents, 0))


def test_an_approval_reserves_and_shows_the_fees_that_are_agreed_now(desk: PayoutDesk) -> None:
    draft = desk.draft_of(2)
    agree(desk, 1_000)
    assert (draft.total_fee_cents, desk.approve(draft).total_fee_cents) == (0, 2_000)
    assert desk.main() == (50_000_000, 22_000)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_each_row_of_a_payout_for_later_shows_the_fee_at_its_approval(desk: PayoutDesk) -> None:
    payout = desk.draft(row("a"), row("b"), send_at=desk.clock.now() + timedelta(days=2))
    agree(desk, 5_000)
    assert desk.approve(payout).total_fee_cents == 10_000
    assert [item.fee_cents for item in desk.items(payout)] == [5_000, 5_000]


def test_a_reference_that_another_client_used_is_free(desk: PayoutDesk) -> None:
    stranger = a_client("stranger")
    deposit(desk.services, stranger, 5000)
    desk.services.transactions.create(request("disbursement", reference="P1/r1"), stranger)
    assert desk.draft(row()).ready_count == 1


def test_a_reference_of_many_rows_is_a_problem_that_names_the_first_five(desk: PayoutDesk) -> None:
    draft = desk.draft(*(row("same") for _ in range(8)))
    sentence = "reference: Used in rows 1, 2, 3, 4, 5 and 3 more; each must be unique."
    assert {item.problems for item in desk.items(draft)} == {(sentence,)}


def test_a_row_of_a_million_shillings_is_invalid_and_one_cent_less_is_ready(desk: PayoutDesk) -> None:
    draft = desk.draft(row("a", amount=1_000_000), row("b", amount="999999.99"))
    assert desk.states(draft) == ["invalid", "ready"]


def test_a_row_whose_payee_cancelled_it_was_sent_and_counts_as_failed(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = ProviderAnswer(Outcome.FAILED, FailureCode.CANCELLED)
    monkeypatch.setattr(desk.services.runtime.providers.get("sandbox"), "send", lambda *_: cancelled)
    draft = desk.draft_of(1)
    desk.approve(draft)
    desk.work(1)
    assert (desk.states(draft), list(desk.see(draft).states)) == (["failed"], ["failed"])


def unsent(payout: PayoutView) -> int:
    """How many rows were released and not sent."""
    rows = Transaction.select().where(Transaction.payout_id == payout.payout_id, Transaction.asked_at.is_null())
    return int(rows.where(Transaction.due_at != QUEUED_UNTIL).count())


def set_pace(desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, per_second: float) -> None:
    sandbox = desk.services.runtime.providers.get("sandbox")
    monkeypatch.setattr(sandbox, "schedule", replace(sandbox.schedule, per_second=per_second))


def send(desk: PayoutDesk, count: int) -> None:
    """What the worker does for some transactions."""
    for claimed in desk.services.processing.claim(count):
        desk.services.processing.advance(claimed)


def five_approved(desk: PayoutDesk, rows: int) -> list[PayoutView]:
    payouts = [desk.draft_of(rows, f"P{place}", "+256770000004") for place in range(5)]
    for each in payouts:
        desk.approve(each)
    return payouts


def test_payouts_share_half_of_what_the_provider_takes_in_a_second(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pace(desk, monkeypatch, 32.0)
    payouts = five_approved(desk, 12)
    for _ in range(2):
        desk.tick()
        assert [unsent(each) for each in payouts] == [3] * 5
        desk.clock.advance(2)
    send(desk, 4)
    assert sum(map(unsent, payouts)) == 11
    # Those that were sent are due again, to be queried.
    desk.clock.advance(1)
    desk.tick()
    assert [unsent(each) for each in payouts] == [3] * 5


def test_a_payout_alone_has_the_whole_share_and_leaves_half_of_it_to_the_next_one(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pace(desk, monkeypatch, 16.0)
    payouts = [desk.draft_of(20, f"P{place}", "+256770000004") for place in range(2)]
    desk.approve(payouts[0])
    desk.tick()
    assert unsent(payouts[0]) == 8
    desk.approve(payouts[1])
    send(desk, 4)
    desk.clock.advance(1)
    desk.tick()
    assert [unsent(each) for each in payouts] == [4, 4]


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_no_payout_waits_for_others_when_they_are_more_than_the_share(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Also where a worker needs `seconds` for each: the first ones are due again before it looks at the last one."""
    set_pace(desk, monkeypatch, 4.0)
    payouts = five_approved(desk, 9)
    for _ in range(12):
        for payout_id in desk.services.payout_sender.claim(10):
            desk.services.payout_sender.advance(payout_id)
            desk.clock.advance(seconds)
        send(desk, 1)
        desk.clock.advance(0.25)
    made = [PayoutAttempt.select().where(PayoutAttempt.payout_id == each.payout_id).count() for each in payouts]
    assert max(made) - min(made) <= 1


def test_each_provider_is_released_its_own_rows_at_its_own_pace(
    settings: Settings, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with services_of(settings, clock, **mtn_settings(_NOWHERE), **airtel_settings(_NOWHERE)) as services:
        desk = PayoutDesk(services, clock)
        for name in ("mtn", "airtel"):
            provider = services.runtime.providers.get(name)
            monkeypatch.setattr(provider, "schedule", replace(provider.schedule, per_second=8.0))
        numbers = ["+256772123456"] * 8 + ["+256752123456"] * 8
        desk.approve(desk.draft(*(row(f"r{place}", number) for place, number in enumerate(numbers))))
        for _ in range(6):
            desk.tick()
            clock.advance(2)
        released = Transaction.select().where(Transaction.payout_id.is_null(False), Transaction.due_at != QUEUED_UNTIL)
        assert sorted(each.provider for each in released) == ["airtel"] * 4 + ["mtn"] * 4


@pytest.mark.both_databases
def test_two_connections_to_one_provider_do_not_slow_each_other(
    settings: Settings, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        move = Move(stack, settings, clock, "mtn")
        services = move.start(move.new, **second_connection(move, "OWN", "own"))
        for connection in services.runtime.providers.connections:
            monkeypatch.setattr(connection, "schedule", replace(connection.schedule, per_second=16.0))
        desks = [PayoutDesk(services, clock) for _ in range(3)]
        chosen = ChooseConnection(desks[0].client_id, "mtn-own", reason="Its own", by="Ann", second="Ben")
        services.own_connections.choose(chosen, operator())
        payouts = [desk.draft_of(12, number=NUMBERS["mtn"], amount=600) for desk in desks]
        for desk, payout in zip(desks, payouts, strict=True):
            desk.approve(payout)
        for _ in range(2):
            desks[0].tick()
            assert [unsent(each) for each in payouts] == [8, 4, 4]
            clock.advance(2)
        move.work(100)
        assert (move.submits(move.old), move.submits(move.new)) == (8, 8)


def test_a_row_that_waited_in_its_queue_is_reviewed_when_its_provider_is_silent_for_long_after_it_was_sent(
    desk: PayoutDesk,
) -> None:
    desk.approve(desk.draft_of(1, number="+256770000007"))
    desk.clock.advance(7200)
    desk.work(1)
    sent = Transaction.get(Transaction.payout_id.is_null(False))
    assert (sent.asked_at is not None, sent.review_opened_at) == (True, None)
    work(desk.services, desk.clock, 45, step=5)
    assert Transaction.get_by_id(sent.id).review_opened_at is not None
