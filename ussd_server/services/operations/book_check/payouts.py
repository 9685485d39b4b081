"""The rules of payouts, their rows and their transactions, as queries for violations.

Each query returns the ids, within (:low, :high], of rows that violate its rule.
"""

from __future__ import annotations

PAYOUT_RULES = {
    "has other counts or totals than its rows": """
        WITH counted AS (
            SELECT payout_items.payout_id, count(*) AS items, sum(CASE WHEN is_ready THEN 1 ELSE 0 END) AS ready,
                sum(CASE WHEN is_ready THEN payout_items.amount_cents ELSE 0 END) AS amount_cents,
                sum(CASE WHEN is_ready THEN coalesce(transactions.fee_cents, payout_items.fee_cents) ELSE 0 END)
                    AS fee_cents
            FROM payout_items LEFT JOIN transactions ON transactions.id = transaction_id
            WHERE payout_items.payout_id > :low AND payout_items.payout_id <= :high
            GROUP BY payout_items.payout_id)
        SELECT id FROM payouts LEFT JOIN counted ON counted.payout_id = id WHERE id > :low AND id <= :high
            AND (coalesce(items, 0) <> item_count OR coalesce(ready, 0) <> ready_count
                OR item_count - ready_count <> invalid_count OR coalesce(amount_cents, 0) <> total_amount_cents
                OR coalesce(fee_cents, 0) <> total_fee_cents)""",
    "has rows that differ from their transactions": """
        SELECT payouts.id FROM payouts JOIN payout_items AS item ON item.payout_id = payouts.id
            LEFT JOIN transactions AS paid ON paid.id = item.transaction_id AND paid.payout_id = payouts.id
                AND paid.client_id = payouts.client_id AND paid.type = 'disbursement'
                AND paid.phone_number = item.phone_number AND paid.amount_cents = item.amount_cents
                AND paid.provider = item.provider AND paid.reference = payouts.reference || '/' || item.reference
        WHERE payouts.id > :low AND payouts.id <= :high
            AND (paid.id IS NOT NULL) <> (item.is_ready AND payouts.reserved_at IS NOT NULL)
        UNION ALL
        SELECT payouts.id FROM payouts JOIN payout_items AS item ON item.payout_id = payouts.id
        WHERE payouts.id > :low AND payouts.id <= :high
            AND item.transaction_id IS NOT NULL AND (payouts.reserved_at IS NULL OR NOT item.is_ready)""",
    "has a status that contradicts its transactions": """
        WITH paid AS (
            SELECT payout_id,
                sum(CASE WHEN status IN ('succeeded', 'failed', 'reversed') THEN 0 ELSE 1 END) AS unfinished,
                sum(CASE WHEN asked_at IS NULL THEN 0 ELSE 1 END) AS sent, min(asked_at) AS first_sent_at,
                sum(CASE WHEN asked_at IS NULL AND status IN ('created', 'submitted') THEN 1 ELSE 0 END) AS queued
            FROM transactions WHERE payout_id > :low AND payout_id <= :high GROUP BY payout_id)
        SELECT id FROM payouts LEFT JOIN paid ON paid.payout_id = id WHERE id > :low AND id <= :high
            AND ((completed_at IS NOT NULL AND unfinished > 0) OR (status = 'approved' AND sent > 0)
                OR (status = 'cancelled' AND queued > 0) OR first_sent_at < send_at
                OR (approved_at IS NULL) <> (status = 'draft' OR (status = 'cancelled' AND approved_by IS NULL))
                OR (status = 'completed') <> (completed_at IS NOT NULL AND cancelled_at IS NULL))""",
    "was approved by its maker": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high AND approved_by = created_by""",
    "is unfinished without a due time": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high
            AND approved_at IS NOT NULL AND completed_at IS NULL AND due_at IS NULL""",
    "has a lease or a due time far ahead": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high
            AND (leased_until > :latest_lease OR (due_at > :latest_due AND (send_at IS NULL OR due_at <> send_at)))""",
    "was completed without an event of it, or has such an event and was not completed": """
        SELECT id FROM payouts WHERE id > :low AND id <= :high AND (completed_at IS NOT NULL) <> EXISTS (
            SELECT 1 FROM events WHERE object_id = CAST(payouts.id AS text) AND type = 'payout.completed')""",
}

IN_NO_PAYOUT = "names a payout that does not have it as a row"
TRANSACTION_RULE = """
    SELECT paid.id FROM transactions AS paid
        LEFT JOIN payout_items AS item ON item.transaction_id = paid.id AND item.payout_id = paid.payout_id
    WHERE paid.id > :low AND paid.id <= :high AND paid.payout_id IS NOT NULL AND item.payout_id IS NULL"""
