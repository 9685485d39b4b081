"""Damage to the books, and the violations that the check must report."""

from __future__ import annotations

import uuid

from ussd_server.services.operations.book_check import approvals as check_approvals
from ussd_server.services.operations.book_check import history as check_history
from ussd_server.services.operations.book_check import reviews as check_reviews

_SUM = "has accounts that do not add up to zero"
_BALANCE = "has a balance or reservation that differs from its transfers"
_STATEMENT = "has a statement that does not follow its transfers"
_NEGATIVE = "has less than nothing"
_STATE = "has a status that contradicts its transfers"
_FOREIGN = "moved money of another client"
_ENDED = "has a hold that was ended by something else than it reserved"
_FORGOTTEN = "is unfinished without a due time or an open review"
_GAP = "has a gap in its events"
_ELSEWHERE = "moved money between other accounts than it names"
_TWICE = "moved the same money twice"
_ENDED_TWICE = "has a hold that was ended twice"
_HISTORY = check_history.BROKEN_HISTORY
_EVENTS_MISSING = check_history.EVENTS_MISSING
_MISSING = check_history.MISSING
_CONTRADICTED = check_history.CONTRADICTED
_FORGED = check_history.FORGED
_NO_COLLECTION = "is a refund of something else than a collection of its client that succeeded"
_TOO_MUCH = "has refunds that exceed it"
_REVERSED = "is reversed without refunds of all of it, or has them and is not reversed"
_AHEAD = "has a lease or a due time far ahead"
_UNENDED = "is a session that ended without an event of it, or has such an event and did not end"
_SAME_REFERENCE = "has the reference of another one"
_BOUND_ELSEWHERE = "has an idempotency key that is bound to another one"
_SAME_KEY = "has the idempotency key of another one"
_SAME_CONFIRMATION = "has the confirmation of another one"
_SAME_PROVIDER_REFERENCE = "has the provider reference of another one"
_OTHER_TOTALS = "has other counts or totals than its rows"
_OTHER_ROWS = "has rows that differ from their transactions"
_PAYOUT_STATE = "has a status that contradicts its transactions"
_OWN_APPROVAL = "was approved by its maker"
_NEVER_DUE = "is unfinished without a due time"
_UNREPORTED = "was completed without an event of it, or has such an event and was not completed"
_IN_NO_PAYOUT = "names a payout that does not have it as a row"
_SAME_NAME = "has the name of another one"
_NOT_JUDGED = check_approvals.OTHER_THAN_JUDGED
_OTHER_EVENT = check_approvals.UNREPORTED
_UNDECIDED = check_reviews.UNDECIDED
_NO_REVIEW = check_history.UNREPORTED_REVIEW
_OTHER_TIME = "has a movement in its statement at another time than it was made"
_OTHER_KIND = "has a kind that is not that of its name"
_NEVER_SENT = "was answered by its provider and never sent"
_SPENT = "has spent another sum on a day than its payments"
_OTHER_RECEIPT = "is booked without the payment of its receipt, or has one and is not booked"
_NO_RECEIPT = "came from a payer without a receipt of its own"
_PAID_TWICE = "came from a payer with the receipt of another collection"
_NO_DECISION = "was returned without a decision of two operators"
_SAME_RECEIPT = "has the receipt of another one"
_UNBOUND = "has an idempotency key that is bound to none"


def again(kind: str, transaction: str) -> str:
    """The statement that writes a transfer of a transaction once more."""
    rest = """client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id,
        created_at"""
    return (
        f"INSERT INTO ledger_transfers (id, {rest}) SELECT '{uuid.uuid4()}', {rest} "
        f"FROM ledger_transfers WHERE kind = '{kind}' AND transaction_id = '{{{transaction}}}'"
    )


