"""Processing: workers, providers, callbacks and crashes in every order for one payment."""

from __future__ import annotations

import pytest

from tests.support.desk import (
    FAILURE,
    NOT_FOUND,
    NOT_SENT,
    PENDING,
    SUCCESS,
    UNKNOWN,
    Desk,
    FakeProvider,
)
from ussd_server.providers.messages import ProviderAnswer
from ussd_server.services.processing.outcomes import REVIEW_CONTRADICTION
from ussd_server.services.providers.providers import Providers


@pytest.mark.both_databases
@pytest.mark.parametrize(("has_provider", "is_within_rate"), [(True, True), (True, False), (False, True)])
def test_a_worker_that_slept_longer_than_its_lease_leaves_the_payment_to_the_worker_that_has_it_now(
    desk: Desk, provider: FakeProvider, has_provider: bool, is_within_rate: bool
) -> None:
    desk.order()
    sleeper = desk.another_worker(
        providers=Providers([provider] if has_provider else []), within_rate=lambda _: is_within_rate
    )
    (lost,) = sleeper.claim(1)
    assert desk.processing.claim(1) == []
    desk.clock.advance(61)
    (claimed,) = desk.processing.claim(1)
    sleeper.advance(lost)
    assert desk.another_worker().claim(1) == [], "the lease of the other worker goes on"
    desk.processing.advance(claimed)
    sleeper.advance(lost)
    assert (len(provider.asks), provider.enquiries) == (1, 0)


def test_two_workers_at_the_very_moment_of_asking_ask_once(desk: Desk, provider: FakeProvider) -> None:
    desk.order()
    other = desk.processing

    def overtake(point: str) -> None:
        if point == "claimed" and not provider.asks:
            desk.clock.advance(61)
            (taken_over,) = other.claim(1)
            other.advance(taken_over)

    sleeper = desk.another_worker(at_kill_point=overtake)
    (claimed,) = sleeper.claim(1)
    sleeper.advance(claimed)
    assert len(provider.asks) == 1


@pytest.mark.parametrize("last", [SUCCESS, FAILURE, PENDING, UNKNOWN, NOT_FOUND, NOT_SENT])
@pytest.mark.parametrize("first", [SUCCESS, FAILURE, PENDING, UNKNOWN, NOT_FOUND])
@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_an_answer_that_was_overtaken_by_another_moves_money_once(
    desk: Desk, provider: FakeProvider, kind: str, first: ProviderAnswer, last: ProviderAnswer
) -> None:
    desk.order(kind)
    provider.asked, provider.enquired = [last], [first]

    def overtake() -> None:
        provider.while_asked = lambda: None
        assert desk.processing.bring_forward(desk.row.provider_reference)
        other = desk.another_worker()
        (claimed,) = other.claim(1)
        other.advance(claimed)
        desk.check()

    provider.while_asked = overtake
    (claimed,) = desk.processing.claim(1)
    desk.processing.advance(claimed)
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


def test_no_other_worker_takes_a_payment_while_its_provider_takes_all_of_its_time(
    desk: Desk, provider: FakeProvider
) -> None:
    longest = 25
    processor = desk.another_worker(provider_timeout_seconds=longest)
    desk.order()

    def wait() -> None:
        desk.clock.advance(longest * 2 - 1)
        assert desk.another_worker().claim(1) == []

    provider.while_asked = wait
    (claimed,) = processor.claim(1)
    processor.advance(claimed)
    assert desk.row.status == "pending"


def test_an_overloaded_provider_keeps_the_order_of_waiting_payments(desk: Desk, provider: FakeProvider) -> None:
    ids = []
    for number in range(6):
        ids.append(desk.order(reference=str(number)))
        desk.clock.advance(0.01)
    allowed = 2

    def within_rate(_: str) -> bool:
        nonlocal allowed
        allowed -= 1
        return allowed >= 0

    worker = desk.another_worker(within_rate=within_rate)
    for claimed in worker.claim(4):
        worker.advance(claimed)
    assert [payment.transaction_id for payment in provider.asks] == ids[:2]
    assert worker.claim(6) == [], "it is left alone for a moment"
    desk.clock.advance(0.3)
    allowed = 10
    for claimed in worker.claim(6):
        worker.advance(claimed)
    assert [payment.transaction_id for payment in provider.asks] == ids


def test_payments_of_one_moment_are_not_asked_about_in_one_moment(desk: Desk, provider: FakeProvider) -> None:
    delays = set()
    for number in range(10):
        desk.order(reference=str(number))
        began_at = desk.clock.now()
        desk.processing.advance(*desk.processing.claim(1))
        delays.add(round((desk.row.due_at - began_at).total_seconds(), 1))
    assert len(delays) > 1
    assert min(delays) >= 4.5


def test_a_callback_brings_the_next_enquiry_forward_and_is_named_as_its_source(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.enquired = [PENDING, SUCCESS]
    desk.order()
    desk.work(8)
    reference = desk.row.provider_reference
    assert desk.processing.bring_forward(reference)
    assert not desk.processing.bring_forward(reference), "it is due already"
    desk.work()
    assert desk.statuses[-1] == "succeeded"
    assert desk.view.events[-1].source == "callback"
    assert not desk.processing.bring_forward(reference), "there is nothing left to hurry"
    assert not desk.processing.bring_forward("00000000-0000-4000-8000-000000000000")


def test_a_callback_before_anything_was_asked_changes_nothing(desk: Desk, provider: FakeProvider) -> None:
    desk.order()
    assert not desk.processing.bring_forward(desk.row.provider_reference)
    (claimed,) = desk.processing.claim(1)
    assert not desk.processing.bring_forward(desk.row.provider_reference)
    assert desk.another_worker().claim(1) == []
    desk.processing.advance(claimed)
    assert len(provider.asks) == 1


def test_only_the_enquiry_that_a_callback_brought_forward_names_it_as_its_source(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.enquired = [PENDING, SUCCESS]
    desk.order()
    desk.work()
    assert desk.processing.bring_forward(desk.row.provider_reference)
    desk.work(60)
    assert (desk.statuses[-1], desk.view.events[-1].source) == ("succeeded", "poll")


def test_a_payment_that_its_provider_calls_about_was_sent_whatever_the_request_seemed_to_show(
    desk: Desk, provider: FakeProvider
) -> None:
    provider.asked, provider.enquired = [NOT_SENT], [UNKNOWN]
    desk.order()
    desk.work(58)
    provider.while_asked = lambda: desk.processing.bring_forward(desk.row.provider_reference)
    desk.work(20)
    assert desk.row.status == "ambiguous"


def test_a_worker_out_of_pace_leaves_the_lease_of_another(desk: Desk, provider: FakeProvider) -> None:
    desk.order()

    def overtake(_: str) -> bool:
        desk.clock.advance(61)
        assert desk.processing.claim(1) == [claimed]
        return False

    slow = desk.another_worker(within_rate=overtake)
    (claimed,) = slow.claim(1)
    slow.advance(claimed)
    assert desk.another_worker().claim(1) == []


def test_a_provider_that_hangs_takes_at_most_half_of_the_threads(desk: Desk, provider: FakeProvider) -> None:
    desk.processing = desk.another_worker(providers=Providers([provider, FakeProvider(name="mtn")]))
    for number in range(10):
        desk.order(reference=f"slow-{number}")
    threads = desk.services.settings.worker_threads
    first = [*desk.processing.claim(threads), *desk.processing.claim(threads)]
    assert len(first) == threads // 2
    desk.processing.advance(first[0])
    assert len(desk.processing.claim(threads)) == 1, "one is finished, so another one has its place"
