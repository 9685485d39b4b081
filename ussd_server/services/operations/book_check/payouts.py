"""The rules of payouts: queries for violations, and a comparison of each payout with its digests and its events.

Each query returns the ids, within (:low, :high], of rows that violate its rule. Rows may have been edited by hand, so a
value may have a wrong type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import orjson

from ussd_server.database.unit_of_work import run_query
from ussd_server.security.key_ring import Vault
from ussd_server.services.operations.book_check.history import as_text
from ussd_server.services.payouts.approval.digests import (
    OF_GIVEN,
    OF_RULES,
    PayoutDigests,
    digest_of_items,
    validated_rows,
)
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.values import shillings

PAYOUT_RULES = {
    "has other counts or totals than its rows": """
        WITH counted AS (
            SELECT payout_id, count(*) AS items, sum(CASE WHEN is_ready THEN 1 ELSE 0 END) AS ready,
                sum(CASE WHEN is_ready THEN amount_cents ELSE 0 END) AS amount_cents,
                sum(CASE WHEN is_ready THEN fee_cents ELSE 0 END) AS fee_cents
            FROM payout_items WHERE payout_id > :low AND payout_id <= :high GROUP BY payout_id)
        SELECT id FROM payouts LEFT JOIN counted ON counted.payout_id = id WHERE id > :low AND id <= :high
            AND (coalesce(items, 0) <> item_count OR coalesce(ready, 0) <> ready_count
                OR item_count - ready_count <> invalid_count OR coalesce(amount_cents, 0) <> total_amount_cents
                OR coalesce(fee_cents, 0) <> total_fee_cents)""",
    "has a round that differs from its rows": """
        WITH counted AS (
            SELECT payout_id, item.round AS round, count(*) AS items, sum(item.amount_cents) AS amount_cents,
                sum(item.fee_cents) AS fee_cents
            FROM payout_items AS item WHERE payout_id > :low AND payout_id <= :high AND is_ready
            GROUP BY payout_id, item.round)
        SELECT id FROM payouts LEFT JOIN counted ON counted.payout_id = id AND counted.round = payouts.round
        WHERE id > :low AND id <= :high
            AND (coalesce(items, 0) <> round_count OR coalesce(amount_cents, 0) <> round_amount_cents
                OR coalesce(fee_cents, 0) <> round_fee_cents)""",
    "has rows that differ from their transactions": """
        SELECT payout.id FROM payouts AS payout JOIN payout_attempts AS made ON made.payout_id = payout.id
            LEFT JOIN payout_items AS item ON item.payout_id = made.payout_id AND item.line = made.line
                AND item.is_ready AND made.number <= item.attempt AND made.round <= item.round
            LEFT JOIN transactions AS paid ON paid.id = made.transaction_id AND paid.payout_id = payout.id
                AND paid.client_id = payout.client_id AND paid.type = 'disbursement'
                AND paid.phone_number = item.phone_number AND paid.amount_cents = item.amount_cents
                AND paid.provider = item.provider AND paid.reference = payout.reference || '/' || item.reference
                    || CASE WHEN made.number > 1 THEN '/' || made.number ELSE '' END
                AND (paid.id = item.transaction_id OR paid.status NOT IN ('succeeded', 'reversed'))
                AND (made.round < payout.round OR coalesce(CAST(paid.key_id AS text), '')
                    = coalesce(CAST(payout.counted_key_id AS text), ''))
        WHERE payout.id > :low AND payout.id <= :high AND paid.id IS NULL
        UNION ALL
        SELECT item.payout_id FROM payout_items AS item
            LEFT JOIN payout_attempts AS made ON made.transaction_id = item.transaction_id
                AND made.payout_id = item.payout_id AND made.line = item.line
        WHERE item.payout_id > :low AND item.payout_id <= :high
            AND (item.transaction_id IS NULL) <> (made.number IS NULL)""",
    "holds other money than its waiting rows need": """
        WITH waiting AS (
            SELECT payout_id, sum(amount_cents + fee_cents) AS cents FROM payout_items
            WHERE payout_id > :low AND payout_id <= :high AND waits GROUP BY payout_id
        ), made AS (
            SELECT attempt.payout_id, attempt.round AS round, sum(amount_cents + fee_cents) AS cents
            FROM payout_attempts AS attempt JOIN transactions ON transactions.id = attempt.transaction_id
                AND NOT (ask_attempts = 0 AND (status = 'failed' OR late))
            WHERE attempt.payout_id > :low AND attempt.payout_id <= :high GROUP BY attempt.payout_id, attempt.round
        ), held AS (
            SELECT payout_id, hold.round AS round, sum(reserved_cents - released_cents) AS cents
            FROM payout_holds AS hold WHERE payout_id > :low AND payout_id <= :high GROUP BY payout_id, hold.round
        )
        SELECT id FROM payouts LEFT JOIN waiting ON waiting.payout_id = id
            LEFT JOIN made ON made.payout_id = id AND made.round = payouts.round
            LEFT JOIN held ON held.payout_id = id AND held.round = payouts.round
        WHERE id > :low AND id <= :high
            AND (held_cents <> coalesce(waiting.cents, 0)
                OR coalesce(held.cents, 0) <> held_cents + coalesce(made.cents, 0))
        UNION ALL
        SELECT made.payout_id FROM made
            LEFT JOIN held ON held.payout_id = made.payout_id AND held.round = made.round
            JOIN payouts ON payouts.id = made.payout_id AND payouts.round > made.round
        WHERE coalesce(held.cents, 0) <> made.cents""",
    "has a status that contradicts its transactions": """
        WITH paid AS (
            SELECT attempt.payout_id,
                sum(CASE WHEN transactions.status IN ('succeeded', 'failed', 'reversed') THEN 0 ELSE 1 END)
                    AS unfinished,
                sum(CASE WHEN asked_at IS NULL THEN 0 ELSE 1 END) AS sent, min(asked_at) AS first_sent_at
            FROM payout_attempts AS attempt JOIN transactions ON transactions.id = attempt.transaction_id
                JOIN payouts ON payouts.id = attempt.payout_id AND payouts.round = attempt.round
            WHERE attempt.payout_id > :low AND attempt.payout_id <= :high GROUP BY attempt.payout_id)
        SELECT id FROM payouts LEFT JOIN paid ON paid.payout_id = id WHERE id > :low AND id <= :high
            AND ((completed_at IS NOT NULL AND unfinished > 0) OR (status IN ('draft', 'approved') AND sent > 0)
                OR (status NOT IN ('approved', 'running') AND held_cents > 0) OR first_sent_at < send_at
                OR (reserved_at IS NULL AND sent > 0)
                OR (approved_at IS NULL AND status NOT IN ('draft', 'cancelled') AND payouts.round = 1)
                OR (approved_at IS NOT NULL AND status = 'draft')
                OR (status = 'completed') <> (completed_at IS NOT NULL AND cancelled_at IS NULL))""",
    "was approved by its maker": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high AND approved_by IN (created_by, round_by)""",
    "is unfinished without a due time": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high
            AND approved_at IS NOT NULL AND completed_at IS NULL AND due_at IS NULL""",
    "has a lease or a due time far ahead": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high
            AND (leased_until > :latest_lease OR (due_at > :latest_due AND (send_at IS NULL OR due_at <> send_at)))""",
    "was completed without an event of it, or has such an event and was not completed": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high
            AND CASE WHEN payouts.round = 1 THEN completed_at IS NOT NULL ELSE true END <> EXISTS (
            SELECT 1 FROM events WHERE object_id = CAST(payouts.id AS text) AND type = 'payout.completed')""",
}

OTHER_THAN_SET = "are not what was set and confirmed"
OTHER_THAN_VALIDATED = "is not what was judged and approved"
UNREPORTED = "was created without an event of it, or has an event that shows something else"

APPROVAL_RULES = (OTHER_THAN_VALIDATED, UNREPORTED)

_WITHDRAWN, _NEEDS_APPROVAL = "payout.approval_withdrawn", "payout.needs_approval"
_SHOWN = ("reference", "description", "item_count", "ready_count", "invalid_count", "created_by", "created_at")
_SHOWN_WHEN_DUE = ("approved_by", "approved_at", "needs_money_at")
_SHOWN_AT_THE_END = ("approved_by", "approved_at", "completed_at", "status")
_COLUMNS = (
    "id", "client_id", *_SHOWN, "send_at", *_SHOWN_AT_THE_END, "total_amount_cents", "total_fee_cents",
    "request_digest", "people", "items_digest", "draft_digest", "approval_digest", "key_id", "needs_money_at",
    "withdrawn_at", "revoked_at", "round", "round_by", "round_people", "round_count", "round_amount_cents",
)  # fmt: skip
_PAYOUTS = "SELECT {} FROM payouts WHERE id > :low AND id <= :high ORDER BY id"
_OF_APPROVAL = (*OF_GIVEN, "digest")
_APPROVALS = "SELECT {} FROM payout_approvals WHERE payout_id > :low AND payout_id <= :high ORDER BY id"
_OF_RULES = ("client_id", "rules", "proposed", "proposed_by", "digest")
_RULES = "SELECT {} FROM approval_rules WHERE client_id > :low AND client_id <= :high"
_OF_EVENT = ("object_id", "type", "client_id", "created_at", "payload")
_EVENTS = """SELECT {} FROM events
    WHERE object_id > :low AND object_id <= :high
        AND type IN (
            'payout.needs_approval', 'payout.needs_money', 'payout.approval_withdrawn', 'payout.completed')
    ORDER BY object_id, sequence"""


def approval_faults(low: str, high: str, vault: Vault | None) -> Iterator[tuple[str, str]]:
    """Yield the id and the broken rule of every payout within (low, high] that its digests or events contradict.

    Without `vault`, which has the master keys, the rows alone are compared. The range is in memory, and the rows of one
    payout.
    """
    digests = PayoutDigests(vault) if vault else None
    forged = set(_forged_approvals(low, high, digests)) if digests else set()
    events = defaultdict(list)
    for payout_id, *event in run_query(_EVENTS.format(as_text(_OF_EVENT)), low=low, high=high):
        events[payout_id].append(tuple(event))
    for row in list(run_query(_PAYOUTS.format(as_text(_COLUMNS)), low=low, high=high)):
        payout = SimpleNamespace(**dict(zip(_COLUMNS, row, strict=True)))
        if payout.id in forged or not _is_as_validated(payout, digests):
            yield payout.id, OTHER_THAN_VALIDATED
        if not _is_reported(payout, events.pop(payout.id, [])):
            yield payout.id, UNREPORTED
    for payout_id in sorted(events):
        yield payout_id, UNREPORTED


def rules_faults(low: str, high: str, vault: Vault | None) -> Iterator[tuple[str, str]]:
    """Yield the id of every client within (low, high] whose approval rules were edited, and the broken rule."""
    if vault is None:
        return
    digests = PayoutDigests(vault)
    for row in list(run_query(_RULES.format(as_text(_OF_RULES)), low=low, high=high)):
        client_id, *columns = row
        rules = SimpleNamespace(id=client_id, **dict(zip(_OF_RULES[1:], columns, strict=True)))
        if not digests.is_as_made(OF_RULES, rules):
            yield client_id, OTHER_THAN_SET


def _forged_approvals(low: str, high: str, digests: PayoutDigests) -> Iterator[str]:
    for row in list(run_query(_APPROVALS.format(as_text(_OF_APPROVAL)), low=low, high=high)):
        approval = SimpleNamespace(**dict(zip(_OF_APPROVAL, row, strict=True)))
        if not digests.is_as_made(OF_GIVEN, approval):
            yield approval.payout_id


def _is_as_validated(payout: Any, digests: PayoutDigests | None) -> bool:
    is_cancelled = payout.status == PayoutStatus.CANCELLED
    if (
        (payout.draft_digest is None and not is_cancelled)
        or (payout.approval_digest is None and payout.approved_at is not None)
        or digest_of_items(validated_rows(payout.id)) != payout.items_digest
    ):
        return False
    return digests is None or digests.is_true(payout)


def _is_reported(payout: Any, events: list[tuple[str, ...]]) -> bool:
    asked = [place for place, (event_type, *_) in enumerate(events) if event_type == _NEEDS_APPROVAL]
    if len(asked) != (int(payout.round) if payout.ready_count else 0) or (events and asked[:1] != [0]):
        return False
    draft = _record(payout, _SHOWN) | {"payout_id": payout.id, "total_amount": shillings(payout.total_amount_cents)}
    begin = asked[-1] if asked else 0
    earlier, of_round = events[:begin], events[begin:]
    return _are_shown(payout, of_round, draft) and all(
        _shows(payout, each, created_at=each[2], record=draft) for each in earlier
    )


def _are_shown(payout: Any, events: list[tuple[str, ...]], draft: dict[str, Any]) -> bool:
    """Whether the events of the last round show what the payout has."""
    types = [event_type for event_type, *_ in events]
    # Events before the last withdrawal show an approval that is gone.
    gone = len(types) - types[::-1].index(_WITHDRAWN) if _WITHDRAWN in types else 0
    if types[gone:].count("payout.needs_money") != (payout.needs_money_at is not None):
        return False
    if payout.withdrawn_at != (events[gone - 1][2] if gone else None):
        return False
    of_round = draft | {"send_at": payout.send_at}
    at_the_end = of_round | _record(payout, _SHOWN_AT_THE_END) | {"total_fee": shillings(payout.total_fee_cents)}
    approved = of_round | _record(payout, _SHOWN_WHEN_DUE)
    is_first = int(payout.round) == 1
    expected: dict[str, tuple[str, dict[str, Any]]] = {
        _NEEDS_APPROVAL: (payout.created_at, of_round | {"status": PayoutStatus.DRAFT}),
        "payout.needs_money": (payout.needs_money_at, approved | {"status": PayoutStatus.APPROVED}),
        "payout.completed": (payout.completed_at, at_the_end),
    }
    for index, event in enumerate(events):
        event_type, _, created_at, _ = event
        expected_at, record = expected.get(event_type, (created_at, of_round | {"status": PayoutStatus.DRAFT}))
        if index < gone and event_type == "payout.needs_money":
            expected_at, record = created_at, of_round
        if event_type == _NEEDS_APPROVAL and not is_first:
            expected_at = created_at
        if not _shows(payout, event, expected_at, record):
            return False
    return True


def _shows(payout: Any, event: tuple[str, ...], created_at: str, record: dict[str, Any]) -> bool:
    """Whether an event is of the payout's client and this moment, and shows all of a record."""
    _, client_id, at, payload = event
    try:
        content = orjson.loads(payload)
    except ValueError:
        return False
    return (
        (client_id, at) == (payout.client_id, created_at)
        and isinstance(content, dict)
        and (content.items() >= record.items())
    )


def _record(payout: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(payout, name) for name in names}