# Damage to the books, the violation that the check must report, and its id.
SABOTAGE = [
    ("UPDATE ledger_accounts SET balance_cents = balance_cents + 1 WHERE id = '{main}'",
     {(_SUM, "client"),
      (_BALANCE, "main"), (_STATEMENT, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = reserved_cents - 1 WHERE id = '{main}'",
     {(_BALANCE, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = -1 WHERE id = '{foreign}'",
     {(_BALANCE, "foreign"),
      (_NEGATIVE, "foreign")}),
    ("UPDATE ledger_transfers SET amount_cents = amount_cents + 1 WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "provider"),
      (_STATE, "collection_00")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{foreign}' WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "foreign"), (_STATEMENT, "foreign"),
      (_FOREIGN, "collection_00")}),
    ("UPDATE ledger_transfers SET purpose = 'fee' WHERE transaction_id = '{collection_06}'",
     {(_STATE, "collection_06"),
      (_ELSEWHERE, "collection_06")}),
    ("DELETE FROM ledger_transfers WHERE transaction_id = '{collection_06}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "provider"),
      (_STATE, "collection_06")}),
    ("UPDATE ledger_transfers SET debit_account_id = '{deposits}' WHERE kind = 'void' "
     "AND transaction_id = '{disbursement_01}'",
     {(_BALANCE, "main"),
      (_BALANCE, "deposits"),
      (_ELSEWHERE, "disbursement_01"),
      (_ENDED, "disbursement_01")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{deposits}' WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "deposits"),
      (_ELSEWHERE, "collection_00")}),
    ("UPDATE transactions SET status = 'failed' WHERE id = '{collection_00}'",
     {(_STATE, "collection_00"),
      (_HISTORY, "collection_00"),
      (_REVERSED, "collection_00"),
      (_NO_COLLECTION, "refund")}),
    ("UPDATE transactions SET status = 'ambiguous' WHERE id = '{disbursement_01}'",
     {(_STATE, "disbursement_01"),
      (_HISTORY, "disbursement_01"),
      (_FORGOTTEN, "disbursement_01")}),
    ("UPDATE transactions SET due_at = NULL WHERE id = '{collection_07}'",
     {(_FORGOTTEN, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at, review_closed_at = created_at "
     "WHERE id = '{collection_07}'",
     {(_FORGOTTEN, "collection_07"), (_NO_REVIEW, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at WHERE id = '{collection_07}'",
     {(_NO_REVIEW, "collection_07")}),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_HISTORY, "collection_04"),
      (_EVENTS_MISSING, "collection_04")}),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}'",
     {(_HISTORY, "collection_04"),
      (_EVENTS_MISSING, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_EVENTS_MISSING, "collection_04"),
      (_GAP, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}'",
     {(_EVENTS_MISSING, "collection_04")}),
    (again("move", "collection_00"),
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "provider"),
      (_TWICE, "collection_00"),
      (_STATE, "collection_00")}),
    # What keys paid.
    ("UPDATE key_spending SET spent_cents = spent_cents - 1", {(_SPENT, "key")}),
    ("UPDATE key_spending SET day = '2020-01-01'", {(_SPENT, "key")}),
    ("DELETE FROM key_spending", {(_SPENT, "key")}),
    ("UPDATE transactions SET key_id = NULL WHERE id = '{row}'", {(_SPENT, "key")}),
    # Payments that payers made by themselves.
    ("UPDATE incoming_payments SET transaction_id = NULL WHERE id = '{booked}'",
     {(_OTHER_RECEIPT, "booked"), (_NO_RECEIPT, "arrived")}),
    ("UPDATE incoming_payments SET status = 'held' WHERE id = '{booked}'",
     {(_OTHER_RECEIPT, "booked"), (_NO_RECEIPT, "arrived")}),
    ("UPDATE incoming_payments SET amount_cents = amount_cents + 1 WHERE id = '{booked}'",
     {(_OTHER_RECEIPT, "booked"), (_NO_RECEIPT, "arrived")}),
    ("UPDATE incoming_payments SET status = 'booked' WHERE id = '{held}'", {(_OTHER_RECEIPT, "held")}),
    ("UPDATE incoming_payments SET decided_by = NULL WHERE id = '{returned}'", {(_NO_DECISION, "returned")}),
    ("UPDATE transactions SET provider_transaction_id = 'R1' WHERE id = '{collection_06}'",
     {(_PAID_TWICE, "arrived"), (_FORGED, "collection_06")}),
    ("UPDATE transactions SET origin = 'client' WHERE id = '{arrived}'", {(_FORGED, "arrived")}),
    # Statements.
    ("UPDATE ledger_entries SET balance_cents = balance_cents + 1 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("DELETE FROM ledger_entries WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main"), (_OTHER_TIME, "main")}),
    ("UPDATE ledger_entries SET transfer_id = '{collection_04}' WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("UPDATE ledger_entries SET account_id = '{foreign}' WHERE account_id = '{main}'",
     {(_STATEMENT, "main"), (_STATEMENT, "foreign")}),
    # Statuses, histories and events that contradict one another.
    ("UPDATE transaction_events SET status = 'ambiguous' WHERE transaction_id = '{collection_04}' AND sequence = 3",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET status = 'reversed' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_HISTORY, "collection_04"), (_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET status = 'pending' WHERE transaction_id = '{collection_04}' AND sequence = 1",
     {(_HISTORY, "collection_04"), (_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET created_at = '2020-01-01T00:00:00.000Z' "
     "WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET client_id = '{other}' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE events SET client_id = '{other}' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE events SET type = 'transaction.succeeded' "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(_CONTRADICTED, "collection_01"), (_FORGED, "collection_01")}),
    ("UPDATE events SET type = 'transaction.paid' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04"), (_FORGED, "collection_04")}),
    ("UPDATE events SET type = 'webhook.test' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_EVENTS_MISSING, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"amount\":1000', '\"amount\":2000') "
     "WHERE object_id = '{collection_04}' AND sequence = 1",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"amount\":2000,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, 'submitted', 'pending') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"completed_at\":\"2', '\"completed_at\":\"1') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(_FORGED, "collection_01")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"late\":true,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"code\":\"', '\"code\":[],\"was\":\"') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(_FORGED, "collection_01")}),
    ("UPDATE events SET payload = 'nonsense' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = '[]' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE transactions SET description = 'gift' WHERE id = '{collection_04}'",
     {(_FORGED, "collection_04")}),
    ("UPDATE transactions SET metadata = 'nonsense' WHERE id = '{collection_04}'",
     {(_FORGED, "collection_04")}),
    ("UPDATE transactions SET failure_code = 'NOTHING' WHERE id = '{collection_01}'",
     {(_FORGED, "collection_01")}),
    ("UPDATE transactions SET completed_at = created_at WHERE id = '{collection_01}'",
     {(_FORGED, "collection_01")}),
    ("UPDATE transactions SET provider_transaction_id = 'mine' WHERE id = '{disbursement_00}'",
     {(_FORGED, "disbursement_00")}),
    ("UPDATE transactions SET phone_number = '+256770000099' WHERE id = '{collection_04}'",
     {(_FORGED, "collection_04")}),
    ("DELETE FROM transactions WHERE id = '{collection_04}'",
     {(_MISSING, "collection_04"), (_FOREIGN, "collection_04")}),
    ("UPDATE ussd_sessions SET status = 'active', ended_at = NULL WHERE id = '{session}'",
     {(_UNENDED, "session")}),
    ("DELETE FROM events WHERE object_id = '{session}'",
     {(_UNENDED, "session")}),
    ("DELETE FROM ussd_sessions WHERE id = '{session}'",
     {(_UNENDED, "session")}),
    # Refunds.
    ("UPDATE transactions SET status = 'reversed' WHERE id = '{collection_04}'",
     {(_REVERSED, "collection_04"), (_HISTORY, "collection_04")}),
    ("UPDATE transactions SET refund_of = '{disbursement_00}' WHERE id = '{refund}'",
     {(_FORGED, "refund"), (_NO_COLLECTION, "refund"), (_REVERSED, "collection_00"), (_REVERSED, "disbursement_00")}),
    ("UPDATE transactions SET refund_of = NULL WHERE id = '{refund}'",
     {(_FORGED, "refund"), (_NO_COLLECTION, "refund"), (_REVERSED, "collection_00")}),
    ("UPDATE transactions SET amount_cents = amount_cents - 1 WHERE id = '{collection_00}'",
     {(_TOO_MUCH, "collection_00"), (_STATE, "collection_00"), (_FORGED, "collection_00")}),
    # Leases and due times.
    ("UPDATE transactions SET leased_until = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     {(_AHEAD, "collection_07")}),
    ("UPDATE transactions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     {(_AHEAD, "collection_07")}),
    ("UPDATE ussd_sessions SET working_until = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'",
     {(_AHEAD, "session")}),
    ("UPDATE ussd_sessions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'",
     {(_AHEAD, "session")}),
    # Reviews.
    ("UPDATE transactions SET review_closed_at = '2020-01-01T00:00:00.000Z' WHERE id = '{reviewed}'",
     {(_UNDECIDED, "reviewed")}),
    ("UPDATE transactions SET review_closed_at = '2020-01-01T00:00:00.000Z', review_note = 'Paid (Ann, Ben)' "
     "WHERE id = '{reviewed}'",
     {(_UNDECIDED, "reviewed")}),
    ("UPDATE transactions SET review_opened_at = NULL WHERE id = '{reviewed}'", {(_NO_REVIEW, "reviewed")}),
    ("UPDATE transactions SET review_opened_at = created_at WHERE id = '{collection_04}'",
     {(_NO_REVIEW, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{reviewed}' AND type = 'transaction.needs_review'",
     {(_NO_REVIEW, "reviewed")}),
    ("DELETE FROM audit_events WHERE object_id = '{decided}'", {(_UNDECIDED, "decided")}),
    ("UPDATE transactions SET review_note = NULL WHERE id = '{decided}'", {(_UNDECIDED, "decided")}),
    # The collection that a refund gives back, and a payout, as events show them.
    ("UPDATE events SET payload = replace(payload, '{collection_00}', '{collection_04}') "
     "WHERE object_id = '{refund}' AND sequence = 1",
     {(_FORGED, "refund")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"payout_id\":\"{draft}\",') "
     "WHERE object_id = '{collection_04}' AND sequence = 1",
     {(_FORGED, "collection_04")}),
    # What was refunded, as events show it.
    ("UPDATE events SET payload = replace(payload, '\"refunded_amount\":1000', '\"refunded_amount\":10') "
     "WHERE object_id = '{collection_00}' AND type = 'transaction.reversed'",
     {(_FORGED, "collection_00")}),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"refunded_amount\":1000,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    # A movement on another day, in the order of the statement.
    ("UPDATE ledger_entries SET posted_us = posted_us - 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_OTHER_TIME, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_OTHER_TIME, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us - 86400000000 WHERE account_id = '{main}'",
     {(_OTHER_TIME, "main")}),
    ("UPDATE ledger_transfers SET created_at = '2020-01-01T00:00:00.000Z' WHERE transaction_id = '{collection_00}'",
     {(_OTHER_TIME, "main")}),
    ("UPDATE ledger_accounts SET kind = 'shortfall' WHERE id = '{main}'", {(_OTHER_KIND, "main")}),
    ("UPDATE transactions SET asked_at = NULL WHERE id = '{collection_07}'", {(_NEVER_SENT, "collection_07")}),
    ("DELETE FROM idempotency_keys WHERE client_id = '{client}'", {(_UNBOUND, "keyed")}),
    # Payouts.
    ("UPDATE payouts SET created_by = '{other}' WHERE id = '{payout}'",
     {(_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET approved_by = '{other}' WHERE id = '{payout}'",
     {(_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET approved_at = '2020-01-01T00:00:00.000Z' WHERE id = '{payout}'",
     {(_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET send_at = '2020-01-01T00:00:00.000Z' WHERE id = '{draft}'",
     {(_NOT_JUDGED, "draft"), (_OTHER_EVENT, "draft")}),
    ("UPDATE payouts SET send_at = '2199-01-01T00:00:00.000Z' WHERE id = '{payout}'",
     {(_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout"), (_PAYOUT_STATE, "payout")}),
    ("UPDATE payouts SET reserved_at = NULL, status = 'cancelled', cancelled_at = completed_at, "
     "send_at = created_at WHERE id = '{payout}'",
     {(_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout"), (_OTHER_ROWS, "payout")}),
    ("UPDATE payouts SET needs_money_at = approved_at WHERE id = '{payout}'", {(_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET key_id = NULL WHERE id = '{payout}'", {(_NOT_JUDGED, "payout")}),
    ("DELETE FROM events WHERE object_id = '{payout}' AND type = 'payout.needs_approval'",
     {(_OTHER_EVENT, "payout"), (_GAP, "payout")}),
    ("DELETE FROM events WHERE object_id = '{draft}'", {(_OTHER_EVENT, "draft")}),
    ("UPDATE events SET payload = replace(payload, '\"total_amount\":10', '\"total_amount\":20') "
     "WHERE object_id = '{payout}' AND type = 'payout.needs_approval'",
     {(_OTHER_EVENT, "payout")}),
    ("UPDATE payout_items SET phone_number = '+256770000099' WHERE payout_id = '{draft}' AND line = 1",
     {(_NOT_JUDGED, "draft")}),
    ("UPDATE payout_items SET amount_cents = 9900000 WHERE payout_id = '{draft}' AND line = 1;; "
     "UPDATE payouts SET total_amount_cents = 9900000 WHERE id = '{draft}'",
     {(_NOT_JUDGED, "draft"), (_OTHER_EVENT, "draft")}),
    ("UPDATE payouts SET client_id = '{other}' WHERE id = '{draft}'",
     {(_NOT_JUDGED, "draft"), (_OTHER_EVENT, "draft")}),
    ("UPDATE payouts SET created_at = '1999-01-01T00:00:00.000Z', description = '[' WHERE id = '{draft}'",
     {(_NOT_JUDGED, "draft"), (_OTHER_EVENT, "draft")}),
    ("UPDATE events SET payload = 'nonsense' WHERE object_id = '{draft}'", {(_OTHER_EVENT, "draft")}),
    ("UPDATE events SET created_at = '2020-01-01T00:00:00.000Z' WHERE object_id = '{draft}'",
     {(_OTHER_EVENT, "draft")}),
    ("UPDATE payouts SET request_digest = 'x' WHERE id = '{draft}'", {(_NOT_JUDGED, "draft")}),
    ("UPDATE events SET client_id = '{other}' WHERE object_id = '{draft}'", {(_OTHER_EVENT, "draft")}),
    ("UPDATE events SET type = 'payout.completed' WHERE object_id = '{draft}'",
     {(_OTHER_EVENT, "draft"), (_UNREPORTED, "draft")}),
    ("UPDATE payouts SET items_digest = NULL WHERE id = '{draft}'", {(_NOT_JUDGED, "draft")}),
    ("UPDATE payouts SET draft_digest = approval_digest WHERE id = '{payout}'", {(_NOT_JUDGED, "payout")}),
    ("UPDATE payout_items SET name = 'Eve' WHERE payout_id = '{payout}' AND line = 1", {(_NOT_JUDGED, "payout")}),
    ("UPDATE payouts SET status = 'draft', cancelled_at = NULL WHERE id = '{cancelled}'",
     {(_NOT_JUDGED, "cancelled")}),
    ("UPDATE payouts SET total_amount_cents = 1 WHERE id = '{payout}'",
     {(_OTHER_TOTALS, "payout"), (_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout")}),
    ("DELETE FROM payout_items WHERE payout_id = '{payout}' AND line = 2",
     {(_OTHER_TOTALS, "payout"), (_NOT_JUDGED, "payout")}),
    ("UPDATE payout_items SET phone_number = '+256770000099' WHERE transaction_id = '{row}'",
     {(_OTHER_ROWS, "payout"), (_NOT_JUDGED, "payout")}),
    ("UPDATE payout_items SET transaction_id = NULL WHERE transaction_id = '{row}'",
     {(_OTHER_ROWS, "payout"), (_IN_NO_PAYOUT, "row")}),
    ("UPDATE payouts SET status = 'approved' WHERE id = '{payout}'",
     {(_PAYOUT_STATE, "payout"), (_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET approved_by = created_by WHERE id = '{payout}'",
     {(_OWN_APPROVAL, "payout"), (_NOT_JUDGED, "payout"), (_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET status = 'running', completed_at = NULL WHERE id = '{payout}'",
     {(_NEVER_DUE, "payout"), (_UNREPORTED, "payout"), (_OTHER_EVENT, "payout")}),
    ("UPDATE payouts SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{payout}'", {(_AHEAD, "payout")}),
    ("DELETE FROM events WHERE object_id = '{payout}' AND type = 'payout.completed'", {(_UNREPORTED, "payout")}),
    # Names.
    ("UPDATE transactions SET reference = (SELECT reference FROM transactions WHERE id = '{collection_04}') "
     "WHERE id = '{disbursement_04}'",
     {(_SAME_REFERENCE, "disbursement_04"), (_FORGED, "disbursement_04")}),
    ("UPDATE transactions SET idempotency_key = 'k' WHERE id IN ('{collection_04}', '{disbursement_04}')",
     {(_SAME_KEY, "disbursement_04"), (_UNBOUND, "collection_04"), (_UNBOUND, "disbursement_04")}),
    ("UPDATE idempotency_keys SET transaction_id = '{collection_04}' WHERE client_id = '{client}'",
     {(_BOUND_ELSEWHERE, "keyed")}),
    ("UPDATE transactions SET session_id = '{session}', confirmation = 'c' "
     "WHERE id IN ('{collection_04}', '{disbursement_04}')",
     {(_SAME_CONFIRMATION, "disbursement_04"), (_FORGED, "collection_04"), (_FORGED, "disbursement_04")}),
]  # fmt: skip

# SQLite cannot drop constraints that are part of a table.
ON_POSTGRES = [
    (
        "UPDATE incoming_payments SET provider_transaction_id = 'R2' WHERE id = '{returned}'",
        {(_SAME_RECEIPT, "returned")},
    ),
    (
        again("post", "disbursement_00"),
        {
            (_BALANCE, "main"),
            (_STATEMENT, "main"),
            (_BALANCE, "provider"),
            (_ENDED_TWICE, "disbursement_00"),
            (_TWICE, "disbursement_00"),
            (_STATE, "disbursement_00"),
        },
    ),
    (
        "UPDATE transactions SET provider_reference = "
        "(SELECT provider_reference FROM transactions WHERE id = '{collection_04}') WHERE id = '{disbursement_04}'",
        {(_SAME_PROVIDER_REFERENCE, "disbursement_04"), (_FORGED, "disbursement_04")},
    ),
    (
        "INSERT INTO payouts SELECT (jsonb_populate_record(payouts, jsonb_build_object('id', '{copy}'))).* "
        "FROM payouts WHERE id = '{payout}'",
        {
            (_SAME_REFERENCE, "copy"),
            (_OTHER_TOTALS, "copy"),
            (_UNREPORTED, "copy"),
            (_NOT_JUDGED, "copy"),
            (_OTHER_EVENT, "copy"),
        },
    ),
    (
        "UPDATE ledger_accounts SET name = 'main' WHERE id = '{deposits}'",
        {(_SAME_NAME, "main"), (_ELSEWHERE, "deposit"), (_OTHER_KIND, "deposits")},
    ),
    (
        "UPDATE events SET sequence = 1 WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
        {(_GAP, "collection_01"), (_CONTRADICTED, "collection_01"), (_FORGED, "collection_01")},
    ),
]
