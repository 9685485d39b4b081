"""Damage to the books, and the violations that the check must report."""

from __future__ import annotations

import uuid

from ussd_server.services.operations.book_check import history, payouts, sums

RULES = {
    "SUM": "has accounts that do not add up to zero",
    "BALANCE": "has a balance or reservation that differs from its transfers",
    "STATEMENT": "has a statement that does not follow its transfers",
    "NEGATIVE": "has less than nothing",
    "STATE": "has a status that contradicts its transfers",
    "FOREIGN": "moved money of another client",
    "ENDED": "has a hold that was ended by something else than it reserved",
    "FORGOTTEN": "is unfinished without a due time or an open review",
    "GAP": "has a gap in its events",
    "ELSEWHERE": "moved money between other accounts than it names",
    "TWICE": "moved the same money twice",
    "ENDED_TWICE": "has a hold that was ended twice",
    "HISTORY": history.BROKEN_HISTORY,
    "EVENTS_MISSING": history.EVENTS_MISSING,
    "MISSING": history.MISSING,
    "CONTRADICTED": history.CONTRADICTED,
    "FORGED": history.FORGED,
    "NO_COLLECTION": "is a refund of something else than a collection of its client that succeeded",
    "TOO_MUCH": "has refunds that exceed it",
    "REVERSED": "is reversed without refunds of all of it, or has them and is not reversed",
    "NOT_RETURNED": "is reversed without a deposit of what the bank sent back, or has one and is not reversed",
    "RETURNS_NONE": "returns no settlement of its client",
    "DUE_AGAIN": "is complete and due again",
    "AHEAD": "has a lease or a due time far ahead",
    "UNENDED": "is a session that ended without an event of it, or has such an event and did not end",
    "SAME_REFERENCE": "has the reference of another one",
    "BOUND_ELSEWHERE": "has an idempotency key that is bound to another one",
    "SAME_KEY": "has the idempotency key of another one",
    "SAME_CONFIRMATION": "has the confirmation of another one",
    "SAME_PROVIDER_REFERENCE": "has the provider reference of another one",
    "OTHER_TOTALS": "has other counts or totals than its rows",
    "OTHER_ROUND": "has a round that differs from its rows",
    "OTHER_ROWS": "has rows that differ from their transactions",
    "OTHER_HOLD": "holds other money than its waiting rows need",
    "HELD": "holds other money for payouts than they hold",
    "PAID_AGAIN": "paid a row of a payout that another one paid too",
    "PAYOUT_STATE": "has a status that contradicts its transactions",
    "OWN_APPROVAL": "was approved by its maker",
    "NEVER_DUE": "is unfinished without a due time",
    "UNREPORTED": "was completed without an event of it, or has such an event and was not completed",
    "IN_NO_PAYOUT": "names a payout that does not have it as a row",
    "SAME_NAME": "has the name of another one",
    "NOT_JUDGED": payouts.OTHER_THAN_VALIDATED,
    "OTHER_EVENT": payouts.UNREPORTED,
    "UNDECIDED": history.UNDECIDED,
    "NO_REVIEW": history.UNREPORTED_REVIEW,
    "OTHER_TIME": "has a movement in its statement at another time than it was made",
    "OTHER_KIND": "has a kind that is not that of its name",
    "NEVER_SENT": "was answered by its provider and never sent",
    "SPENT": "has spent another sum on a day than its payments",
    "OTHER_USE": "has another use than was written last",
    "NO_PAIR": "is given back by a movement that does not match it",
    "OTHER_MONEY": "is used by a payment that did not move its money",
    "OTHER_SUM": sums.OTHER_SUM,
    "NO_CORRECTION": "is a correction without a movement of its own, or without operators",
    "NO_MOVEMENT": "came from a payer without a movement of its own",
    "PAID_TWICE": "has the receipt of another payment that was credited",
    "NOT_SAME": "names another payment as the same money, which does not name it",
    "CONTESTED": "has a receipt of which operators must say whether it is one payment or two",
    "NO_DECISION": "was ended without a decision of two operators",
    "SAME_TRANSACTION": "has the transaction of another one",
    "UNBOUND": "has an idempotency key that is bound to none",
}
"""The rules in the words of the check, by the names that the damage below gives them."""


