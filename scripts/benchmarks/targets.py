"""What is measured: the bare answer, the service's calls, and what the peers have beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import phones
from benchmarks.generator import Call, Load
from benchmarks.probe import ask
from benchmarks.requests import Pair, by_key, call_with, post_json, request, with_wrong_secret
from benchmarks.stage import Stage
from benchmarks.switchboard import USUAL_NODES
from benchmarks.tenants import CLIENTS

CONNECTIONS = 32
# One list keeps a processor busy for long: with many in flight a short run would end before most of them.
_CONNECTIONS_FOR_LISTS = 4
_DONE = b'"Done"'
# More than any of the programs answers in a second, for calls that are made once only.
_ONCE_PER_SECOND = 8000
_SPENT_AT_ONCE = 4
_MOST_IN_A_MINUTE = 100
# How often each of two processes must see a key before it knows it, with some to spare.
CALLS_UNTIL_KNOWN = 8
_KEYS_KNOWN = CALLS_UNTIL_KNOWN * CLIENTS
# Lists are slow, and fewer keys are known sooner.
_LISTING_KEYS = 200
_numbers = itertools.count()

Scripts = Sequence[Sequence[Call]]


@dataclass(frozen=True, slots=True)
class Target:
    """Calls to one program of the stage.

    `make` gives the scripts of a run of so many seconds; what does not `repeat` is called once each.
    `beside` names the bare answer that the target is compared with. What `is_promised` is measured under a steady load
    as well. Before anything is measured, at least `warm_up_calls` are made.
    """

    name: str
    program: str
    make: Callable[[Stage, float], Scripts]
    status: int = 200
    repeats: bool = True
    connections: int = CONNECTIONS
    beside: str = "bare GET"
    is_promised: bool = False
    warm_up_calls: int = 0

    def load(self, stage: Stage, seconds: float, rate: float = 0) -> Load:
        """The load of one run."""
        scripts = self.make(stage, seconds)
        return Load(stage.port(self.program), scripts, seconds, self.connections, self.status, self.repeats, rate)


def _by_keys_of(purpose: str, path: str, stage: Stage, _: float, mark: bytes = _DONE, count: int = CLIENTS) -> Scripts:
    return [call_with(stage.tenants.keys[purpose][:count], path, mark)]


def _by_keys_of_peer(peer: str, stage: Stage, _: float) -> Scripts:
    return [call_with(stage.peer_tenants[peer].keys, "/bench/door", _DONE)]


def _with_wrong_secrets(stage: Stage, _: float) -> Scripts:
    pairs = [with_wrong_secret(pair) for pair in stage.tenants.keys["refused"]]
    return [call_with(pairs, "/bench/door", b"INVALID_CREDENTIALS")]


def _spent(stage: Stage, _: float) -> Scripts:
    """Calls by keys that have just made all that they may make in a minute."""
    keys = stage.tenants.keys["spent"]
    fresh = [keys.pop(0) for _ in range(_SPENT_AT_ONCE)]
    for call in call_with(fresh, "/bench/door", _DONE) * _MOST_IN_A_MINUTE:
        ask(stage.port("service"), call.request)
    return [call_with(fresh, "/bench/door", b"RATE_LIMIT_EXCEEDED")]


def _payments(kind: str, path: str, mark: bytes, pairs: Callable[[Stage], list[Pair]]) -> Callable[..., Scripts]:
    def make(stage: Stage, seconds: float) -> Scripts:
        calls = []
        for place, pair in zip(range(int(seconds * _ONCE_PER_SECOND)), itertools.cycle(pairs(stage))):
            number = next(_numbers)
            wish = {
                "type": kind, "phone_number": f"+2567{71_000_000 + number % 9_000_000}", "amount": 500,
                "reference": f"order-{number}", "provider": "sandbox",
            }  # fmt: skip
            calls.append(post_json(path, wish, by_key(pair, place), mark))
        return [calls]

    return make


def _listing(tokens: Callable[[Stage], list[str]]) -> Callable[..., Scripts]:
    def make(stage: Stage, _: float) -> Scripts:
        given = tokens(stage)
        heads = [{"Authorization": f"Bearer {token}"} for token in given]
        calls = [Call(request("GET", "/api/clients/api-keys", head), b"API keys list") for head in heads]
        return [calls]

    return make


def _dialling(program: str, stage: Stage, seconds: float) -> Scripts:
    board = stage.switchboard
    paths = board.paths if program == "service" else stage.peer_tenants[program].gateway_paths
    most = int(seconds * _ONCE_PER_SECOND)
    return phones.conversations(paths, board.code_of(USUAL_NODES), CONNECTIONS, most)


_CREATED = b'"created"'
_SERVICE = "/api/transactions"
_disbursing = partial(_payments, "disbursement", _SERVICE, _CREATED)

TARGETS = [
    Target("bare GET", "bare", partial(_by_keys_of, "door", "/")),
    Target("door", "service", partial(_by_keys_of, "door", "/bench/door"), is_promised=True,
        warm_up_calls=_KEYS_KNOWN),
    Target("flask door", "flask", partial(_by_keys_of_peer, "flask")),
    Target("flask door, use noted once a minute", "flask minute", partial(_by_keys_of_peer, "flask minute")),
    Target("fastapi door", "fastapi", partial(_by_keys_of_peer, "fastapi")),
    Target("django door", "django", partial(_by_keys_of_peer, "django")),
    Target("refused 401", "service", _with_wrong_secrets, status=401, warm_up_calls=_KEYS_KNOWN),
    Target("refused 429", "service", _spent, status=429),
    Target(
        "balance", "service", partial(_by_keys_of, "balance", "/api/balance", mark=b'"available"'), is_promised=True,
        warm_up_calls=_KEYS_KNOWN,
    ),
    Target(
        "collection list", "service",
        partial(_by_keys_of, "list", "/data/collection?limit=20", mark=b'"items"', count=_LISTING_KEYS),
        warm_up_calls=CALLS_UNTIL_KNOWN * _LISTING_KEYS,
    ),
    Target(
        "bare POST", "bare", _payments("disbursement", "/", _DONE, lambda stage: stage.tenants.keys["disbursement"]),
        beside="bare POST",
    ),
    Target(
        "disbursement", "service", _disbursing(lambda stage: stage.tenants.keys["disbursement"]),
        status=201, repeats=False, beside="bare POST", is_promised=True, warm_up_calls=_KEYS_KNOWN,
    ),
    Target(
        "collection", "service",
        _payments("collection", _SERVICE, _CREATED, lambda stage: stage.tenants.keys["collection"]),
        status=201, repeats=False, beside="bare POST", warm_up_calls=_KEYS_KNOWN,
    ),
    Target(
        "flask disbursement", "flask", _disbursing(lambda stage: stage.peer_tenants["flask"].keys),
        status=201, repeats=False, beside="bare POST",
    ),
    Target(
        "ussd step", "service", partial(_dialling, "service"), repeats=False, beside="bare POST", is_promised=True
    ),
    Target("flask ussd step", "flask", partial(_dialling, "flask"), repeats=False, beside="bare POST"),
    Target(
        "1000 keys", "service", _listing(lambda stage: stage.tenants.access_tokens()),
        connections=_CONNECTIONS_FOR_LISTS,
    ),
    Target(
        "flask 1000 keys", "flask", _listing(lambda stage: stage.peer_tenants["flask"].tokens),
        connections=_CONNECTIONS_FOR_LISTS,
    ),
]  # fmt: skip
"""Every target, in the order in which a round measures them."""
