"""Before anything is measured: the programs must answer alike, or their speeds could not be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks import phones
from benchmarks.generator import Call
from benchmarks.probe import Answer, ask
from benchmarks.requests import Pair, by_key, post_json, request, with_wrong_secret
from benchmarks.stage import Stage
from benchmarks.switchboard import USUAL_NODES

_MOST_IN_A_MINUTE = 100
# What every program chooses for itself.
_OWN = {"timestamp", "transaction_id", "provider_reference", "created_at", "updated_at", "next_check_at", "client_id"}
_UNKNOWN = Pair("f" * 22, "nobody's secret")


class DisagreementError(Exception):
    """Two programs answer the same call differently."""


def agree(stage: Stage) -> None:
    """Ask every program the same. Raises DisagreementError with both answers when two of them differ."""
    _agree_at_the_door(stage)
    if "flask" in stage.peer_tenants:
        _agree_about_payments(stage)
        _agree_about_conversations(stage)
        _agree_about_lists(stage)


def _agree_at_the_door(stage: Stage) -> None:
    keys = {"service": stage.tenants.keys["spent"].pop()}
    keys |= {name: peer.keys.pop() for name, peer in stage.peer_tenants.items()}
    bare = _shown(ask(stage.port("bare"), request("GET", "/", {})))
    for name, pair in keys.items():
        _compare("the right pair", bare, _shown(_enter(stage, name, pair)))
    for what, change in {"a wrong secret": with_wrong_secret, "an unknown key": lambda _: _UNKNOWN}.items():
        _agree_all(what, (_enter(stage, name, change(pair)) for name, pair in keys.items()))
    for name, pair in keys.items():
        for _ in range(_MOST_IN_A_MINUTE - 1):
            _compare("a call within the limits", bare, _shown(_enter(stage, name, pair)))
    _agree_all("a spent key", (_enter(stage, name, pair) for name, pair in keys.items()))


def _enter(stage: Stage, name: str, pair: Pair) -> Answer:
    return ask(stage.port(name), request("GET", "/bench/door", by_key(pair)))


def _agree_about_payments(stage: Stage) -> None:
    keys = {"service": stage.tenants.keys["disbursement"][0], "flask": stage.peer_tenants["flask"].keys[0]}
    attempts = ((500, "agreed", _shown), (500, "agreed", _shown), (700, "agreed", _status), (0, "refused", _status))
    for amount, reference, shown in attempts:
        wish = {"type": "disbursement", "phone_number": "+256771000000", "amount": amount, "reference": reference,
                "provider": "sandbox"}  # fmt: skip
        calls = {name: post_json("/api/transactions", wish, by_key(pair), b"") for name, pair in keys.items()}
        _agree_both(stage, f"{amount} for {reference}", calls, shown)


def _agree_about_conversations(stage: Stage) -> None:
    code = stage.switchboard.code_of(USUAL_NODES)
    paths = {"service": stage.switchboard.paths[0], "flask": stage.peer_tenants["flask"].gateway_paths[0]}
    steps = {name: phones.conversation(path, code, choices=(3, 1, 8)) for name, path in paths.items()}
    for ours, theirs in zip(*steps.values(), strict=True):
        _agree_both(stage, "a step", {"service": ours, "flask": theirs}, lambda answer: answer)


def _agree_about_lists(stage: Stage) -> None:
    tokens = {"service": stage.tenants.access_tokens()[0], "flask": stage.peer_tenants["flask"].tokens[0]}
    calls = {
        name: Call(request("GET", "/api/clients/api-keys", {"Authorization": f"Bearer {token}"}))
        for name, token in tokens.items()
    }
    _agree_both(stage, "a list of keys", calls, _outline)


def _status(answer: Answer) -> int:
    return answer.status


def _outline(answer: Answer) -> Any:
    """A list of keys without what differs from key to key."""
    document = answer.document
    rows = document.pop("data")
    return answer.status, document, len(rows), sorted(rows[0])


def _shown(answer: Answer) -> Any:
    """An answer without what every program chooses for itself."""
    return answer.status, _without_own(answer.document)


def _without_own(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {name: _without_own(value) for name, value in document.items() if name not in _OWN}


def _agree_all(what: str, answers: Iterable[Answer]) -> None:
    first, *others = map(_shown, answers)
    for other in others:
        _compare(what, first, other)


def _agree_both(stage: Stage, what: str, calls: dict[str, Call], shown: Callable[[Answer], Any]) -> None:
    ours, theirs = (shown(ask(stage.port(name), call.request)) for name, call in calls.items())
    _compare(what, ours, theirs)


def _compare(what: str, one: Any, other: Any) -> None:
    if one != other:
        raise DisagreementError(f"{what}: {one} and {other}")