def again(kind: str, transaction: str) -> str:
    """The statement that writes a transfer of a transaction once more."""
    rest = """client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id,
        created_at"""
    return (
        f"INSERT INTO ledger_transfers (id, {rest}) SELECT '{uuid.uuid4()}', {rest} "
        f"FROM ledger_transfers WHERE kind = '{kind}' AND transaction_id = '{{{transaction}}}'"
    )


# Statements that damage the books, and the broken rule and the place in the scene of each violation that they cause.
SABOTAGE = [
    # Money.
    ("UPDATE ledger_accounts SET balance_cents = balance_cents + 1 WHERE id = '{main}'",
     "SUM client, BALANCE main, STATEMENT main"),
    ("UPDATE ledger_accounts SET reserved_cents = reserved_cents - 1 WHERE id = '{main}'", "BALANCE main"),
    ("UPDATE ledger_accounts SET reserved_cents = -1 WHERE id = '{foreign}'", "BALANCE foreign, NEGATIVE foreign"),
    ("UPDATE ledger_transfers SET amount_cents = amount_cents + 1 WHERE transaction_id = '{collection_00}'",
     "BALANCE main, STATEMENT main, BALANCE provider, STATE collection_00"),
    ("UPDATE ledger_transfers SET credit_account_id = '{foreign}' WHERE transaction_id = '{collection_00}'",
     "BALANCE main, STATEMENT main, BALANCE foreign, STATEMENT foreign, FOREIGN collection_00"),
    ("UPDATE ledger_transfers SET purpose = 'fee' WHERE transaction_id = '{collection_06}'",
     "STATE collection_06, ELSEWHERE collection_06"),
    ("DELETE FROM ledger_transfers WHERE transaction_id = '{collection_06}'",
     "BALANCE main, STATEMENT main, BALANCE provider, STATE collection_06"),
    ("UPDATE ledger_transfers SET debit_account_id = '{deposits}' WHERE kind = 'void' "
     "AND transaction_id = '{disbursement_01}'",
     "BALANCE main, BALANCE deposits, ELSEWHERE disbursement_01, ENDED disbursement_01"),
    ("UPDATE ledger_transfers SET credit_account_id = '{deposits}' WHERE transaction_id = '{collection_00}'",
     "BALANCE main, STATEMENT main, BALANCE deposits, ELSEWHERE collection_00"),
    ("UPDATE transactions SET status = 'failed' WHERE id = '{collection_00}'",
     "STATE collection_00, HISTORY collection_00, REVERSED collection_00, NO_COLLECTION refund, OTHER_SUM sandbox"),
    ("UPDATE transactions SET status = 'ambiguous' WHERE id = '{disbursement_01}'",
     "STATE disbursement_01, HISTORY disbursement_01, FORGOTTEN disbursement_01"),
    ("UPDATE transactions SET reference = 'bank/returned/x' WHERE id = '{credited}'",
     "NOT_RETURNED settled, RETURNS_NONE credited, FORGED credited"),
    ("UPDATE transactions SET due_at = created_at WHERE id = '{deposit}'", "DUE_AGAIN deposit"),
    ("UPDATE transactions SET due_at = NULL WHERE id = '{collection_07}'", "FORGOTTEN collection_07"),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at, review_closed_at = created_at "
     "WHERE id = '{collection_07}'",
     "FORGOTTEN collection_07, NO_REVIEW collection_07"),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at WHERE id = '{collection_07}'",
     "NO_REVIEW collection_07"),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}' AND sequence = 2",
     "HISTORY collection_04, EVENTS_MISSING collection_04"),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}'",
     "HISTORY collection_04, EVENTS_MISSING collection_04"),
    ("DELETE FROM events WHERE object_id = '{collection_04}' AND sequence = 2",
     "EVENTS_MISSING collection_04, GAP collection_04"),
    ("DELETE FROM events WHERE object_id = '{collection_04}'", "EVENTS_MISSING collection_04"),
    (again("move", "collection_00"),
     "BALANCE main, STATEMENT main, BALANCE provider, TWICE collection_00, STATE collection_00"),
    # What keys paid.
    ("UPDATE key_spending SET spent_cents = spent_cents - 1", "SPENT key"),
    ("UPDATE key_spending SET day = '2020-01-01'", "SPENT key"),
    ("DELETE FROM key_spending", "SPENT key"),
    ("UPDATE transactions SET key_id = NULL WHERE id = '{row}'", "OTHER_ROWS payout"),
    # Payments that payers made by themselves.
    ("UPDATE movements SET transaction_id = NULL, use_kind = NULL WHERE id = '{booked}'", "OTHER_USE booked"),
    ("UPDATE movements SET amount_cents = amount_cents + 1 WHERE id = '{booked}'",
     "OTHER_MONEY booked, NO_MOVEMENT arrived, OTHER_SUM sandbox"),
    ("UPDATE movements SET use_kind = 'own' WHERE id = '{held}'", "OTHER_USE held"),
    ("UPDATE movements SET counterpart = '{held}' WHERE id = '{returned}'", "NO_PAIR returned"),
    ("UPDATE movement_uses SET other_id = '{held}', decided_by = NULL WHERE movement_id = '{returned}'",
     "OTHER_USE returned, NO_DECISION returned"),
    ("DELETE FROM movement_uses WHERE movement_id = '{booked}'", "OTHER_USE booked, NO_MOVEMENT arrived"),
    ("UPDATE movement_uses SET decided_by = NULL WHERE movement_id = '{returned}'", "NO_DECISION returned"),
    ("UPDATE movement_uses SET decided_by = NULL WHERE transaction_id = '{corrected}'", "NO_CORRECTION corrected"),
    ("UPDATE transactions SET provider_transaction_id = 'R1' WHERE id = '{collection_06}'",
     "PAID_TWICE arrived, PAID_TWICE collection_06, FORGED collection_06"),
    ("UPDATE transactions SET same_money_as = '{collection_04}' WHERE id = '{collection_06}'",
     "NOT_SAME collection_06"),
    ("UPDATE transactions SET contested_id = '{collection_04}', review_opened_at = created_at "
     "WHERE id = '{collection_07}'",
     "CONTESTED collection_07, CONTESTED collection_04, NO_REVIEW collection_07"),
    ("UPDATE transactions SET origin = 'client' WHERE id = '{arrived}'", "FORGED arrived"),
    # Statements.
    ("UPDATE ledger_entries SET balance_cents = balance_cents + 1 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     "STATEMENT main"),
    ("DELETE FROM ledger_entries WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     "STATEMENT main"),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     "STATEMENT main, OTHER_TIME main"),
    ("UPDATE ledger_entries SET transfer_id = '{collection_04}' WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     "STATEMENT main"),
    ("UPDATE ledger_entries SET account_id = '{foreign}' WHERE account_id = '{main}'",
     "STATEMENT main, STATEMENT foreign"),
    # Sessions.
    ("UPDATE ussd_sessions SET status = 'active', ended_at = NULL WHERE id = '{session}'", "UNENDED session"),
    ("DELETE FROM events WHERE object_id = '{session}'", "UNENDED session"),
    ("DELETE FROM ussd_sessions WHERE id = '{session}'", "UNENDED session"),
    # Refunds.
    ("UPDATE transactions SET status = 'reversed' WHERE id = '{collection_04}'",
     "REVERSED collection_04, HISTORY collection_04"),
    ("UPDATE transactions SET refund_of = '{disbursement_00}' WHERE id = '{refund}'",
     "FORGED refund, NO_COLLECTION refund, REVERSED collection_00, REVERSED disbursement_00"),
    ("UPDATE transactions SET refund_of = NULL WHERE id = '{refund}'",
     "FORGED refund, NO_COLLECTION refund, REVERSED collection_00"),
    ("UPDATE transactions SET amount_cents = amount_cents - 1 WHERE id = '{collection_00}'",
     "TOO_MUCH collection_00, STATE collection_00, FORGED collection_00, OTHER_SUM sandbox"),
    # Leases and due times.
    ("UPDATE transactions SET leased_until = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     "AHEAD collection_07"),
    ("UPDATE transactions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'", "AHEAD collection_07"),
    ("UPDATE ussd_sessions SET working_until = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'", "AHEAD session"),
    ("UPDATE ussd_sessions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'", "AHEAD session"),
    # Reviews.
    ("UPDATE transactions SET review_closed_at = '2020-01-01T00:00:00.000Z' WHERE id = '{reviewed}'",
     "UNDECIDED reviewed"),
    ("UPDATE transactions SET review_closed_at = '2020-01-01T00:00:00.000Z', review_note = 'Paid (Ann, Ben)' "
     "WHERE id = '{reviewed}'",
     "UNDECIDED reviewed"),
    ("UPDATE transactions SET review_opened_at = NULL WHERE id = '{reviewed}'", "NO_REVIEW reviewed"),
    ("UPDATE transactions SET review_opened_at = created_at WHERE id = '{collection_04}'", "NO_REVIEW collection_04"),
    ("DELETE FROM events WHERE object_id = '{reviewed}' AND type = 'transaction.needs_review'", "NO_REVIEW reviewed"),
    ("DELETE FROM audit_events WHERE object_id = '{decided}'", "UNDECIDED decided"),
    ("UPDATE transactions SET review_note = NULL WHERE id = '{decided}'", "UNDECIDED decided"),
    # A movement on another day, in the order of the statement.
    ("UPDATE ledger_entries SET posted_us = posted_us - 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     "OTHER_TIME main"),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     "OTHER_TIME main"),
    ("UPDATE ledger_entries SET posted_us = posted_us - 86400000000 WHERE account_id = '{main}'", "OTHER_TIME main"),
    ("UPDATE ledger_transfers SET created_at = '2020-01-01T00:00:00.000Z' WHERE transaction_id = '{collection_00}'",
     "OTHER_TIME main"),
    ("UPDATE ledger_accounts SET kind = 'shortfall' WHERE id = '{main}'", "OTHER_KIND main"),
    # Up to the second attempt it may be about to be sent again.
    ("UPDATE transactions SET asked_at = NULL, ask_attempts = 3 WHERE id = '{collection_07}'",
     "NEVER_SENT collection_07"),
    ("DELETE FROM idempotency_keys WHERE client_id = '{client}'", "UNBOUND keyed"),
    ("UPDATE transactions SET reference = (SELECT reference FROM transactions WHERE id = '{collection_04}') "
     "WHERE id = '{disbursement_04}'",
     "SAME_REFERENCE disbursement_04, FORGED disbursement_04"),
    ("UPDATE transactions SET idempotency_key = 'k' WHERE id IN ('{collection_04}', '{disbursement_04}')",
     "SAME_KEY disbursement_04, UNBOUND collection_04, UNBOUND disbursement_04"),
    ("UPDATE idempotency_keys SET transaction_id = '{collection_04}' WHERE client_id = '{client}'",
     "BOUND_ELSEWHERE keyed"),
    ("UPDATE transactions SET session_id = '{session}', confirmation = 'c' "
     "WHERE id IN ('{collection_04}', '{disbursement_04}')",
     "SAME_CONFIRMATION disbursement_04, FORGED collection_04, FORGED disbursement_04"),
    # Histories and events of payments.
    ("UPDATE transaction_events SET status = 'ambiguous' WHERE transaction_id = '{collection_04}' AND sequence = 3",
     "CONTRADICTED collection_04"),
    ("UPDATE transaction_events SET status = 'reversed' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     "HISTORY collection_04, CONTRADICTED collection_04"),
    ("UPDATE transaction_events SET status = 'pending' WHERE transaction_id = '{collection_04}' AND sequence = 1",
     "HISTORY collection_04, CONTRADICTED collection_04"),
    ("UPDATE transaction_events SET created_at = '2020-01-01T00:00:00.000Z' "
     "WHERE transaction_id = '{collection_04}' AND sequence = 2",
     "CONTRADICTED collection_04"),
    ("UPDATE transaction_events SET client_id = '{other}' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     "CONTRADICTED collection_04"),
    ("UPDATE events SET client_id = '{other}' WHERE object_id = '{collection_04}' AND sequence = 2",
     "CONTRADICTED collection_04"),
    ("UPDATE events SET type = 'transaction.succeeded' "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     "CONTRADICTED collection_01, FORGED collection_01"),
    ("UPDATE events SET type = 'transaction.paid' WHERE object_id = '{collection_04}' AND sequence = 2",
     "CONTRADICTED collection_04, FORGED collection_04"),
    ("UPDATE events SET type = 'webhook.test' WHERE object_id = '{collection_04}' AND sequence = 2",
     "EVENTS_MISSING collection_04"),
    ("UPDATE events SET payload = replace(payload, '\"amount\":1000', '\"amount\":2000') "
     "WHERE object_id = '{collection_04}' AND sequence = 1",
     "FORGED collection_04"),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"amount\":2000,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     "FORGED collection_04"),
    ("UPDATE events SET payload = replace(payload, 'submitted', 'pending') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     "FORGED collection_04"),
    ("UPDATE events SET payload = replace(payload, '\"completed_at\":\"2', '\"completed_at\":\"1') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     "FORGED collection_01"),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"late\":true,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     "FORGED collection_04"),
    ("UPDATE events SET payload = replace(payload, '\"code\":\"', '\"code\":[],\"was\":\"') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     "FORGED collection_01"),
    ("UPDATE events SET payload = 'nonsense' WHERE object_id = '{collection_04}' AND sequence = 2",
     "FORGED collection_04"),
    ("UPDATE events SET payload = '[]' WHERE object_id = '{collection_04}' AND sequence = 2", "FORGED collection_04"),
    ("UPDATE transactions SET description = 'gift' WHERE id = '{collection_04}'", "FORGED collection_04"),
    ("UPDATE transactions SET metadata = 'nonsense' WHERE id = '{collection_04}'", "FORGED collection_04"),
    ("UPDATE transactions SET failure_code = 'NOTHING' WHERE id = '{collection_01}'", "FORGED collection_01"),
    ("UPDATE transactions SET completed_at = created_at WHERE id = '{collection_01}'", "FORGED collection_01"),
    ("UPDATE transactions SET provider_transaction_id = 'mine' WHERE id = '{disbursement_00}'",
     "FORGED disbursement_00"),
    ("UPDATE transactions SET phone_number = '+256770000099' WHERE id = '{collection_04}'", "FORGED collection_04"),
    ("DELETE FROM transactions WHERE id = '{collection_04}'",
     "MISSING collection_04, FOREIGN collection_04, OTHER_SUM sandbox"),
    # The collection that a refund gives back, and a payout, as events show them.
    ("UPDATE events SET payload = replace(payload, '{collection_00}', '{collection_04}') "
     "WHERE object_id = '{refund}' AND sequence = 1",
     "FORGED refund"),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"payout_id\":\"{draft}\",') "
     "WHERE object_id = '{collection_04}' AND sequence = 1",
     "FORGED collection_04"),
    # What was refunded, as events show it.
    ("UPDATE events SET payload = replace(payload, '\"refunded_amount\":1000', '\"refunded_amount\":10') "
     "WHERE object_id = '{collection_00}' AND type = 'transaction.reversed'",
     "FORGED collection_00"),
    ("UPDATE events SET payload = replace(payload, '{{', '{{\"refunded_amount\":1000,') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     "FORGED collection_04"),
    # Payouts.
    ("UPDATE payouts SET created_by = '{other}' WHERE id = '{payout}'", "NOT_JUDGED payout, OTHER_EVENT payout"),
    ("UPDATE payouts SET approved_by = '{other}' WHERE id = '{payout}'", "NOT_JUDGED payout, OTHER_EVENT payout"),
    ("UPDATE payouts SET approved_at = '2020-01-01T00:00:00.000Z' WHERE id = '{payout}'",
     "NOT_JUDGED payout, OTHER_EVENT payout"),
    ("UPDATE payouts SET send_at = '2020-01-01T00:00:00.000Z' WHERE id = '{draft}'",
     "NOT_JUDGED draft, OTHER_EVENT draft"),
    ("UPDATE payouts SET send_at = '2199-01-01T00:00:00.000Z' WHERE id = '{payout}'",
     "NOT_JUDGED payout, OTHER_EVENT payout, PAYOUT_STATE payout"),
    ("UPDATE payouts SET reserved_at = NULL, status = 'cancelled', cancelled_at = completed_at, "
     "send_at = created_at WHERE id = '{payout}'",
     "NOT_JUDGED payout, OTHER_EVENT payout, PAYOUT_STATE payout"),
    ("UPDATE payouts SET needs_money_at = approved_at WHERE id = '{payout}'", "OTHER_EVENT payout"),
    ("UPDATE payouts SET key_id = NULL WHERE id = '{payout}'", "NOT_JUDGED payout"),
    ("DELETE FROM events WHERE object_id = '{payout}' AND type = 'payout.needs_approval'",
     "OTHER_EVENT payout, GAP payout"),
    ("DELETE FROM events WHERE object_id = '{draft}'", "OTHER_EVENT draft"),
    ("UPDATE events SET payload = replace(payload, '\"total_amount\":10', '\"total_amount\":20') "
     "WHERE object_id = '{payout}' AND type = 'payout.needs_approval'",
     "OTHER_EVENT payout"),
    ("UPDATE payout_items SET phone_number = '+256770000099' WHERE payout_id = '{draft}' AND line = 1",
     "NOT_JUDGED draft"),
    ("UPDATE payout_items SET amount_cents = 9900000 WHERE payout_id = '{draft}' AND line = 1;; "
     "UPDATE payouts SET total_amount_cents = 9900000, round_amount_cents = 9900000 WHERE id = '{draft}'",
     "NOT_JUDGED draft, OTHER_EVENT draft"),
    ("UPDATE payouts SET client_id = '{other}' WHERE id = '{draft}'", "NOT_JUDGED draft, OTHER_EVENT draft"),
    ("UPDATE payouts SET created_at = '1999-01-01T00:00:00.000Z', description = '[' WHERE id = '{draft}'",
     "NOT_JUDGED draft, OTHER_EVENT draft"),
    ("UPDATE events SET payload = 'nonsense' WHERE object_id = '{draft}'", "OTHER_EVENT draft"),
    ("UPDATE events SET created_at = '2020-01-01T00:00:00.000Z' WHERE object_id = '{draft}'", "OTHER_EVENT draft"),
    ("UPDATE payouts SET request_digest = 'x' WHERE id = '{draft}'", "NOT_JUDGED draft"),
    ("UPDATE events SET client_id = '{other}' WHERE object_id = '{draft}'", "OTHER_EVENT draft"),
    ("UPDATE events SET type = 'payout.completed' WHERE object_id = '{draft}'", "OTHER_EVENT draft, UNREPORTED draft"),
    ("UPDATE payouts SET items_digest = '' WHERE id = '{draft}'", "NOT_JUDGED draft"),
    ("UPDATE payouts SET draft_digest = approval_digest WHERE id = '{payout}'", "NOT_JUDGED payout"),
    ("UPDATE payout_items SET name = 'Eve' WHERE payout_id = '{payout}' AND line = 1", "NOT_JUDGED payout"),
    ("UPDATE payouts SET status = 'draft', cancelled_at = NULL WHERE id = '{cancelled}'", "NOT_JUDGED cancelled"),
    ("UPDATE payouts SET total_amount_cents = 1 WHERE id = '{payout}'",
     "OTHER_TOTALS payout, NOT_JUDGED payout, OTHER_EVENT payout"),
    ("DELETE FROM payout_items WHERE payout_id = '{payout}' AND line = 2", "OTHER_TOTALS payout, NOT_JUDGED payout"),
    ("UPDATE payouts SET round_count = 9 WHERE id = '{payout}'", "OTHER_ROUND payout, NOT_JUDGED payout"),
    ("UPDATE payouts SET held_cents = 100 WHERE id = '{payout}'", "OTHER_HOLD payout, PAYOUT_STATE payout, HELD main"),
    ("UPDATE payout_holds SET released_cents = released_cents + 1 WHERE payout_id = '{payout}'",
     "OTHER_HOLD payout, SPENT key"),
    ("DELETE FROM payout_attempts WHERE payout_id = '{payout}'",
     "OTHER_ROWS payout, OTHER_HOLD payout, IN_NO_PAYOUT row"),
    ("INSERT INTO payout_attempts (payout_id, line, number, round, transaction_id) "
     "SELECT payout_id, line, 2, 1, '{disbursement_00}' FROM payout_attempts WHERE transaction_id = '{row}'",
     "OTHER_ROWS payout, OTHER_HOLD payout, PAID_AGAIN disbursement_00"),
    ("UPDATE payout_items SET phone_number = '+256770000099' WHERE transaction_id = '{row}'",
     "OTHER_ROWS payout, NOT_JUDGED payout"),
    ("UPDATE payout_items SET transaction_id = NULL WHERE transaction_id = '{row}'",
     "OTHER_ROWS payout"),
    ("UPDATE payouts SET status = 'approved' WHERE id = '{payout}'", "PAYOUT_STATE payout, OTHER_EVENT payout"),
    ("UPDATE payouts SET approved_by = created_by WHERE id = '{payout}'",
     "OWN_APPROVAL payout, NOT_JUDGED payout, OTHER_EVENT payout"),
    ("UPDATE payouts SET status = 'running', completed_at = NULL WHERE id = '{payout}'",
     "NEVER_DUE payout, UNREPORTED payout, OTHER_EVENT payout"),
    ("UPDATE payouts SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{payout}'", "AHEAD payout"),
    ("DELETE FROM events WHERE object_id = '{payout}' AND type = 'payout.completed'", "UNREPORTED payout"),
]  # fmt: skip

# SQLite cannot drop constraints that are part of a table.
ON_POSTGRES = [
    (
        "UPDATE movements SET use_kind = 'payment', transaction_id = '{arrived}' WHERE id = '{held}'",
        "SAME_TRANSACTION held, OTHER_USE held, OTHER_SUM sandbox",
    ),
    (
        again("post", "disbursement_00"),
        "BALANCE main, STATEMENT main, BALANCE provider, "
        "ENDED_TWICE disbursement_00, TWICE disbursement_00, STATE disbursement_00",
    ),
    (
        "UPDATE transactions SET provider_reference = "
        "(SELECT provider_reference FROM transactions WHERE id = '{collection_04}') WHERE id = '{disbursement_04}'",
        "SAME_PROVIDER_REFERENCE disbursement_04, FORGED disbursement_04",
    ),
    (
        "INSERT INTO payouts SELECT (jsonb_populate_record(payouts, jsonb_build_object('id', '{copy}'))).* "
        "FROM payouts WHERE id = '{payout}'",
        "SAME_REFERENCE copy, OTHER_TOTALS copy, OTHER_ROUND copy, UNREPORTED copy, NOT_JUDGED copy, OTHER_EVENT copy",
    ),
    (
        "UPDATE ledger_accounts SET name = 'main' WHERE id = '{deposits}'",
        "SAME_NAME main, ELSEWHERE deposit, OTHER_KIND deposits",
    ),
    (
        "UPDATE events SET sequence = 1 WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
        "GAP collection_01, CONTRADICTED collection_01, FORGED collection_01",
    ),
]
