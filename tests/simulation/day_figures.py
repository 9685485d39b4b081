"""What happened on a simulated day, counted from its history; it knows nothing of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.simulation.checker import MOVED_BY_PROVIDERS, SUCCESSFUL, in_review
from tests.simulation.history import History, Line
from tests.simulation.payer_rules import (
    canonical,
    fitting_code,
    payers_are_matched_by_their_code,
    payers_money_is_accounted,
)

_FAULTS = ("kill", "stall", "freeze", "broken connection")


def figures_of(lines: list[Line], faults: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """The counts of a day, what is unexplained, and the bridge of the closed day."""
    history = History(lines)
    paid = [line for line in history.of["book"] if "receipt" in line]
    names = {(call["client"], call["name"]) for call in history.calls.values()}
    reported = {call["name"] for call in history.calls.values() if call["name"].startswith("in/")}
    states = Counter(row["use_kind"] or "held" for row in history.of["movement"])
    decided = {line["receipt"]: line["code"] for line in history.of["decided"]}
    booked = {row["provider_transaction_id"] for row in history.transactions.values() if row["origin"] == "payer"}
    struck = Counter[str]()
    for (fault, _), count in faults.items():
        struck[fault.partition(":")[0] if ":" in fault else fault] += count
    (closed,) = history.of["closed"]
    return {
        "payments": len(names) + len(paid) - len(reported),
        "of payers": len(paid),
        "with a wrong code": sum(canonical(line["typed"]) not in history.codes for line in paid),
        "with another amount than the code takes": sum(
            canonical(line["typed"]) in history.codes and fitting_code(history, line["typed"], line["cents"]) is None
            for line in paid
        ),
        "never reported by the till": len(paid) - len(reported),
        "booked by their code": len(booked - decided.keys()),
        "held, then assigned by two operators": sum(code is not None for code in decided.values()),
        "held, then returned": states["returned"],
        "still held": states["held"],
        "calls": len(history.calls),
        "repeats": len(history.calls) - len(names),
        "calls without an answer": len(history.of["unknown"]),
        "calls of the provider": len(history.of["called"]),
        "moods of the provider": sum(line["mood"] != "prompt" for line in history.of["called"]),
        **{f"faults: {fault}": struck[fault] for fault in _FAULTS},
        "shillings that the provider moved, in less out": sum(map(_signed, history.moved)) // 100,
        "shillings unexplained": -(-_unexplained_cents(history) // 100),
        "payments wrongly matched": len(list(payers_are_matched_by_their_code(history))),
        "payments wrongly counted": len(list(payers_money_is_accounted(history))),
        "closed": {name: closed[name] for name in ("ours", "theirs", "bridge")},
        "bridge lacks": closed["ours"] - closed["theirs"] - sum(step["amount_cents"] for step in closed["bridge"]),
    }


def _unexplained_cents(history: History) -> int:
    """What the provider moved and no row of ours says, or a row says and the provider did not move.

    Held and returned payments, open reviews and the differences of the statement explain what they name.
    """
    named = {line["reference"] or line["receipt"] for line in history.of["difference"]}
    waiting = {row["receipt"]: row for row in history.of["movement"] if row["use_kind"] != "payment"}
    ours: dict[str, int] = {}
    for row in history.transactions.values():
        if row["type"] in MOVED_BY_PROVIDERS and row["status"] in SUCCESSFUL and not in_review(row):
            is_payers = row["origin"] == "payer"
            ours[row["provider_transaction_id"] if is_payers else row["provider_reference"]] = _signed(row)
        elif row["type"] in MOVED_BY_PROVIDERS and in_review(row):
            named.add(row["provider_reference"])
    theirs: dict[str, int] = {}
    for line in history.moved:
        name = line.get("receipt", line["reference"])
        if line["is_kept"] and (name not in waiting or waiting[name]["amount_cents"] != line["cents"]):
            theirs[name] = _signed(line)
    return sum(abs(ours.get(name, 0) - theirs.get(name, 0)) for name in (ours.keys() | theirs.keys()) - named)


def _signed(line: Line) -> int:
    cents: int = line.get("cents", line.get("amount_cents"))
    return cents if line.get("direction", line.get("type")) == "collection" else -cents
