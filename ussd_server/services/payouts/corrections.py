"""The rows of a draft with what was typed anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.services.payouts.files import corrected_row
from ussd_server.services.payouts.messages import FIELDS, MOST_CORRECTED, InvalidRow
from ussd_server.services.payouts.rows import REFERENCE_PROBLEMS, PayoutRow
from ussd_server.values import shillings


def corrected_rows(payout: Payout, corrections: Mapping[int, Mapping[str, str]]) -> list[PayoutRow]:
    """The rows of a payout to be judged again, with those of `corrections` read anew; none when no field changed."""
    rows, is_changed = [], False
    for item in PayoutItem.select().where(PayoutItem.payout_id == payout.id).order_by(PayoutItem.line):
        typed = corrections.get(item.line)
        if typed is not None and not item.is_ready and typed != _fields(item):
            rows.append(corrected_row(item.line, typed))
            is_changed = True
            continue
        row = PayoutRow(item.line, item.phone_number, item.amount_cents, item.amount_text, item.reference)
        row.description, row.name = item.description, item.name
        row.problems = [each for each in item.problems or () if not each.startswith(REFERENCE_PROBLEMS)]
        rows.append(row)
    return rows if is_changed else []


def invalid_rows(payout: Payout) -> tuple[InvalidRow, ...]:
    """The first rows with problems, at most 50."""
    items = PayoutItem.select().where(PayoutItem.payout_id == payout.id, ~PayoutItem.is_ready)
    return tuple(
        InvalidRow(item.line, tuple(item.problems or ()), _fields(item))
        for item in items.order_by(PayoutItem.line).limit(MOST_CORRECTED)
    )


def given_row(item: PayoutItem) -> dict[str, str]:
    """A stored row as a client would send it again."""
    return {name: text for name, text in _fields(item).items() if text}


def _fields(item: Any) -> dict[str, str]:
    amount = item.amount_text if item.amount_cents is None else str(shillings(item.amount_cents))
    kept = {name: amount if name == "amount" else getattr(item, name) for name in FIELDS}
    return {name: (value or "").strip() for name, value in kept.items()}
