"""What must hold of the rows of payouts: each is one intent. Like the checker, it knows nothing of the program.

Further lines: `attempt`: an attempt to pay a row at the end, with its `number` and its `transaction_id`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.history import History, Line, mark

SUCCESSFUL = ("succeeded", "reversed")


def rows_are_charged_once(history: History) -> Iterator[str]:
    """Of the attempts to pay a row at most one counts, however often its provider paid it."""
    charged: dict[tuple[str, int], list[str]] = defaultdict(list)
    for attempt in history.of["attempt"]:
        row = history.transactions[attempt["transaction_id"]]
        if row["status"] in SUCCESSFUL:
            charged[attempt["payout_id"], attempt["line"]].append(row["reference"])
    for references in charged.values():
        if len(references) > 1:
            yield f"one row is charged as {' and '.join(references)}"


def rows_go_again_after_failure(history: History) -> Iterator[str]:
    """A row goes to its provider under another name only after every earlier name has failed there, or was refused."""
    asked: dict[str, float] = {}
    for line in history.of["called"]:
        if line["kind"] == "ask" and "reference" in line:
            asked.setdefault(line["reference"], line["at"])
    entries: dict[tuple[str, str, int], list[Line]] = defaultdict(list)
    for entry in history.of["book"]:
        if entry["direction"] == "disbursement":
            entries[mark(entry)].append(entry)
    for key, tried in entries.items():
        tried.sort(key=lambda entry: asked.get(entry["reference"], entry["began_at"]))
        for earlier, later in pairwise(tried):
            failed_at = earlier["failed_at"]
            if failed_at is None or failed_at > asked[later["reference"]]:
                yield f"{key} went again before its failure"
