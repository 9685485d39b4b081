"""A history by what its lines are, and how a payment is recognised in it. It knows nothing of the program."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Line = dict[str, Any]
# The program enquires once more so long after a failure (contract: providers report success after failure).
LAST_ENQUIRY_SECONDS = 600
LONGEST_WORK_SECONDS = 120
# Within so long of a clock that was set, processes note it.
_NOTICE_SECONDS = 15


class History:
    """The lines of a history by what they are."""

    def __init__(self, lines: list[Line]) -> None:
        self.of: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            self.of[line["what"]].append(line)
        self.calls = {line["call"]: line for line in self.of["invoked"]}
        self.answers = [(self.calls[line["call"]], line) for line in self.of["answered"]]
        self.transactions = {line["id"]: line for line in self.of["transaction"]}
        self.codes = {line["code"]: line["cents"] for line in self.of["code"]}
        self.moved = [line for line in self.of["book"] if line["moved_at"] is not None]
        self.moved_at = {mark(line): line["moved_at"] for line in self.moved}

    def may_be_lost(self, answer: Line) -> bool:
        """Whether a commit that was made during this call may have been lost."""
        began_at, ended_at = self.calls[answer["call"]]["at"], answer["at"]
        return any(began_at <= loss["at"] and loss["since"] <= ended_at for loss in self.of["lost"])

    def was_forgotten(self, entry: Line) -> bool:
        """Whether the commit may have been lost that sent a payment of the provider's book."""
        began_at = entry["began_at"]
        return any(loss["since"] <= began_at <= loss["at"] + LONGEST_WORK_SECONDS for loss in self.of["lost"])

    def was_hurried(self, entry: Line) -> bool:
        """Whether a clock was set before the payment moved and the commit that noted it was lost: deadlines moved."""
        jumps = [jump["at"] for jump in self.of["jump"] if entry["began_at"] <= jump["at"] <= entry["moved_at"]]
        return any(
            loss["since"] <= at + _NOTICE_SECONDS and at <= loss["at"] for at in jumps for loss in self.of["lost"]
        )


def mark(line: Line) -> tuple[str, str, int]:
    """How a payment is recognised everywhere."""
    cents = line.get("cents", line.get("amount_cents"))
    phone = line.get("phone", line.get("phone_number"))
    return str(line.get("direction") or line.get("kind") or line.get("type")), str(phone), int(cents or 0)


def is_late(line: Line) -> bool:
    """Whether the provider took a failure back after our last enquiry about it."""
    # A payment that is not kept failed after it had moved.
    return (
        line["is_kept"]
        and line["failed_at"] is not None
        and line["moved_at"] - line["failed_at"] > LAST_ENQUIRY_SECONDS
    )


def name_of(call: Line) -> tuple[str, str]:
    """The client and its own reference."""
    return call["client"], call["name"]
