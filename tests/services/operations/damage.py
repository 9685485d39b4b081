"""Damage to the books, and the violations that the check must report."""

from __future__ import annotations

import uuid

from tests.services.operations.damage_to_histories import HISTORIES
from tests.services.operations.damage_to_payouts import PAYOUTS
from tests.services.operations.violations import (
    AHEAD,
    BALANCE,
    BOUND_ELSEWHERE,
    CONTRADICTED,
    ELSEWHERE,
    ENDED,
    ENDED_TWICE,
    EVENTS_MISSING,
    FOREIGN,
    FORGED,
    FORGOTTEN,
    GAP,
    HISTORY,
    NEGATIVE,
    NEVER_SENT,
    NO_COLLECTION,
    NO_DECISION,
    NO_RECEIPT,
    NO_REVIEW,
    NOT_JUDGED,
    OTHER_EVENT,
    OTHER_KIND,
    OTHER_RECEIPT,
    OTHER_TIME,
    OTHER_TOTALS,
    PAID_TWICE,
    REVERSED,
    SAME_CONFIRMATION,
    SAME_KEY,
    SAME_NAME,
    SAME_PROVIDER_REFERENCE,
    SAME_RECEIPT,
    SAME_REFERENCE,
    SPENT,
    STATE,
    STATEMENT,
    SUM,
    TOO_MUCH,
    TWICE,
    UNBOUND,
    UNDECIDED,
    UNENDED,
    UNREPORTED,
)


def again(kind: str, transaction: str) -> str:
    """The statement that writes a transfer of a transaction once more."""
    rest = """client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id,
        created_at"""
    return (
        f"INSERT INTO ledger_transfers (id, {rest}) SELECT '{uuid.uuid4()}', {rest} "
        f"FROM ledger_transfers WHERE kind = '{kind}' AND transaction_id = '{{{transaction}}}'"
    )


