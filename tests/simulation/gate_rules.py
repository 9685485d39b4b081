"""What must hold at the gates of money. Like the checker, it knows nothing of the program.

Further lines: `reported`: a till reported a `receipt` for which a client had asked. `sender`: what sends money, and its
daily `limit` in cents, None for any; `invoked` lines name their `sender`. `revoked`, `restored`: a sender or a client
lost its right, or has it again. `bank`: a payment of the bank to a client. `closed`: a day that operators closed, from
`begins` to `ends`; `closed_day`: its row at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.history import LONGEST_WORK_SECONDS, History, Line, is_given_back, mark, receipt_of

SUCCESSFUL = ("succeeded", "reversed")
_DAY_SECONDS = 86_400
# The world begins at six in the morning.
_MIDNIGHT = 6 * 3600


def counted_once(history: History) -> Iterator[str]:
    """Each receipt of the provider and of the bank moves one balance once, with its amount."""
    counted: dict[tuple[bool, str], list[Line]] = defaultdict(list)
    for row in history.transactions.values():
        if row["type"] in ("collection", "settlement") and row["status"] in SUCCESSFUL and not is_given_back(row):
            counted[row["type"] == "settlement", receipt_of(row)].append(row)
    for (_, receipt), rows in counted.items():
        if len(rows) > 1 and receipt:
            yield f"receipt {receipt} counts {len(rows)} times"
    for line in history.of["bank"]:
        rows = counted[True, line["reference"]]
        has = [(row["client_id"], row["amount_cents"]) for row in rows]
        # What a lost commit forgot is recorded by the bank's file.
        if has != [(line["client"], line["cents"])]:
            yield f"the bank paid {line['reference']} of {line['cents']}, and {len(rows)} settlements have it"


def gate_holds(history: History) -> Iterator[str]:
    """Nothing leaves for a sender or a client that was revoked before it began to leave, or beyond a limit.

    Between its gate and the call of the provider a process may be frozen.
    """
    asked: dict[str, float] = {}
    for line in history.of["called"]:
        if line["kind"] == "ask":
            asked.setdefault(line["phone"], line["at"])
    sent = {mark(call): call for call in history.calls.values() if "sender" in call and call["phone"] in asked}
    for key, call in sent.items():
        for revoked in history.of["revoked"]:
            if revoked["sender"] not in (call["sender"], call["client"]) or history.is_lost(revoked["at"]):
                continue
            later = [line["at"] for line in history.of["restored"] if line["sender"] == revoked["sender"]]
            until = min((at for at in later if at > revoked["at"]), default=float("inf"))
            if revoked["at"] < asked[call["phone"]] - LONGEST_WORK_SECONDS < until - 2 * LONGEST_WORK_SECONDS:
                yield f"{key} left after its {revoked['how']}"
    yield from _limits_hold(history, asked, list(sent.values()))


def _limits_hold(history: History, asked: dict[str, float], sent: list[Line]) -> Iterator[str]:
    moved = {mark(line): line for line in history.moved if line["is_kept"] and line["failed_at"] is None}
    for sender in history.of["sender"]:
        calls = [call for call in sent if call["sender"] == sender["sender"] and mark(call) in moved]
        if sender["limit"] is None or not calls:
            continue
        until = max(asked[call["phone"]] for call in calls)
        if any(sender["at"] <= loss["at"] and loss["since"] <= until for loss in history.of["lost"]):
            continue
        days = int((until + _MIDNIGHT) // _DAY_SECONDS) - int((sender["at"] + _MIDNIGHT) // _DAY_SECONDS) + 1
        cents = sum(call["cents"] for call in calls)
        if cents > sender["limit"] * days and not history.was_time_wrong(until):
            yield f"{cents} left for {sender['sender']} in {days} days with a limit of {sender['limit']}"


def closed_days_stay(history: History) -> Iterator[str]:
    """A day is closed with everything that the provider moved on it, is the sum of it, and stays as it was closed."""
    rows = {row["day"]: (row["ours_cents"], row["theirs_cents"]) for row in history.of["closed_day"]}
    for line in history.of["closed"]:
        if "day" not in line:
            continue
        theirs = sum(
            entry["cents"] if entry["direction"] == "collection" else -entry["cents"]
            for entry in history.moved
            if entry["is_kept"] and line["begins"] <= entry["moved_at"] < line["ends"]
        )
        if line["theirs"] != theirs:
            yield f"{line['day']} was closed with {line['theirs']} and the provider moved {theirs}"
        if lacking := line["ours"] - line["theirs"] - line["bridge"]:
            yield f"{line['day']} lacks {lacking} in its bridge"
        if rows.get(line["day"]) != (line["ours"], line["theirs"]):
            yield f"{line['day']} was closed with {line['ours']} and {line['theirs']} and is {rows.get(line['day'])}"
