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
_WRITTEN_OTHERWISE = str.maketrans("", "", " -\u200b")


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
        self.reported = {line["receipt"] for line in self.of["reported"]}
        self.moved = [line for line in self.of["book"] if line["moved_at"] is not None]
        self._moved_by_receipt = {line.get("number"): line["moved_at"] for line in self.moved}
        self.moved_at: dict[tuple[str, str, int], float] = {}
        for line in self.moved:
            # Of two attempts to pay a row, the first one that moved.
            self.moved_at[mark(line)] = min(line["moved_at"], self.moved_at.get(mark(line), line["moved_at"]))

    def success_at(self, row: Line) -> float | None:
        """When the provider moved the money of a row; None for never. A till may have reported it without a number."""
        is_reported = row.get("origin") == "payer" and receipt_of(row) in self.reported
        return self._moved_by_receipt.get(receipt_of(row)) if is_reported else self.moved_at.get(mark(row))

    def may_be_lost(self, answer: Line) -> bool:
        """Whether a commit that was made during this call may have been lost."""
        began_at, ended_at = self.calls[answer["call"]]["at"], answer["at"]
        return any(began_at <= loss["at"] and loss["since"] <= ended_at for loss in self.of["lost"])

    def is_lost(self, at: float) -> bool:
        """Whether a commit that was noted at a moment may have been lost."""
        return any(loss["since"] <= at <= loss["at"] + LONGEST_WORK_SECONDS for loss in self.of["lost"])

    def was_time_wrong(self, at: float) -> bool:
        """Whether a clock was set before a moment, and the commit that noted it was lost: the service's time moved."""
        return self._was_jump_lost(0, at)

    def was_forgotten(self, entry: Line) -> bool:
        """Whether the commit may have been lost that sent a payment of the provider's book."""
        began_at = entry["began_at"]
        return any(loss["since"] <= began_at <= loss["at"] + LONGEST_WORK_SECONDS for loss in self.of["lost"])

    def was_hurried(self, entry: Line) -> bool:
        """Whether a clock was set before the payment moved and the commit that noted it was lost: deadlines moved."""
        return self._was_jump_lost(entry["began_at"], entry["moved_at"])

    def _was_jump_lost(self, begin: float, end: float) -> bool:
        jumps = [jump["at"] for jump in self.of["jump"] if begin <= jump["at"] <= end]
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


def is_given_back(row: Line) -> bool:
    """Whether the money of a transaction counts nowhere any more."""
    return row.get("released_at") is not None


def receipt_of(row: Line) -> str:
    """The receipt of a row without what programs write otherwise."""
    return receipt_in(row.get("provider_transaction_id"))


def receipt_in(written: str | None) -> str:
    """A receipt without what programs write otherwise."""
    return (written or "").translate(_WRITTEN_OTHERWISE)
