"""Messages about bank accounts and settlements to the bank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import BinaryIO

LARGEST_FILE_BYTES = 1024 * 1024
"""The largest file of settlements."""


@dataclass(frozen=True, slots=True)
class StateBankAccount:
    """State the bank account of the caller's client. Each part has 1 to 100 characters that can be printed."""

    bank: str
    number: str
    name: str


@dataclass(frozen=True, slots=True)
class SetSettlementTerms:
    """Agree with a client how much stays here, and the least settlement; None: nothing, and any sum. In cents."""

    client_id: str
    keep_cents: int | None = None
    minimum_cents: int | None = None


@dataclass(frozen=True, slots=True)
class ConfirmBankAccount:
    """Confirm the bank account that was shown: `digest` is that of the `BankAccountView`, or `number` its number."""

    client_id: str
    by: str
    digest: str | None = None
    number: str | None = None


@dataclass(frozen=True, slots=True)
class BankAccountView:
    """The bank account of a client and its terms. All three parts are None until an owner states them.

    `confirmed_at` is None until an operator confirms the account, and again after each change.
    """

    client_id: str
    client: str
    bank: str | None
    number: str | None
    name: str | None
    stated_at: datetime | None
    confirmed_by: str | None
    confirmed_at: datetime | None
    keep_cents: int | None
    minimum_cents: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class DueSettlement:
    """What a client is due: `amount_cents` to its confirmed bank account. `settlement_id` is None until proposed."""

    client_id: str
    client: str
    bank: str
    number: str
    name: str
    amount_cents: int
    settlement_id: str | None = None

    def with_id(self, settlement_id: str) -> DueSettlement:
        """The same, reserved as a settlement."""
        return replace(self, settlement_id=settlement_id)


@dataclass(frozen=True, slots=True)
class ProposeSettlements:
    """Reserve what clients were due at the end of `day`, None: now. `by` is the operator who proposes."""

    by: str
    day: date | None = None


@dataclass(frozen=True, slots=True)
class EndSettlement:
    """Cancel a settlement, or record that the bank sent it back. `by` and `second` are two different operators."""

    settlement_id: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class RecordSettlements:
    """Record the lines of a file that have a bank reference. `by` and `second` name two different operators.

    `is_paid`: also of disabled clients and for bank accounts that were changed, because the bank has paid.
    """

    source: BinaryIO
    by: str
    second: str
    is_paid: bool = False


@dataclass(frozen=True, slots=True)
class SettlementLine:
    """A settlement that the bank has made; `line` is its number in the file, from 1.

    `is_paid` is that of `RecordSettlements`.
    """

    line: int
    client_id: str
    bank: str
    number: str
    name: str
    amount_cents: int
    bank_reference: str
    settlement_id: str
    is_paid: bool = False


@dataclass(frozen=True, slots=True)
class SettlementView:
    """A settlement. `replayed`: an earlier file has recorded it.

    `status` is `created` until the bank has paid it, then `succeeded`; `failed` if it was cancelled, `reversed` if the
    bank sent it back. `bank_account` is that for which it was proposed. `bank_reference` is None until it is recorded.
    `by` is the operator who proposed it, and once it is recorded or cancelled, `by` and `and_` are the two who did so.
    """

    settlement_id: str
    client_id: str
    client: str
    amount_cents: int
    status: str
    bank_account: str | None
    bank_reference: str | None
    created_at: datetime
    by: str | None
    and_: str | None
    replayed: bool = False