# Damage to the books, the violation that the check must report, and its id.
MONEY = [
    ("UPDATE ledger_accounts SET balance_cents = balance_cents + 1 WHERE id = '{main}'",
     {(SUM, "client"),
      (BALANCE, "main"), (STATEMENT, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = reserved_cents - 1 WHERE id = '{main}'",
     {(BALANCE, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = -1 WHERE id = '{foreign}'",
     {(BALANCE, "foreign"),
      (NEGATIVE, "foreign")}),
    ("UPDATE ledger_transfers SET amount_cents = amount_cents + 1 WHERE transaction_id = '{collection_00}'",
     {(BALANCE, "main"), (STATEMENT, "main"),
      (BALANCE, "provider"),
      (STATE, "collection_00")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{foreign}' WHERE transaction_id = '{collection_00}'",
     {(BALANCE, "main"), (STATEMENT, "main"),
      (BALANCE, "foreign"), (STATEMENT, "foreign"),
      (FOREIGN, "collection_00")}),
    ("UPDATE ledger_transfers SET purpose = 'fee' WHERE transaction_id = '{collection_06}'",
     {(STATE, "collection_06"),
      (ELSEWHERE, "collection_06")}),
    ("DELETE FROM ledger_transfers WHERE transaction_id = '{collection_06}'",
     {(BALANCE, "main"), (STATEMENT, "main"),
      (BALANCE, "provider"),
      (STATE, "collection_06")}),
    ("UPDATE ledger_transfers SET debit_account_id = '{deposits}' WHERE kind = 'void' "
     "AND transaction_id = '{disbursement_01}'",
     {(BALANCE, "main"),
      (BALANCE, "deposits"),
      (ELSEWHERE, "disbursement_01"),
      (ENDED, "disbursement_01")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{deposits}' WHERE transaction_id = '{collection_00}'",
     {(BALANCE, "main"), (STATEMENT, "main"),
      (BALANCE, "deposits"),
      (ELSEWHERE, "collection_00")}),
    ("UPDATE transactions SET status = 'failed' WHERE id = '{collection_00}'",
     {(STATE, "collection_00"),
      (HISTORY, "collection_00"),
      (REVERSED, "collection_00"),
      (NO_COLLECTION, "refund")}),
    ("UPDATE transactions SET status = 'ambiguous' WHERE id = '{disbursement_01}'",
     {(STATE, "disbursement_01"),
      (HISTORY, "disbursement_01"),
      (FORGOTTEN, "disbursement_01")}),
    ("UPDATE transactions SET due_at = NULL WHERE id = '{collection_07}'",
     {(FORGOTTEN, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at, review_closed_at = created_at "
     "WHERE id = '{collection_07}'",
     {(FORGOTTEN, "collection_07"), (NO_REVIEW, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at WHERE id = '{collection_07}'",
     {(NO_REVIEW, "collection_07")}),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(HISTORY, "collection_04"),
      (EVENTS_MISSING, "collection_04")}),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}'",
     {(HISTORY, "collection_04"),
      (EVENTS_MISSING, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}' AND sequence = 2",
     {(EVENTS_MISSING, "collection_04"),
      (GAP, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}'",
     {(EVENTS_MISSING, "collection_04")}),
    (again("move", "collection_00"),
     {(BALANCE, "main"), (STATEMENT, "main"),
      (BALANCE, "provider"),
      (TWICE, "collection_00"),
      (STATE, "collection_00")}),
    # What keys paid.
    ("UPDATE key_spending SET spent_cents = spent_cents - 1", {(SPENT, "key")}),
    ("UPDATE key_spending SET day = '2020-01-01'", {(SPENT, "key")}),
    ("DELETE FROM key_spending", {(SPENT, "key")}),
    ("UPDATE transactions SET key_id = NULL WHERE id = '{row}'", {(SPENT, "key")}),
    # Payments that payers made by themselves.
    ("UPDATE incoming_payments SET transaction_id = NULL WHERE id = '{booked}'",
     {(OTHER_RECEIPT, "booked"), (NO_RECEIPT, "arrived")}),
    ("UPDATE incoming_payments SET status = 'held' WHERE id = '{booked}'",
     {(OTHER_RECEIPT, "booked"), (NO_RECEIPT, "arrived")}),
    ("UPDATE incoming_payments SET amount_cents = amount_cents + 1 WHERE id = '{booked}'",
     {(OTHER_RECEIPT, "booked"), (NO_RECEIPT, "arrived")}),
    ("UPDATE incoming_payments SET status = 'booked' WHERE id = '{held}'", {(OTHER_RECEIPT, "held")}),
    ("UPDATE incoming_payments SET decided_by = NULL WHERE id = '{returned}'", {(NO_DECISION, "returned")}),
    ("UPDATE transactions SET provider_transaction_id = 'R1' WHERE id = '{collection_06}'",
     {(PAID_TWICE, "arrived"), (FORGED, "collection_06")}),
    ("UPDATE transactions SET origin = 'client' WHERE id = '{arrived}'", {(FORGED, "arrived")}),
    # Statements.
    ("UPDATE ledger_entries SET balance_cents = balance_cents + 1 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(STATEMENT, "main")}),
    ("DELETE FROM ledger_entries WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(STATEMENT, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(STATEMENT, "main"), (OTHER_TIME, "main")}),
    ("UPDATE ledger_entries SET transfer_id = '{collection_04}' WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(STATEMENT, "main")}),
    ("UPDATE ledger_entries SET account_id = '{foreign}' WHERE account_id = '{main}'",
     {(STATEMENT, "main"), (STATEMENT, "foreign")}),
    # Statuses, histories and events that contradict one another.
    ("UPDATE ussd_sessions SET status = 'active', ended_at = NULL WHERE id = '{session}'",
     {(UNENDED, "session")}),
    ("DELETE FROM events WHERE object_id = '{session}'",
     {(UNENDED, "session")}),
    ("DELETE FROM ussd_sessions WHERE id = '{session}'",
     {(UNENDED, "session")}),
    # Refunds.
    ("UPDATE transactions SET status = 'reversed' WHERE id = '{collection_04}'",
     {(REVERSED, "collection_04"), (HISTORY, "collection_04")}),
    ("UPDATE transactions SET refund_of = '{disbursement_00}' WHERE id = '{refund}'",
     {(FORGED, "refund"), (NO_COLLECTION, "refund"), (REVERSED, "collection_00"), (REVERSED, "disbursement_00")}),
    ("UPDATE transactions SET refund_of = NULL WHERE id = '{refund}'",
     {(FORGED, "refund"), (NO_COLLECTION, "refund"), (REVERSED, "collection_00")}),
    ("UPDATE transactions SET amount_cents = amount_cents - 1 WHERE id = '{collection_00}'",
     {(TOO_MUCH, "collection_00"), (STATE, "collection_00"), (FORGED, "collection_00")}),
    # Leases and due times.
    ("UPDATE transactions SET leased_until = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     {(AHEAD, "collection_07")}),
    ("UPDATE transactions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     {(AHEAD, "collection_07")}),
    ("UPDATE ussd_sessions SET working_until = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'",
     {(AHEAD, "session")}),
    ("UPDATE ussd_sessions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'",
     {(AHEAD, "session")}),
    # Reviews.
    ("UPDATE transactions SET review_closed_at = '2020-01-01T00:00:00.000Z' WHERE id = '{reviewed}'",
     {(UNDECIDED, "reviewed")}),
    ("UPDATE transactions SET review_closed_at = '2020-01-01T00:00:00.000Z', review_note = 'Paid (Ann, Ben)' "
     "WHERE id = '{reviewed}'",
     {(UNDECIDED, "reviewed")}),
    ("UPDATE transactions SET review_opened_at = NULL WHERE id = '{reviewed}'", {(NO_REVIEW, "reviewed")}),
    ("UPDATE transactions SET review_opened_at = created_at WHERE id = '{collection_04}'",
     {(NO_REVIEW, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{reviewed}' AND type = 'transaction.needs_review'",
     {(NO_REVIEW, "reviewed")}),
    ("DELETE FROM audit_events WHERE object_id = '{decided}'", {(UNDECIDED, "decided")}),
    ("UPDATE transactions SET review_note = NULL WHERE id = '{decided}'", {(UNDECIDED, "decided")}),
    # A movement on another day, in the order of the statement.
    ("UPDATE ledger_entries SET posted_us = posted_us - 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(OTHER_TIME, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(OTHER_TIME, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us - 86400000000 WHERE account_id = '{main}'",
     {(OTHER_TIME, "main")}),
    ("UPDATE ledger_transfers SET created_at = '2020-01-01T00:00:00.000Z' WHERE transaction_id = '{collection_00}'",
     {(OTHER_TIME, "main")}),
    ("UPDATE ledger_accounts SET kind = 'shortfall' WHERE id = '{main}'", {(OTHER_KIND, "main")}),
    ("UPDATE transactions SET asked_at = NULL WHERE id = '{collection_07}'", {(NEVER_SENT, "collection_07")}),
    ("DELETE FROM idempotency_keys WHERE client_id = '{client}'", {(UNBOUND, "keyed")}),
    ("UPDATE transactions SET reference = (SELECT reference FROM transactions WHERE id = '{collection_04}') "
     "WHERE id = '{disbursement_04}'",
     {(SAME_REFERENCE, "disbursement_04"), (FORGED, "disbursement_04")}),
    ("UPDATE transactions SET idempotency_key = 'k' WHERE id IN ('{collection_04}', '{disbursement_04}')",
     {(SAME_KEY, "disbursement_04"), (UNBOUND, "collection_04"), (UNBOUND, "disbursement_04")}),
    ("UPDATE idempotency_keys SET transaction_id = '{collection_04}' WHERE client_id = '{client}'",
     {(BOUND_ELSEWHERE, "keyed")}),
    ("UPDATE transactions SET session_id = '{session}', confirmation = 'c' "
     "WHERE id IN ('{collection_04}', '{disbursement_04}')",
     {(SAME_CONFIRMATION, "disbursement_04"), (FORGED, "collection_04"), (FORGED, "disbursement_04")}),
]  # fmt: skip
SABOTAGE = MONEY + HISTORIES + PAYOUTS

# SQLite cannot drop constraints that are part of a table.
ON_POSTGRES = [
    (
        "UPDATE incoming_payments SET provider_transaction_id = 'R2' WHERE id = '{returned}'",
        {(SAME_RECEIPT, "returned")},
    ),
    (
        again("post", "disbursement_00"),
        {
            (BALANCE, "main"),
            (STATEMENT, "main"),
            (BALANCE, "provider"),
            (ENDED_TWICE, "disbursement_00"),
            (TWICE, "disbursement_00"),
            (STATE, "disbursement_00"),
        },
    ),
    (
        "UPDATE transactions SET provider_reference = "
        "(SELECT provider_reference FROM transactions WHERE id = '{collection_04}') WHERE id = '{disbursement_04}'",
        {(SAME_PROVIDER_REFERENCE, "disbursement_04"), (FORGED, "disbursement_04")},
    ),
    (
        "INSERT INTO payouts SELECT (jsonb_populate_record(payouts, jsonb_build_object('id', '{copy}'))).* "
        "FROM payouts WHERE id = '{payout}'",
        {
            (SAME_REFERENCE, "copy"),
            (OTHER_TOTALS, "copy"),
            (UNREPORTED, "copy"),
            (NOT_JUDGED, "copy"),
            (OTHER_EVENT, "copy"),
        },
    ),
    (
        "UPDATE ledger_accounts SET name = 'main' WHERE id = '{deposits}'",
        {(SAME_NAME, "main"), (ELSEWHERE, "deposit"), (OTHER_KIND, "deposits")},
    ),
    (
        "UPDATE events SET sequence = 1 WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
        {(GAP, "collection_01"), (CONTRADICTED, "collection_01"), (FORGED, "collection_01")},
    ),
]
