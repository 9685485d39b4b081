-- The changes that are allowed to money and its records. SQLite refuses all others, also those typed into its shell.
-- REPLACE deletes a conflicting row without calling triggers for deletions. So triggers look for a conflicting row
-- before an insertion, and unique columns cannot be updated.

-- Evidence: the rows of these tables are never updated, deleted or replaced.
CREATE TRIGGER transactions_keep BEFORE DELETE ON transactions
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never removed'); END;

CREATE TRIGGER transactions_unreplaced BEFORE INSERT ON transactions
WHEN EXISTS (SELECT 1 FROM transactions WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM transactions WHERE client_id = NEW.client_id AND reference = NEW.reference
        AND (type = 'deposit') = (NEW.type = 'deposit'))
    OR EXISTS (SELECT 1 FROM transactions WHERE client_id = NEW.client_id AND idempotency_key = NEW.idempotency_key)
    OR EXISTS (SELECT 1 FROM transactions WHERE session_id = NEW.session_id AND confirmation = NEW.confirmation)
    OR EXISTS (SELECT 1 FROM transactions WHERE provider_reference = NEW.provider_reference)
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never replaced'); END;

CREATE TRIGGER transaction_events_keep BEFORE DELETE ON transaction_events
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never removed'); END;

CREATE TRIGGER transaction_events_unedited BEFORE UPDATE ON transaction_events
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never changed'); END;

CREATE TRIGGER transaction_events_unreplaced BEFORE INSERT ON transaction_events
WHEN EXISTS (
    SELECT 1 FROM transaction_events WHERE transaction_id = NEW.transaction_id AND sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never replaced'); END;

CREATE TRIGGER idempotency_keys_keep BEFORE DELETE ON idempotency_keys
BEGIN SELECT RAISE(ABORT, 'rows of idempotency_keys are never removed'); END;

CREATE TRIGGER idempotency_keys_unedited BEFORE UPDATE ON idempotency_keys
BEGIN SELECT RAISE(ABORT, 'rows of idempotency_keys are never changed'); END;

CREATE TRIGGER idempotency_keys_unreplaced BEFORE INSERT ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM idempotency_keys WHERE client_id = NEW.client_id AND key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'rows of idempotency_keys are never replaced'); END;

CREATE TRIGGER ledger_accounts_keep BEFORE DELETE ON ledger_accounts
BEGIN SELECT RAISE(ABORT, 'rows of ledger_accounts are never removed'); END;

CREATE TRIGGER ledger_accounts_unreplaced BEFORE INSERT ON ledger_accounts
WHEN EXISTS (SELECT 1 FROM ledger_accounts WHERE id = NEW.id OR (client_id = NEW.client_id AND name = NEW.name))
BEGIN SELECT RAISE(ABORT, 'rows of ledger_accounts are never replaced'); END;

CREATE TRIGGER ledger_transfers_keep BEFORE DELETE ON ledger_transfers
BEGIN SELECT RAISE(ABORT, 'rows of ledger_transfers are never removed'); END;

CREATE TRIGGER ledger_transfers_unedited BEFORE UPDATE ON ledger_transfers
BEGIN SELECT RAISE(ABORT, 'rows of ledger_transfers are never changed'); END;

CREATE TRIGGER ledger_entries_keep BEFORE DELETE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'rows of ledger_entries are never removed'); END;

CREATE TRIGGER ledger_entries_unedited BEFORE UPDATE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'rows of ledger_entries are never changed'); END;

CREATE TRIGGER payouts_keep BEFORE DELETE ON payouts
BEGIN SELECT RAISE(ABORT, 'rows of payouts are never removed'); END;

CREATE TRIGGER payouts_unreplaced BEFORE INSERT ON payouts
WHEN EXISTS (SELECT 1 FROM payouts WHERE id = NEW.id
    OR (client_id = NEW.client_id AND reference = NEW.reference AND replaced_by IS NULL))
BEGIN SELECT RAISE(ABORT, 'rows of payouts are never replaced'); END;

CREATE TRIGGER payout_items_keep BEFORE DELETE ON payout_items
BEGIN SELECT RAISE(ABORT, 'rows of payout_items are never removed'); END;

CREATE TRIGGER payout_items_unreplaced BEFORE INSERT ON payout_items
WHEN EXISTS (SELECT 1 FROM payout_items WHERE payout_id = NEW.payout_id AND line = NEW.line)
BEGIN SELECT RAISE(ABORT, 'rows of payout_items are never replaced'); END;

CREATE TRIGGER incoming_payments_keep BEFORE DELETE ON incoming_payments
BEGIN SELECT RAISE(ABORT, 'rows of incoming_payments are never removed'); END;

CREATE TRIGGER incoming_payments_unreplaced BEFORE INSERT ON incoming_payments
WHEN EXISTS (SELECT 1 FROM incoming_payments WHERE id = NEW.id OR transaction_id = NEW.transaction_id
    OR (provider = NEW.provider AND provider_transaction_id = NEW.provider_transaction_id))
BEGIN SELECT RAISE(ABORT, 'rows of incoming_payments are never replaced'); END;

CREATE TRIGGER menu_versions_keep BEFORE DELETE ON menu_versions
BEGIN SELECT RAISE(ABORT, 'rows of menu_versions are never removed'); END;

CREATE TRIGGER menu_versions_unedited BEFORE UPDATE ON menu_versions
BEGIN SELECT RAISE(ABORT, 'rows of menu_versions are never changed'); END;

-- Only the digest itself may change, when a master key is rotated.
CREATE TRIGGER history_digests_unedited BEFORE UPDATE ON history_digests WHEN NEW.clients <> OLD.clients
BEGIN SELECT RAISE(ABORT, 'rows of history_digests are never changed'); END;

