"""A token is fetched once for all threads, renewed at 80 % of its life, and fetched again on 401."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.providers.provider_server import Hours
from ussd_server.outbound.transport import SendState
from ussd_server.providers.http.connection import Breaker
from ussd_server.providers.http.replies import NOT_SENT, ProviderReply
from ussd_server.providers.http.tokens import AccessTokens


class Office:
    """Gives numbered tokens and counts them."""

    def __init__(self, expires_in: object = 100) -> None:
        self.expires_in = expires_in
        self.fetched = 0
        self.open = True

    def fetch(self, until: float) -> ProviderReply:
        self.fetched += 1
        if not self.open:
            return NOT_SENT
        return ProviderReply(
            SendState.ANSWERED, 200, {"access_token": f"t{self.fetched}", "expires_in": self.expires_in}
        )


def soon() -> float:
    return time.monotonic() + 20


def used(tokens: AccessTokens) -> str:
    sent: list[str] = []

    def send(token: str) -> ProviderReply:
        sent.append(token)
        return ProviderReply(SendState.ANSWERED, 200)

    tokens.authorise(send, soon())
    return sent[0] if sent else ""


def test_a_token_is_kept_until_four_fifths_of_its_life() -> None:
    office, hours = Office(expires_in="100"), Hours()
    tokens = AccessTokens(office.fetch, Breaker().note, monotonic=hours)
    assert [used(tokens), used(tokens)] == ["t1", "t1"]
    hours.now += 79
    assert used(tokens) == "t1"
    hours.now += 1
    assert used(tokens) == "t2"


def test_a_token_that_cannot_be_renewed_is_used_to_its_end() -> None:
    office, hours = Office(), Hours()
    tokens = AccessTokens(office.fetch, Breaker().note, monotonic=hours)
    assert used(tokens) == "t1"
    office.open = False
    hours.now += 90
    assert used(tokens) == "t1"
    hours.now += 10
    assert used(tokens) == ""


def test_forty_threads_fetch_one_token() -> None:
    office = Office()
    started = threading.Event()

    def fetch(until: float) -> ProviderReply:
        started.wait(10)
        return office.fetch(until)

    tokens = AccessTokens(fetch, Breaker().note)
    with ThreadPoolExecutor(40) as pool:
        waiting = [pool.submit(used, tokens) for _ in range(40)]
        started.set()
        assert {one.result() for one in waiting} == {"t1"}
    assert office.fetched == 1


def test_while_one_thread_renews_the_others_go_on() -> None:
    office, hours = Office(), Hours()
    renewing, release = threading.Event(), threading.Event()

    def fetch(until: float) -> ProviderReply:
        if office.fetched:
            renewing.set()
            release.wait(10)
        return office.fetch(until)

    tokens = AccessTokens(fetch, Breaker().note, monotonic=hours)
    used(tokens)
    hours.now += 85
    with ThreadPoolExecutor(1) as pool:
        renewed = pool.submit(used, tokens)
        assert renewing.wait(10)
        assert used(tokens) == "t1"
        release.set()
        assert renewed.result() == "t2"


def test_a_refused_token_is_renewed_once() -> None:
    office = Office()
    tokens = AccessTokens(office.fetch, Breaker().note)
    sent: list[str] = []

    def send(token: str) -> ProviderReply:
        sent.append(token)
        return ProviderReply(SendState.ANSWERED, 401 if token == "t1" else 202)

    assert tokens.authorise(send, soon()).status == 202
    assert sent == ["t1", "t2"]


def test_a_provider_that_refuses_every_token_is_called_twice_and_counts_as_away() -> None:
    office, breaker = Office(), Breaker(failures_to_open=1)
    tokens = AccessTokens(office.fetch, breaker.note)
    sent: list[str] = []

    def send(token: str) -> ProviderReply:
        sent.append(token)
        return ProviderReply(SendState.ANSWERED, 401)

    assert tokens.authorise(send, soon()) == NOT_SENT
    assert sent == ["t1", "t2"]
    assert breaker.rests


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"access_token": "t", "expires_in": 0},
        {"access_token": "t", "expires_in": "soon"},
        {"access_token": "t", "expires_in": "nan"},
        {"access_token": "", "expires_in": 100},
        {"access_token": 5, "expires_in": 100},
        {"access_token": "a\r\nb", "expires_in": 100},
        {"access_token": "a" * 9000, "expires_in": 100},
    ],
)
def test_what_is_not_a_token_sends_nothing(document: dict[str, object]) -> None:
    breaker = Breaker(failures_to_open=1)
    assert used(AccessTokens(lambda until: ProviderReply(SendState.ANSWERED, 200, document), breaker.note)) == ""
    assert breaker.rests


def test_a_token_of_any_age_is_renewed_within_a_day() -> None:
    office, hours = Office(expires_in="inf"), Hours()
    tokens = AccessTokens(office.fetch, Breaker().note, monotonic=hours)
    used(tokens)
    hours.now += 86_400
    assert used(tokens) == "t2"
