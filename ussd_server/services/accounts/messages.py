"""Messages about balances, fees and statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.wire import Cents, ListPage, WrittenMoment


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """What a client pays for a type of transaction: a fixed part of 0 to 99_999_999 cents and a share of the amount.

    `share_basis_points` is the share in hundredths of a percent, 0 to 10_000.
    """

    client_id: str
    type: TransactionType
    fixed_cents: int
    share_basis_points: int


@dataclass(frozen=True, slots=True)
class GetStatement(ListPage):
    """Request for the statement of an account: `main`, or a subscriber's phone number.

    `from_at` is included, `to_at` is not and may lie ahead; None sets no bound. `limit` (1 to 100) and `cursor` are
    those of a page.
    """

    account: str = MAIN_ACCOUNT
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GetBalances:
    """Request for the balances of an account at 1 to 100 moments."""

    account: str
    moments: tuple[datetime, ...]


class StatementLine(NamedTuple):
    at: Annotated[WrittenMoment, "When it was committed."]
    kind: Annotated[
        str,
        "The type of the transaction; `fee` for its fee, `shortfall` for what was lacking, on lines of their own.",
    ]
    transaction_id: Annotated[str, "The transaction."]
    reference: Annotated[str, "The client's own reference, unique for ever. Repeating a request with it is safe."]
    description: Annotated[str | None, "A description by the client."]
    debit_cents: Annotated[Cents | None, "What went out; null on a line that came in."]
    credit_cents: Annotated[Cents | None, "What came in; null on a line that went out."]
    balance_cents: Annotated[Cents, "All money in the account after this line."]


@dataclass(frozen=True, slots=True)
class StatementView:
    """A page of a statement, oldest line first, with the balances before and after the whole period."""

    opening_balance_cents: Annotated[Cents, "The balance before the period, on every page."]
    closing_balance_cents: Annotated[Cents, "The balance at the end of the whole period, on every page."]
    items: Annotated[tuple[StatementLine, ...], "The entries of this page."]
    next_cursor: Annotated[str | None, "The `cursor` of the next page; null on the last."]


@dataclass(frozen=True, slots=True)
class StatementStream:
    """A whole statement. `lines` are read some at a time, once."""

    opening_balance_cents: int
    closing_balance_cents: int
    lines: Iterator[StatementLine]


@dataclass(frozen=True, slots=True)
class StatementCsv:
    """A whole statement as a CSV file. Close `parts` when they are not read to the end."""

    opening_balance: str
    closing_balance: str
    parts: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Balance:
    account: Annotated[str, "`main`, or the phone number of a subscriber for whom the client keeps an account here."]
    currency: Annotated[str, "`UGX`."]
    current_cents: Annotated[Cents, "All money in the account."]
    available_cents: Annotated[Cents, "What can be spent: `current` minus `reserved`."]
    reserved_cents: Annotated[Cents, "Money held by transactions under way."]
    as_of: Annotated[datetime, "When the balance was read."]
