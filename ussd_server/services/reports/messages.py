"""Messages about reports: what became final on a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

from ussd_server.providers.messages import ProviderName
from ussd_server.wire import Cents, SignedCents


@dataclass(frozen=True, slots=True)
class GetDailyReport:
    """Request for the report of a day in Kampala; None is today."""

    date: date | None = None


@dataclass(frozen=True, slots=True)
class ReportRow:
    type: Annotated[str, "The type."]
    provider: Annotated[ProviderName | None, "The provider; null where none moves the money."]
    status: Annotated[str, "The status."]
    count: Annotated[int, "How many payments."]
    amount_cents: Annotated[
        SignedCents, "The sum of their amounts; of corrections, what they added less what they took."
    ]
    fees_cents: Annotated[Cents, "The fees that were charged for them; nothing for failed ones."]
    median_seconds: Annotated[float, "The median time from creation to the final status."]
    given_back_count: Annotated[int, "How many payments of earlier days count no more since this day."] = 0
    given_back_amount_cents: Annotated[SignedCents, "The sum of their amounts, which was taken back."] = 0
    given_back_fees_cents: Annotated[Cents, "The sum of their fees, which was given back."] = 0


@dataclass(frozen=True, slots=True)
class PeriodRow:
    """The payments of one type, provider and status that became final within several days."""

    type: str
    provider: str | None
    status: str
    count: int
    amount_cents: int
    fees_cents: int
    given_back_count: int = 0
    given_back_amount_cents: int = 0
    given_back_fees_cents: int = 0


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """The reports of several days, added up. `success_rate` is that of a daily report."""

    rows: tuple[PeriodRow, ...]
    success_rate: float | None


@dataclass(frozen=True, slots=True)
class DailyReport:
    """What became final on a day."""

    date: Annotated[str, "The day in Kampala."]
    rows: Annotated[tuple[ReportRow, ...], "The groups, by type, provider and status."]
    success_rate: Annotated[float | None, "The share that did not fail, 0 to 1; null on a day without payments."]


@dataclass(frozen=True, slots=True)
class PaymentFigures:
    """How many payments became final, the share that succeeded (0 to 1), and the median seconds until then.

    The last two are None without payments.
    """

    count: int
    success_rate: float | None
    median_seconds: float | None


@dataclass(frozen=True, slots=True)
class ProviderPayments:
    """The payments of one provider in the last hour and the last 24 hours."""

    provider: str
    hour: PaymentFigures
    day: PaymentFigures


@dataclass(frozen=True, slots=True)
class MovedInSpan:
    """What was collected and paid out in an hour, or on a day in Kampala, that began at `began_at`."""

    began_at: datetime
    collected_cents: int
    paid_out_cents: int


@dataclass(frozen=True, slots=True)
class RecentPayments:
    """What moved in each hour of the last day, and each provider's figures.

    `hours` are the present hour and the 23 before it, oldest first.

    `is_complete` is False when there were more payments than are counted at once: the figures are the newest ones'.
    """

    as_of: datetime
    providers: tuple[ProviderPayments, ...]
    hours: tuple[MovedInSpan, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class MovedMoney:
    """How many payments moved money in a period, their sum, and the sum of the same time before it."""

    count: int
    cents: int
    cents_before: int

    @property
    def change(self) -> float | None:
        """The change of the sum, such as 0.12 for 12 percent more; None where nothing moved before."""
        return self.cents / self.cents_before - 1 if self.cents_before else None


@dataclass(frozen=True, slots=True)
class PeriodSums:
    """What was collected and paid out on the last `days` days in Kampala, today included.

    `by_day` are these days, the oldest first. `is_complete` is False when there were more payments than are counted at
    once: the sums are the newest ones'.
    """

    as_of: datetime
    days: int
    collected: MovedMoney
    paid_out: MovedMoney
    by_day: tuple[MovedInSpan, ...]
    is_complete: bool
