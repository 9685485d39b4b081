"""How a provider writes its statements: headings, statuses and types of lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum

from ussd_server.messages.reports import KAMPALA


class StatementField(StrEnum):
    """What a column of a statement holds. `CREDIT` and `DEBIT` stand in place of a signed `AMOUNT`."""

    ID = "id"
    REFERENCE = "reference"
    DATE = "date"
    STATUS = "status"
    TYPE = "type"
    SENDER = "sender"
    RECEIVER = "receiver"
    AMOUNT = "amount"
    CREDIT = "credit"
    DEBIT = "debit"
    CURRENCY = "currency"


class LineStatus(StrEnum):
    """What a provider says of a payment in its statement."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PENDING = "pending"


class LineType(StrEnum):
    """What a line of a statement is: money to us, money from us, a payment given back, or the provider's own charge."""

    IN = "in"
    OUT = "out"
    REVERSAL = "reversal"
    FEE = "fee"


@dataclass(frozen=True, slots=True)
class StatementFormat:
    """The tables of one provider. `headings` are in order of preference; keys of the others are `heading_key` texts.

    `zone` is that of dates which name none.
    """

    headings: Mapping[StatementField, tuple[str, ...]]
    statuses: Mapping[str, LineStatus]
    types: Mapping[str, LineType]
    zone: tzinfo = KAMPALA
