"""Damage to the histories and events of payments, and the violations that the check must report."""

from __future__ import annotations

from tests.services.operations.violations import (
    CONTRADICTED,
    EVENTS_MISSING,
    FOREIGN,
    FORGED,
    HISTORY,
    MISSING,
)

HISTORIES = [
    ("UPDATE transaction_events SET status = 'ambiguous' WHERE transaction_id = '{collection_04}' AND sequence = 3",
     {(CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET status = 'reversed' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(HISTORY, "collection_04"), (CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET status = 'pending' WHERE transaction_id = '{collection_04}' AND sequence = 1",
     {(HISTORY, "collection_04"), (CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET created_at = '2020-01-01T00:00:00.000Z' "
     "WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET client_id = '{other}' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(CONTRADICTED, "collection_04")}),
    ("UPDATE events SET client_id = '{other}' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(CONTRADICTED, "collection_04")}),
    ("UPDATE events SET type = 'transaction.succeeded' "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(CONTRADICTED, "collection_01"), (FORGED, "collection_01")}),
    ("UPDATE events SET type = 'transaction.paid' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(CONTRADICTED, "collection_04"), (FORGED, "collection_04")}),
    ("UPDATE events SET type = 'webhook.test' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(EVENTS_MISSING, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"amount\":1000', '\"amount\":2000') "
     "WHERE object_id = '{collection_04}' AND sequence = 1",
     {(FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"amount\":2000,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, 'submitted', 'pending') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"completed_at\":\"2', '\"completed_at\":\"1') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(FORGED, "collection_01")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"late\":true,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"code\":\"', '\"code\":[],\"was\":\"') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(FORGED, "collection_01")}),
    ("UPDATE events SET payload = 'nonsense' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(FORGED, "collection_04")}),
    ("UPDATE events SET payload = '[]' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(FORGED, "collection_04")}),
    ("UPDATE transactions SET description = 'gift' WHERE id = '{collection_04}'",
     {(FORGED, "collection_04")}),
    ("UPDATE transactions SET metadata = 'nonsense' WHERE id = '{collection_04}'",
     {(FORGED, "collection_04")}),
    ("UPDATE transactions SET failure_code = 'NOTHING' WHERE id = '{collection_01}'",
     {(FORGED, "collection_01")}),
    ("UPDATE transactions SET completed_at = created_at WHERE id = '{collection_01}'",
     {(FORGED, "collection_01")}),
    ("UPDATE transactions SET provider_transaction_id = 'mine' WHERE id = '{disbursement_00}'",
     {(FORGED, "disbursement_00")}),
    ("UPDATE transactions SET phone_number = '+256770000099' WHERE id = '{collection_04}'",
     {(FORGED, "collection_04")}),
    ("DELETE FROM transactions WHERE id = '{collection_04}'",
     {(MISSING, "collection_04"), (FOREIGN, "collection_04")}),
    # The collection that a refund gives back, and a payout, as events show them.
    ("UPDATE events SET payload = replace(payload, '{collection_00}', '{collection_04}') "
     "WHERE object_id = '{refund}' AND sequence = 1",
     {(FORGED, "refund")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"payout_id\":\"{draft}\",') "
     "WHERE object_id = '{collection_04}' AND sequence = 1",
     {(FORGED, "collection_04")}),
    # What was refunded, as events show it.
    ("UPDATE events SET payload = replace(payload, '\"refunded_amount\":1000', '\"refunded_amount\":10') "
     "WHERE object_id = '{collection_00}' AND type = 'transaction.reversed'",
     {(FORGED, "collection_00")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"refunded_amount\":1000,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(FORGED, "collection_04")}),
]  # fmt: skip
