"""All processes use one token: one of them fetches it, and Redis keeps it encrypted until it expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ussd_server.outbound.transport import SendState
from ussd_server.providers.http.replies import ProviderReply
from ussd_server.providers.http.shared_tokens import SharedToken, SharedTokens
from ussd_server.providers.http.tokens import AccessTokens
from ussd_server.security.key_ring import Keyring, Vault

CREDENTIALS = ("https://airtel.example", "our-id", "our-secret")
NOWHERE = "redis://127.0.0.1:1"


class Airtel:
    """Issues numbered tokens; a new one ends the old one, which is then refused with 403."""

    def __init__(self, expires_in: object = "180") -> None:
        self.expires_in = expires_in
        self.issued = 0
        self.paid: list[str] = []
        self._lock = threading.Lock()

    def issue(self, until: float) -> ProviderReply:
        with self._lock:
            self.issued += 1
            document = {"access_token": f"t{self.issued}", "expires_in": self.expires_in}
        return ProviderReply(SendState.ANSWERED, 200, document)

    def pay(self, token: str) -> ProviderReply:
        with self._lock:
            self.paid.append(token)
            is_good = token == f"t{self.issued}"
        return ProviderReply(SendState.ANSWERED, 202 if is_good else 403, {} if is_good else {"error": "invalid_token"})


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(Keyring.create(tmp_path / "secrets.json"))


@pytest.fixture
def process(shared_url: str, vault: Vault) -> Iterator[Callable[..., AccessTokens]]:
    """Make the tokens of one more process."""
    opened: list[SharedTokens] = []

    def start(airtel: Airtel, url: str = shared_url, credentials: tuple[str, ...] = CREDENTIALS) -> AccessTokens:
        opened.append(SharedTokens(url, vault))
        return AccessTokens(airtel.issue, lambda _: None, opened[-1].of(*credentials))

    yield start
    for each in opened:
        each.close()


def paid(tokens: AccessTokens, airtel: Airtel) -> int:
    return tokens.authorise(airtel.pay, time.monotonic() + 20).status


def test_several_processes_fetch_one_token(process: Callable[..., AccessTokens]) -> None:
    airtel = Airtel()
    processes = [process(airtel) for _ in range(6)]
    with ThreadPoolExecutor(12) as pool:
        replies = [pool.submit(paid, each, airtel) for each in processes * 4]
        assert {each.result() for each in replies} == {202}
    assert airtel.issued == 1


def test_a_token_refused_with_403_is_renewed_once_for_all_processes(process: Callable[..., AccessTokens]) -> None:
    airtel = Airtel()
    first, second = process(airtel), process(airtel)
    assert [paid(first, airtel), paid(second, airtel)] == [202, 202]
    airtel.issue(0)  # Another program ends our token.
    airtel.paid.clear()
    assert [paid(first, airtel), paid(second, airtel)] == [202, 202]
    assert (airtel.issued, airtel.paid) == (3, ["t1", "t3", "t1", "t3"])


def test_other_credentials_get_another_token(process: Callable[..., AccessTokens]) -> None:
    airtel = Airtel()
    paid(process(airtel), airtel)
    paid(process(airtel, credentials=(*CREDENTIALS[:2], "new-secret")), airtel)
    assert airtel.issued == 2


def test_without_redis_each_process_has_a_token_of_its_own(process: Callable[..., AccessTokens]) -> None:
    airtel = Airtel()
    alone = process(airtel, url=NOWHERE)
    assert [paid(alone, airtel), paid(alone, airtel)] == [202, 202]
    assert airtel.issued == 1


def test_a_process_that_dies_while_it_fetches_does_not_keep_others_from_it(
    process: Callable[..., AccessTokens], shared_url: str, vault: Vault
) -> None:
    airtel = Airtel()
    dead = SharedTokens(shared_url, vault)
    assert dead.of(*CREDENTIALS).claim()
    client: Any = dead.client
    (claim,) = client.keys(f"provider:token:{vault.keyed_digest(_content())}:fetching")
    assert 0 < client.ttl(claim) <= 10
    client.pexpire(claim, 100)
    dead.close()
    assert paid(process(airtel), airtel) == 202


def test_redis_holds_no_token_in_clear(process: Callable[..., AccessTokens], shared_url: str, vault: Vault) -> None:
    airtel = Airtel()
    paid(process(airtel), airtel)
    tokens = SharedTokens(shared_url, vault)
    client: Any = tokens.client
    kept = client.get(f"provider:token:{vault.keyed_digest(_content())}")
    assert kept
    assert b"t1" not in kept
    assert 100_000 < client.pttl(f"provider:token:{vault.keyed_digest(_content())}") <= 180_000
    client.set(f"provider:token:{vault.keyed_digest(_content())}", b"spoiled", px=60_000)
    shared: SharedToken = tokens.of(*CREDENTIALS)
    assert shared.load(time.monotonic()) is None
    tokens.close()


def _content() -> bytes:
    return b'["https://airtel.example", "our-id", "our-secret"]'
