"""The rules of approvals: each payout is compared with its digests and its events.

Rows may have been edited by hand, so a value may have a wrong type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import orjson

from ussd_server.services.operations.book_check.history import as_text
from ussd_server.services.payouts.digests import PayoutDigests, digest_of_items, judged_rows
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.values import shillings

OTHER_THAN_JUDGED = "is not what was judged and approved"
UNREPORTED = "was created without an event of it, or has an event that shows something else"

APPROVAL_RULES = (OTHER_THAN_JUDGED, UNREPORTED)

_SHOWN = (
    "reference", "description", "item_count", "ready_count", "invalid_count", "created_by", "created_at", "send_at",
)  # fmt: skip
_SHOWN_WHEN_DUE = ("approved_by", "approved_at", "needs_money_at")
_SHOWN_AT_THE_END = ("approved_by", "approved_at", "completed_at", "status")
_COLUMNS = (
    "id", "client_id", *_SHOWN, *_SHOWN_AT_THE_END, "total_amount_cents", "total_fee_cents", "request_digest", "people",
    "items_digest", "draft_digest", "approval_digest", "key_id", "needs_money_at",
)  # fmt: skip
_PAYOUTS = "SELECT {} FROM payouts WHERE id > :low AND id <= :high ORDER BY id"
_OF_EVENT = ("object_id", "type", "client_id", "created_at", "payload")
_EVENTS = """SELECT {} FROM events
    WHERE object_id > :low AND object_id <= :high
        AND type IN ('payout.needs_approval', 'payout.needs_money', 'payout.completed')
    ORDER BY object_id, sequence"""


def approval_faults(
    low: str, high: str, digests: PayoutDigests | None, run: Callable[..., list[tuple[Any, ...]]]
) -> Iterator[tuple[str, str]]:
    """Yield the id and the broken rule of every payout within (low, high] that its digests or events contradict.

    Without `digests`, which need the master keys, the rows alone are compared. The range is in memory, and the rows of
    one payout.
    """
    events = defaultdict(list)
    for payout_id, *event in run(_EVENTS.format(as_text(_OF_EVENT)), low=low, high=high):
        events[payout_id].append(tuple(event))
    for row in run(_PAYOUTS.format(as_text(_COLUMNS)), low=low, high=high):
        payout = SimpleNamespace(**dict(zip(_COLUMNS, row, strict=True)))
        if not _is_as_judged(payout, digests):
            yield payout.id, OTHER_THAN_JUDGED
        if not _is_reported(payout, events.pop(payout.id, [])):
            yield payout.id, UNREPORTED
    for payout_id in sorted(events):
        yield payout_id, UNREPORTED


def _is_as_judged(payout: Any, digests: PayoutDigests | None) -> bool:
    is_cancelled = payout.status == PayoutStatus.CANCELLED
    if (
        (payout.draft_digest is None and not is_cancelled)
        or (payout.approval_digest is None and payout.approved_at is not None)
        or digest_of_items(judged_rows(payout.id)) != payout.items_digest
    ):
        return False
    return digests is None or digests.is_true(payout)


def _is_reported(payout: Any, events: list[tuple[str, ...]]) -> bool:
    types = [event_type for event_type, *_ in events]
    if types.count("payout.needs_approval") != bool(payout.ready_count):
        return False
    if types.count("payout.needs_money") != (payout.needs_money_at is not None):
        return False
    draft = _record(payout, _SHOWN) | {"payout_id": payout.id, "total_amount": shillings(payout.total_amount_cents)}
    at_the_end = draft | _record(payout, _SHOWN_AT_THE_END) | {"total_fee": shillings(payout.total_fee_cents)}
    approved = draft | _record(payout, _SHOWN_WHEN_DUE)
    expected: dict[str, tuple[str, dict[str, Any]]] = {
        "payout.needs_approval": (payout.created_at, draft | {"status": PayoutStatus.DRAFT}),
        "payout.needs_money": (payout.needs_money_at, approved | {"status": PayoutStatus.APPROVED}),
        "payout.completed": (payout.completed_at, at_the_end),
    }
    for event_type, client_id, created_at, payload in events:
        expected_at, record = expected[event_type]
        try:
            shown = orjson.loads(payload)
        except ValueError:
            return False
        if (client_id, created_at) != (payout.client_id, expected_at):
            return False
        if not isinstance(shown, dict) or not shown.items() >= record.items():
            return False
    return True


def _record(payout: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(payout, name) for name in names}
