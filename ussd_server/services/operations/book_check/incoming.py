"""The rules of payments that payers made by themselves, as queries for violations.

Each query returns the ids, within (:low, :high], of rows that violate its rule.
"""

from __future__ import annotations

INCOMING_RULES = {
    "is booked without the payment of its receipt, or has one and is not booked": """
        SELECT came.id FROM incoming_payments AS came LEFT JOIN transactions AS booked
            ON booked.id = came.transaction_id AND booked.type = 'collection'
                AND booked.status IN ('succeeded', 'reversed') AND booked.provider = came.provider
                AND booked.provider_transaction_id = came.provider_transaction_id
                AND booked.amount_cents = came.amount_cents
        WHERE came.id > :low AND came.id <= :high AND (came.status = 'booked') <> (booked.id IS NOT NULL)""",
    "was returned without a decision of two operators": """
        SELECT id FROM incoming_payments WHERE id > :low AND id <= :high
            AND status = 'returned' AND (decided_by IS NULL OR reason IS NULL)""",
}

PAID_BY_PAYERS = {
    "came from a payer without a receipt of its own": """
        SELECT id FROM transactions AS paid WHERE id > :low AND id <= :high AND origin = 'payer' AND NOT EXISTS (
            SELECT 1 FROM incoming_payments AS came WHERE came.transaction_id = paid.id AND came.status = 'booked'
                AND came.provider = paid.provider AND came.provider_transaction_id = paid.provider_transaction_id
                AND came.amount_cents = paid.amount_cents)""",
    "came from a payer with the receipt of another collection": """
        SELECT id FROM transactions AS paid WHERE id > :low AND id <= :high AND origin = 'payer' AND EXISTS (
            SELECT 1 FROM transactions AS other WHERE other.provider_transaction_id = paid.provider_transaction_id
                AND other.provider = paid.provider AND other.type = 'collection' AND other.id <> paid.id
                AND other.status IN ('succeeded', 'reversed'))""",
}
