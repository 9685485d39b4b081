"""The money that a payout holds for rows that wait to be sent: reserved at once, passed on row by row, or released."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import orjson
from peewee import fn

from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.keys import KeySpending
from ussd_server.models.payouts import Payout, PayoutAttempt, PayoutHold, PayoutItem
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import Postings, named_refusals, write_postings
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day

_COSTS = PayoutItem.amount_cents + PayoutItem.fee_cents


def reserve(payout: Payout, fees: Mapping[int, int], skipped: Collection[int], now: datetime) -> None:
    """Hold the money of the rows of a round, whose fees are by line, without those that are skipped.

    Call in a `long_unit_of_work` with the payout locked. Raises OverdraftError, DailyLimitError, and INVALID_REQUEST
    where every row is skipped. The account is locked by the last statement, so other payments hardly wait for it.
    """
    kept = {line: cents for line, cents in fees.items() if line not in skipped}
    if not kept:
        raise ServiceError(Code.INVALID_REQUEST, "Every row of the round was paid already, or may still be")
    cents = _write(payout, kept, "waits = true, ")
    hold = PayoutHold.create(
        payout_id=payout.id,
        number=PayoutHold.select().where(PayoutHold.payout_id == payout.id).count() + 1,
        round=payout.round,
        key_id=payout.counted_key_id,
        day=kampala_day(now),
        reserved_cents=cents,
    )
    if hold.key_id is not None:
        spent = {"key_id": hold.key_id, "day": hold.day, "cents": cents, "limit_cents": payout.key_limit_cents}
        write_postings(Postings(accounts=(), legs=(), spending=[spent]))
    payout.reserved_at, payout.held_cents = now, cents
    with named_refusals():
        payout.save()


def write_fees(payout: Payout, fees: Mapping[int, int]) -> None:
    """Write the fees of rows of the round by their lines, and set the sums; the caller saves the payout."""
    _write(payout, fees)


def _write(payout: Payout, fees: Mapping[int, int], also: str = "") -> int:
    """As `write_fees`, with other columns; return what the rows that wait then cost, in cents."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    fee = dialect().json_value(":fees", "'line' || line", "bigint")
    run_query(
        f"UPDATE payout_items SET {also}fee_cents = {fee} WHERE payout_id = :payout_id AND {fee} IS NOT NULL",  # noqa: S608
        fees=orjson.dumps({f"line{line}": cents for line, cents in fees.items()}).decode(),
        payout_id=payout.id,
    )
    of_round = fn.SUM(PayoutItem.fee_cents).filter(PayoutItem.round == payout.round)
    sums: Any = PayoutItem.select(fn.SUM(PayoutItem.fee_cents), of_round, fn.SUM(_COSTS).filter(PayoutItem.waits))
    ((total, in_round, waiting),) = sums.where(PayoutItem.payout_id == payout.id, PayoutItem.is_ready).tuples()
    payout.total_fee_cents, payout.round_fee_cents = int(total or 0), int(in_round or 0)
    return int(waiting or 0)


def release(payout: Payout, lines: Collection[int] | None = None) -> int:
    """Release the money of the waiting rows, or of those with these lines, which wait no more; return their number.

    Call in a unit of work with the payout locked, and with `long_unit_of_work` where many rows may wait.
    """
    waiting = (PayoutItem.payout_id == payout.id) & PayoutItem.waits
    if lines is not None:
        waiting &= PayoutItem.line.in_(list(lines))
    sums: Any = PayoutItem.select(fn.COUNT(PayoutItem.line), fn.SUM(_COSTS)).where(waiting).tuples()
    ((count, cents),) = sums
    if not count:
        return 0
    PayoutItem.update(waits=False).where(waiting).execute()
    _count_no_more(payout.id, int(cents))
    Payout.update(held_cents=Payout.held_cents - int(cents)).where(Payout.id == payout.id).execute()
    return int(count)


def release_unsent(row: Transaction) -> None:
    """Let a transaction of a payout that is cancelled without having been sent count for no limit of a key.

    Call in a unit of work with the transaction locked, before its reservation ends: other releases lock the hold before
    the account (no deadlock).
    """
    assert row.payout_id is not None
    attempt = PayoutAttempt.get(PayoutAttempt.transaction_id == row.id)
    _count_no_more(row.payout_id, row.amount_cents + row.fee_cents, attempt.round)


def _count_no_more(payout_id: str, cents: int, of_round: int | None = None) -> None:
    """Release a part of the last hold of a payout, or of one of its rounds, which counts for the key until then."""
    holds = PayoutHold.select().where(PayoutHold.payout_id == payout_id)
    if of_round is not None:
        holds = holds.where(PayoutHold.round == of_round)
    hold = holds.order_by(PayoutHold.number.desc()).get()
    of_hold = (PayoutHold.payout_id == hold.payout_id) & (PayoutHold.number == hold.number)
    PayoutHold.update(released_cents=PayoutHold.released_cents + cents).where(of_hold).execute()
    KeySpending.update(spent_cents=KeySpending.spent_cents - cents).where(
        KeySpending.key_id == hold.key_id, KeySpending.day == hold.day
    ).execute()


def waiting_providers(payout_id: str) -> list[str]:
    """The providers of the rows that wait."""
    waiting: Any = PayoutItem.select(PayoutItem.provider).where(PayoutItem.payout_id == payout_id, PayoutItem.waits)
    return [provider for (provider,) in waiting.distinct().tuples()]
