"""Bugs that worlds of money have to find: each takes one safeguard of movements out of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from ussd_server.services.accounts.ledger import FEE
from ussd_server.services.gates import given_back
from ussd_server.services.incoming.notices import NoticeService
from ussd_server.services.movements import corrections, releases
from ussd_server.services.reconciliation import imports
from ussd_server.services.transactions.messages import Effect

Plant = Callable[[], Any]


def _replaced(module: Any, name: str, result: Any) -> Plant:
    """A function always answers the same."""
    return lambda: patch.object(module, name, lambda *_, **__: result)


def _fees_are_kept() -> Any:
    write = given_back.write_entry

    def without_fee(client_id: str, name: str, legs: Any, now: Any) -> None:
        write(client_id, name, [leg for leg in legs if leg.purpose != FEE], now)

    return patch.object(given_back, "write_entry", without_fee)


def _corrections_are_credits() -> Any:
    return patch.object(corrections, "_effect_of", lambda movement: Effect.CREDIT)


MONEY_BUGS: dict[str, tuple[str, Plant]] = {
    "line-told-anew": (
        "what replaced a success is told again by the next statement",
        _replaced(releases, "merge", None),
    ),
    "release-keeps-money": ("a released payment keeps its money", _replaced(releases, "_take_back", None)),
    "correction-is-credit": ("what left is corrected as what came in", _corrections_are_credits),
    "lines-not-held": ("what a statement alone has is not held", _replaced(imports, "moved_lines", [])),
    "waits-for-ever": ("what waited for a payment is never decided", _replaced(NoticeService, "decide_waiting", 0)),
    "undone-and-held": ("what an undone import told stays held", _replaced(imports, "take_back", None)),
    "fee-is-kept": ("a payment that counts nowhere keeps its fee", _fees_are_kept),
}
