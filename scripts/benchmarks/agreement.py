"""Checks that the applications give the same replies: otherwise their speeds could not be compared."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from benchmarks.load.requests import Key, Reply, ask, key_headers, payment, request, session
from benchmarks.stage import Stage

MOST_A_MINUTE = 100
# What every application chooses for itself.
_OWN = {
    "timestamp", "transaction_id", "provider_reference", "created_at", "updated_at", "next_check_at", "client_id",
    "made_by", "request_id",
}  # fmt: skip
_UNKNOWN = Key("f" * 22, "an unknown secret")
WRONG_SECRET = "ussdsk_" + "0" * 49


class DisagreementError(Exception):
    """Two applications reply differently to the same request."""


def agree(stage: Stage) -> None:
    """Send the same requests to every application. Raises DisagreementError with both replies where they differ."""
    spent, paying = {"service": stage.keys["spent"].pop()}, {"service": stage.keys["disbursement"][0]}
    if "peer" in stage.webs:
        spent["peer"], paying["peer"] = stage.peer_keys.pop(), stage.peer_keys[0]
    _agree_on_authentication(stage, spent)
    _agree_on_payments(stage, paying)
    _agree_on_sessions(stage, list(spent))


def _agree_on_authentication(stage: Stage, keys: dict[str, Key]) -> None:
    done = 200, {"success": True, "data": {}, "message": "Done"}
    for name in {"bare", "stock"} & set(stage.webs):
        _compare("a bare answer", done, _shown(ask(stage.webs[name].port, request("GET", "/", {}))))
    for name, key in keys.items():
        for _ in range(MOST_A_MINUTE):
            _compare("an authenticated call", done, _shown(_enter(stage, name, key)))
    _compare("the call above the limit", *(_shown(_enter_too_often(stage, name, key)) for name, key in keys.items()))
    _compare("an unknown key", *(_shown(_enter(stage, name, _UNKNOWN)) for name in keys))
    wrong = {name: key._replace(secret=WRONG_SECRET) for name, key in keys.items()}
    _compare("a wrong secret", *(_shown(_enter(stage, name, key)) for name, key in wrong.items()))


def _enter_too_often(stage: Stage, name: str, key: Key) -> Reply:
    """Return the reply above the limit. While Redis is late, each process accepts a share of its own."""
    for _ in range(MOST_A_MINUTE):
        reply = _enter(stage, name, key)
        if reply.status != HTTPStatus.OK:
            break
    return reply


def _agree_on_payments(stage: Stage, keys: dict[str, Key]) -> None:
    for amount, reference, is_whole in ((500, "a", True), (500, "a", True), (700, "a", False), (0, "b", False)):
        replies = [ask(stage.webs[name].port, payment(key, reference, amount)) for name, key in keys.items()]
        _compare("a payment", *(_shown(reply) if is_whole else reply.status for reply in replies))


def _agree_on_sessions(stage: Stage, names: Sequence[str]) -> None:
    steps = {name: session(stage.gateway_paths[name][0], choices=(3, 1, 8)) for name in names}
    for calls in zip(*steps.values(), strict=True):
        replies = [ask(stage.webs[name].port, call.request) for name, call in zip(steps, calls, strict=True)]
        _compare("a USSD step", *replies)


def _enter(stage: Stage, name: str, key: Key) -> Reply:
    return ask(stage.webs[name].port, request("GET", "/bench/answer", key_headers(key)))


def _shown(reply: Reply) -> Any:
    """Return a reply without what every application chooses for itself."""
    return reply.status, _without_own(reply.document)


def _without_own(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {name: _without_own(value) for name, value in document.items() if name not in _OWN}


def _compare(what: str, one: Any, *others: Any) -> None:
    for other in others:
        if one != other:
            raise DisagreementError(f"{what}: {one} and {other}")