CREATE TRIGGER history_digests_keep BEFORE DELETE ON history_digests
BEGIN SELECT RAISE(ABORT, 'rows of history_digests are never removed'); END;

CREATE TRIGGER events_unedited BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'rows of events are never changed'); END;

CREATE TRIGGER events_keep BEFORE DELETE ON events WHEN OLD.type LIKE 'transaction.%'
BEGIN SELECT RAISE(ABORT, 'rows of events are never removed'); END;

CREATE TRIGGER events_unreplaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE object_id = NEW.object_id AND sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'rows of events are never replaced'); END;

-- A transaction keeps what it was recorded with: who, what, for whom, and every name that it can be found by. A final
-- state only moves as a provider's late success or a refund allows.
CREATE TRIGGER transactions_begin BEFORE INSERT ON transactions WHEN NEW.status <> 'created'
BEGIN SELECT RAISE(ABORT, 'a transaction begins as created'); END;

CREATE TRIGGER transactions_promise BEFORE UPDATE ON transactions
WHEN (fixed(NEW, transactions)) IS NOT (fixed(OLD, transactions))
BEGIN SELECT RAISE(ABORT, 'what a transaction promised is never edited'); END;

CREATE TRIGGER transactions_final BEFORE UPDATE OF status ON transactions
WHEN NEW.status <> OLD.status AND NOT (
        (OLD.status IN ('created', 'submitted', 'pending', 'ambiguous') AND NEW.status NOT IN ('created', 'reversed')
            AND (NEW.status <> 'submitted' OR OLD.status = 'created'))
        OR (OLD.status = 'failed' AND NEW.status = 'succeeded' AND NEW.late)
        OR (OLD.status = 'succeeded' AND NEW.status = 'reversed'))
BEGIN SELECT RAISE(ABORT, 'a final state stays final'); END;

CREATE TRIGGER transactions_payout BEFORE UPDATE OF payout_id ON transactions
WHEN NEW.payout_id IS NOT OLD.payout_id
BEGIN SELECT RAISE(ABORT, 'a transaction never changes its payout'); END;

CREATE TRIGGER transaction_events_follow BEFORE INSERT ON transaction_events WHEN NEW.sequence > 1 AND NOT EXISTS (
        SELECT 1 FROM transaction_events
        WHERE transaction_id = NEW.transaction_id AND sequence = NEW.sequence - 1)
BEGIN SELECT RAISE(ABORT, 'a status history has no gaps'); END;

CREATE TRIGGER transactions_bind_key AFTER INSERT ON transactions WHEN NEW.idempotency_key IS NOT NULL
BEGIN INSERT INTO idempotency_keys (client_id, key, transaction_id, created_at)
        VALUES (NEW.client_id, NEW.idempotency_key, NEW.id, NEW.created_at); END;

-- What came in stays as it was reported. A held payment is booked or returned once; both are final.
CREATE TRIGGER incoming_payments_promise BEFORE UPDATE ON incoming_payments
WHEN (fixed(NEW, incoming_payments)) IS NOT (fixed(OLD, incoming_payments))
    OR (OLD.status <> 'held' AND (NEW.status, NEW.transaction_id) IS NOT (OLD.status, OLD.transaction_id))
BEGIN SELECT RAISE(ABORT, 'what came in is never edited'); END;

-- The judged columns of a payout's rows stay as the approver saw them.
CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items
WHEN (fixed(NEW, payout_items)) IS NOT (fixed(OLD, payout_items))
    OR (OLD.transaction_id IS NOT NULL
        AND (NEW.transaction_id IS NOT OLD.transaction_id OR NEW.fee_cents IS NOT OLD.fee_cents))
BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END;

CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts
WHEN (fixed(NEW, payouts)) IS NOT (fixed(OLD, payouts))
    OR (OLD.items_digest IS NOT NULL AND NEW.items_digest IS NOT OLD.items_digest)
    OR (OLD.approved_by IS NOT NULL AND NEW.approved_by IS NOT OLD.approved_by)
    OR (OLD.approved_at IS NOT NULL AND (NEW.approved_at, NEW.key_id) IS NOT (OLD.approved_at, OLD.key_id))
    OR (OLD.reserved_at IS NOT NULL AND NEW.reserved_at IS NOT OLD.reserved_at)
    OR (OLD.needs_money_at IS NOT NULL AND NEW.needs_money_at IS NOT OLD.needs_money_at)
    OR (OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS NOT OLD.cancelled_at)
    OR (OLD.completed_at IS NOT NULL AND NEW.completed_at IS NOT OLD.completed_at)
    OR (OLD.status <> 'draft' AND NEW.replaced_by IS NOT OLD.replaced_by)
    OR ((OLD.reserved_at IS NOT NULL OR OLD.status NOT IN ('draft', 'approved'))
        AND NEW.total_fee_cents <> OLD.total_fee_cents)
BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END;

CREATE TRIGGER payouts_status BEFORE UPDATE OF status ON payouts WHEN NEW.status <> OLD.status AND NOT (
        (OLD.status = 'draft' AND NEW.status IN ('approved', 'cancelled'))
        OR (OLD.status = 'approved' AND NEW.status IN ('running', 'completed', 'cancelled'))
        OR (OLD.status = 'running' AND NEW.status IN ('completed', 'cancelled')))
BEGIN SELECT RAISE(ABORT, 'the status of a payout never goes back'); END;

-- Pending events have a table of their own, which is empty most of the time, so the relay reads few rows.
CREATE TRIGGER events_queue AFTER INSERT ON events
BEGIN INSERT INTO pending_events (event_id) VALUES (NEW.id); END;
