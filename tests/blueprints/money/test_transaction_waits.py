"""Calls that wait for a transaction's next change or for its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from flask import Flask

from tests.blueprints.money.test_transactions import BODY, PATH, refusal
from tests.conftest import MovableClock
from tests.support.eventually import eventually
from tests.support.money import work
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.services.bulkhead import Bulkhead, Permit


@pytest.fixture
def permits_taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clients that were given a permit to wait, in order."""
    taken: list[str] = []
    permit = Bulkhead.permit

    @contextmanager
    def note(permits: Bulkhead, client_id: str) -> Iterator[Permit]:
        with permit(permits, client_id) as given:
            if given.is_held:
                taken.append(client_id)
            yield given

    monkeypatch.setattr(Bulkhead, "permit", note)
    return taken


@contextmanager
def a_working_worker(services: Services, clock: MovableClock) -> Iterator[None]:
    """Settle what falls due at once, during the block."""
    stop = threading.Event()

    def labour() -> None:
        while not stop.wait(0.02):
            work(services, clock)
        release_connection()

    thread = threading.Thread(target=labour)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_waiting_collection_is_answered_when_it_is_final(
    program: Program, services: Services, clock: MovableClock
) -> None:
    with a_working_worker(services, clock):
        reply = program.post(PATH, BODY, wait=25)
    assert (reply.status_code, reply.json["data"]["status"]) == (201, "succeeded")
    assert reply.json["message"] == "Transaction succeeded"


def test_a_refund_waits_too_and_the_message_says_its_state(
    program: Program, services: Services, clock: MovableClock
) -> None:
    with a_working_worker(services, clock):
        paid = program.post(PATH, BODY, wait=25).json["data"]["transaction_id"]
        refund = program.post(f"{PATH}/{paid}/refunds", {"reference": "back", "amount": 1000}, wait=25)
    assert (refund.status_code, refund.json["message"]) == (201, "Refund succeeded")
    assert refund.json["data"]["status"] == "succeeded"
    unfinished = program.post(f"{PATH}/{paid}/refunds", {"reference": "more", "amount": 1000})
    assert (unfinished.status_code, unfinished.json["message"]) == (201, "Refund accepted")
    assert program.post(f"{PATH}/{paid}/refunds", {"reference": "long"}, wait=26).status_code == 400


def test_a_waiting_collection_that_the_payer_declines_is_answered_with_its_record(
    program: Program, services: Services, clock: MovableClock
) -> None:
    body = BODY | {"phone_number": "+256770000002"}
    with a_working_worker(services, clock):
        reply = program.post(PATH, body, wait=25)
    record = reply.json["data"]
    assert (reply.status_code, record["status"], record["failure"]["code"]) == (201, "failed", "PAYER_DECLINED")
    assert reply.json["message"] == "Transaction failed"
    assert program.get(PATH).json["data"]["items"][0]["transaction_id"] == record["transaction_id"]
    # A repeat of the same request shows its outcome, waiting or not.
    for query in ({}, {"wait": 5}):
        again = program.post(PATH, body, **query)
        assert (again.status_code, again.json["data"]["status"]) == (200, "failed")


def test_a_wait_that_nothing_ends_shows_the_present_state(program: Program) -> None:
    reply = program.post(PATH, BODY, wait=1)
    assert (reply.status_code, reply.json["data"]["status"]) == (201, "created")
    assert reply.json["message"] == "Transaction accepted"
    shown = program.get(f"{PATH}/{reply.json['data']['transaction_id']}", wait=1)
    assert shown.json["data"]["status"] == "created"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_wait_is_one_to_25_whole_seconds(program: Program) -> None:
    for seconds in ("0", "26", "1.5", "x", "", "-1", "+1"):
        assert refusal(program.post(PATH, BODY, wait=seconds)) == (400, "INVALID_REQUEST")


def test_a_wait_for_one_transaction_ends_with_its_next_change(
    program: Program, services: Services, clock: MovableClock
) -> None:
    transaction_id = program.collect(number="+256770000042").json["data"]["transaction_id"]
    with a_working_worker(services, clock):
        data = program.get(f"{PATH}/{transaction_id}", wait=25).json["data"]
    assert data["status"] != "created"


def test_waiting_calls_take_at_most_half_of_the_threads(
    app: Flask, services: Services, program: Program, permits_taken: list[str]
) -> None:
    waiting = services.settings.threads // 2
    transaction_id = program.collect().json["data"]["transaction_id"]
    began = threading.Barrier(waiting + 1)
    replies: list[int] = []

    def watch() -> None:
        began.wait()
        replies.append(app.test_client().get(f"{PATH}/{transaction_id}?wait=25", headers=program.headers).status_code)

    threads = [threading.Thread(target=watch) for _ in range(waiting)]
    for thread in threads:
        thread.start()
    began.wait()
    eventually(lambda: len(permits_taken) == waiting)
    # All places are taken, so this one is answered at once; the state then changes and frees the others.
    assert program.get(f"{PATH}/{transaction_id}", wait=25).json["data"]["status"] == "created"
    (claimed,) = services.processing.claim(1)
    services.processing.advance(claimed)
    for thread in threads:
        thread.join()
    assert replies == [200] * waiting


def test_a_client_that_waits_with_all_places_leaves_some_to_the_next_client(
    app: Flask, services: Services, program: Program, permits_taken: list[str]
) -> None:
    places = services.settings.threads // 2
    other = Program(services, app.test_client())
    ids = [each.collect(number="+256770000042").json["data"]["transaction_id"] for each in (program, other)]

    def watch(program: Program, transaction_id: str) -> str:
        path = f"{PATH}/{transaction_id}?wait=25"
        status: str = app.test_client().get(path, headers=program.headers).json["data"]["status"]
        release_connection()
        return status

    with ThreadPoolExecutor(places + 1) as pool:
        greedy = [pool.submit(watch, program, ids[0]) for _ in range(places)]
        eventually(lambda: len(permits_taken) == places)
        newcomer = pool.submit(watch, other, ids[1])
        eventually(lambda: sum(each.done() for each in greedy) == 1)
        assert not newcomer.done()
        for claimed in services.processing.claim(2):
            services.processing.advance(claimed)
        assert newcomer.result(60) != "created"
        assert sorted(each.result(60) == "created" for each in greedy) == [False] * (places - 1) + [True]
