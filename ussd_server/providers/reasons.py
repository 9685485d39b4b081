"""The codes of providers and what they mean, from tables that can be corrected without touching code."""

from __future__ import annotations

import csv
from enum import StrEnum
from importlib.resources import files

from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction


class Standing(StrEnum):
    """What a code means that is no failure."""

    SUCCEEDED = "succeeded"
    PENDING = "pending"
    AMBIGUOUS = "ambiguous"
    DUPLICATE = "duplicate"
    NOT_FOUND = "not_found"


Meaning = FailureCode | Standing


class Reasons:
    """The table `failure_reasons.csv` of a provider, with the columns `reason`, `collection` and
    `payout` (disbursements and refunds).

    Every meaning is one of `FailureCode` or `Standing`; any other is a mistake in the table, found when it is read.
    """

    def __init__(self, package: str) -> None:
        """`package` is the folder of the provider, as a dotted name."""
        with files(package).joinpath("failure_reasons.csv").open(encoding="utf-8") as lines:
            self._rows = {
                row["reason"]: (_meaning(row["collection"]), _meaning(row["payout"])) for row in csv.DictReader(lines)
            }

    def meaning(self, reason: object, direction: Direction) -> Meaning | None:
        """What a code means for a payment in this direction; None for a code that is not in the table.

        To a request, a code without a meaning is UNKNOWN, unless the provider states that its HTTP status is final.
        """
        row = self._rows.get(reason.strip().upper()) if isinstance(reason, str) else None
        if row is None:
            return None
        return row[0] if direction is Direction.COLLECTION else row[1]

    def failure(self, reason: object, direction: Direction) -> FailureCode:
        """The failure that a code means, once it is known that the payment failed."""
        meaning = self.meaning(reason, direction)
        return meaning if isinstance(meaning, FailureCode) else FailureCode.PROVIDER_ERROR


def _meaning(text: str) -> Meaning:
    return FailureCode(text) if text.isupper() else Standing(text)
