"""Payments around a day, their statements, and the close of the day."""

from __future__ import annotations

from datetime import date, timedelta

from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile, with_balances
from tests.support.money import a_client, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.services.reconciliation.messages import CloseDay, ClosedDayView, CoverDays, EndDifference
from ussd_server.values import KAMPALA

BY, SECOND = "Mary Akello", "John Okot"


def at_hour(clock: MovableClock, hour: int, minute: int = 0) -> None:
    """Move to the next time of this hour in Kampala."""
    now = clock.now().astimezone(KAMPALA)
    wanted = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    clock.advance(((wanted if wanted > now else wanted + timedelta(days=1)) - now).total_seconds())


def pay(services: Services, clock: MovableClock, shillings: int = 5000) -> Transaction:
    reference = f"r{Transaction.select().count()}"
    made = services.transactions.create(
        request(number="+256770000000", shillings=shillings, reference=reference), a_client()
    )
    work(services, clock, 5)
    return Transaction.get_by_id(made.transaction.transaction_id)


def three_days(services: Services, clock: MovableClock) -> list[list[str]]:
    """The lines of a payment today at noon, of three on the day, and of one on the day after it, with balances."""
    rows = [mtn_row(pay(services, clock, 1000))]
    for hour in (9, 13, 21):
        at_hour(clock, hour)
        rows.append(mtn_row(pay(services, clock)))
    at_hour(clock, 10)
    rows.append(mtn_row(pay(services, clock, 2000)))
    clock.advance(86_400)
    return with_balances(rows)


def store(services: Services, rows: list[list[str]], **options: object) -> str:
    return reconcile(services, rows, **options).statement.statement_id


def close(services: Services, day: date, second: str | None = None, *, is_empty: bool = False) -> ClosedDayView:
    return services.days.close(CloseDay(day, "sandbox", BY, is_empty, second), operator())


def cover(services: Services, statement_id: str, day: date) -> None:
    """Two operators state that a statement has every line of a day."""
    services.provider_statements.cover(CoverDays(statement_id, day, day, BY, SECOND), operator())


def end_reviews(services: Services) -> None:
    for each in open_reviews(services):
        services.differences.end(EndDifference(each.difference_id, "explained", BY), operator())
