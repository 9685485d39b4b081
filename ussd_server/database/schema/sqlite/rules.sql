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
    OR EXISTS (SELECT 1 FROM transactions WHERE provider_reference = NEW.provider_reference
        AND coalesce(unsent_before, 0) = coalesce(NEW.unsent_before, 0))
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
    OR (client_id = NEW.client_id AND reference = NEW.reference AND replaced_by IS NULL AND revoked_at IS NULL))
BEGIN SELECT RAISE(ABORT, 'rows of payouts are never replaced'); END;

CREATE TRIGGER payout_items_keep BEFORE DELETE ON payout_items
BEGIN SELECT RAISE(ABORT, 'rows of payout_items are never removed'); END;

CREATE TRIGGER payout_items_unreplaced BEFORE INSERT ON payout_items
WHEN EXISTS (SELECT 1 FROM payout_items WHERE payout_id = NEW.payout_id AND line = NEW.line)
BEGIN SELECT RAISE(ABORT, 'rows of payout_items are never replaced'); END;

CREATE TRIGGER payout_approvals_keep BEFORE DELETE ON payout_approvals
BEGIN SELECT RAISE(ABORT, 'rows of payout_approvals are never removed'); END;

CREATE TRIGGER payout_approvals_unreplaced BEFORE INSERT ON payout_approvals
WHEN EXISTS (SELECT 1 FROM payout_approvals WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'rows of payout_approvals are never replaced'); END;

CREATE TRIGGER approval_rules_keep BEFORE DELETE ON approval_rules
BEGIN SELECT RAISE(ABORT, 'rows of approval_rules are never removed'); END;

CREATE TRIGGER movement_receipts_keep BEFORE DELETE ON movement_receipts
BEGIN SELECT RAISE(ABORT, 'rows of movement_receipts are never removed'); END;

CREATE TRIGGER movement_receipts_unreplaced BEFORE INSERT ON movement_receipts
WHEN EXISTS (SELECT 1 FROM movement_receipts
    WHERE account = NEW.account AND direction = NEW.direction AND receipt = NEW.receipt)
BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER audit_events_keep BEFORE DELETE ON audit_events
BEGIN SELECT RAISE(ABORT, 'rows of audit_events are never changed or removed'); END;

CREATE TRIGGER audit_events_unreplaced BEFORE INSERT ON audit_events
WHEN EXISTS (SELECT 1 FROM audit_events WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'rows of audit_events are never changed or removed'); END;

CREATE TRIGGER row_signatures_keep BEFORE DELETE ON row_signatures
BEGIN SELECT RAISE(ABORT, 'rows of row_signatures are never changed or removed'); END;

CREATE TRIGGER movements_keep BEFORE DELETE ON movements
BEGIN SELECT RAISE(ABORT, 'rows of movements are never removed'); END;

CREATE TRIGGER movements_unreplaced BEFORE INSERT ON movements
WHEN EXISTS (SELECT 1 FROM movements
    WHERE id = NEW.id OR transaction_id = NEW.transaction_id OR counterpart = NEW.counterpart)
BEGIN SELECT RAISE(ABORT, 'rows of movements are never replaced'); END;

CREATE TRIGGER movement_uses_keep BEFORE DELETE ON movement_uses
BEGIN SELECT RAISE(ABORT, 'rows of movement_uses are never removed'); END;

CREATE TRIGGER movement_uses_unedited BEFORE UPDATE ON movement_uses
BEGIN SELECT RAISE(ABORT, 'rows of movement_uses are never changed'); END;

CREATE TRIGGER movement_uses_unreplaced BEFORE INSERT ON movement_uses
WHEN EXISTS (SELECT 1 FROM movement_uses
    WHERE id = NEW.id OR (movement_id = NEW.movement_id AND number = NEW.number))
BEGIN SELECT RAISE(ABORT, 'rows of movement_uses are never replaced'); END;

CREATE TRIGGER menu_versions_keep BEFORE DELETE ON menu_versions
BEGIN SELECT RAISE(ABORT, 'rows of menu_versions are never removed'); END;

CREATE TRIGGER menu_versions_unedited BEFORE UPDATE ON menu_versions
BEGIN SELECT RAISE(ABORT, 'rows of menu_versions are never changed'); END;

CREATE TRIGGER closed_days_unedited BEFORE UPDATE ON closed_days
BEGIN SELECT RAISE(ABORT, 'rows of closed_days are never changed'); END;

CREATE TRIGGER closed_days_keep BEFORE DELETE ON closed_days
BEGIN SELECT RAISE(ABORT, 'rows of closed_days are never changed or removed'); END;

CREATE TRIGGER closed_days_unreplaced BEFORE INSERT ON closed_days
WHEN EXISTS (SELECT 1 FROM closed_days WHERE account = NEW.account AND day = NEW.day)
BEGIN SELECT RAISE(ABORT, 'rows of closed_days are never changed or removed'); END;

-- The lines of a closed day's statements stay as they are.
CREATE TRIGGER statement_days_unedited BEFORE UPDATE ON statement_days
BEGIN SELECT RAISE(ABORT, 'rows of statement_days are never changed'); END;

CREATE TRIGGER statement_days_keep BEFORE DELETE ON statement_days
WHEN EXISTS (
    SELECT 1 FROM day_proofs WHERE day = OLD.day AND statements LIKE '%' || OLD.statement_id || '%')
BEGIN SELECT RAISE(ABORT, 'rows of statement_days are never removed once their day is closed'); END;

CREATE TRIGGER statement_days_unreplaced BEFORE INSERT ON statement_days
WHEN EXISTS (SELECT 1 FROM statement_days WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'rows of statement_days are never replaced'); END;

-- Only the digest itself may change, when a master key is rotated.
CREATE TRIGGER day_proofs_unedited BEFORE UPDATE ON day_proofs
WHEN (NEW.id, NEW.account, NEW.day, NEW.statements, NEW.first_at, NEW.last_at, NEW.content) IS NOT
    (OLD.id, OLD.account, OLD.day, OLD.statements, OLD.first_at, OLD.last_at, OLD.content)
BEGIN SELECT RAISE(ABORT, 'rows of day_proofs are never changed'); END;

CREATE TRIGGER day_proofs_keep BEFORE DELETE ON day_proofs
BEGIN SELECT RAISE(ABORT, 'rows of day_proofs are never removed'); END;

CREATE TRIGGER day_proofs_unreplaced BEFORE INSERT ON day_proofs
WHEN EXISTS (SELECT 1 FROM day_proofs WHERE id = NEW.id OR (account = NEW.account AND day = NEW.day))
BEGIN SELECT RAISE(ABORT, 'rows of day_proofs are never replaced'); END;

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

-- Who someone is, what they did, and which codes and accounts a client has: what never changes.
CREATE TRIGGER api_keys_fixed BEFORE UPDATE ON api_keys
WHEN (NEW.id, NEW.client_id, NEW.apikey, NEW.created_by)
    IS NOT
    (OLD.id, OLD.client_id, OLD.apikey, OLD.created_by)
BEGIN SELECT RAISE(ABORT, 'rows of api_keys are never changed or removed'); END;

CREATE TRIGGER audit_events_fixed BEFORE UPDATE ON audit_events
WHEN (NEW.id, NEW.client_id, NEW.user_id, NEW.actor, NEW.action, NEW.object_id, NEW.address, NEW.request_id,
     NEW.created_at, NEW.operator, NEW.reason, NEW.key_id, NEW.amount_cents, NEW.phone_number, NEW.decided_by)
    IS NOT
    (OLD.id, OLD.client_id, OLD.user_id, OLD.actor, OLD.action, OLD.object_id, OLD.address, OLD.request_id,
     OLD.created_at, OLD.operator, OLD.reason, OLD.key_id, OLD.amount_cents, OLD.phone_number, OLD.decided_by)
BEGIN SELECT RAISE(ABORT, 'rows of audit_events are never changed or removed'); END;

CREATE TRIGGER bank_accounts_fixed BEFORE UPDATE ON bank_accounts
WHEN (NEW.client_id)
    IS NOT
    (OLD.client_id)
BEGIN SELECT RAISE(ABORT, 'rows of bank_accounts are never changed or removed'); END;

CREATE TRIGGER payment_code_prefixes_fixed BEFORE UPDATE ON payment_code_prefixes
WHEN (NEW.client_id, NEW.prefix)
    IS NOT
    (OLD.client_id, OLD.prefix)
BEGIN SELECT RAISE(ABORT, 'rows of payment_code_prefixes are never changed or removed'); END;

CREATE TRIGGER payment_codes_fixed BEFORE UPDATE ON payment_codes
WHEN (NEW.id, NEW.client_id, NEW.code, NEW.created_at)
    IS NOT
    (OLD.id, OLD.client_id, OLD.code, OLD.created_at)
BEGIN SELECT RAISE(ABORT, 'rows of payment_codes are never changed or removed'); END;

CREATE TRIGGER bank_accounts_confirmed BEFORE UPDATE ON bank_accounts
WHEN OLD.confirmed_at IS NOT NULL AND NEW.confirmed_at IS NOT NULL
    AND (NEW.bank, NEW.number, NEW.name, NEW.confirmed_by) IS NOT (OLD.bank, OLD.number, OLD.name, OLD.confirmed_by)
BEGIN SELECT RAISE(ABORT, 'rows of bank_accounts are never changed or removed'); END;

CREATE TRIGGER payment_codes_used BEFORE UPDATE ON payment_codes
WHEN OLD.used_at IS NOT NULL AND NEW.used_at IS NOT OLD.used_at AND NOT (OLD.single_use AND NEW.used_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'rows of payment_codes are never changed or removed'); END;

CREATE TRIGGER users_password_seen_by BEFORE UPDATE ON users
WHEN NEW.password_seen_by IS NOT OLD.password_seen_by AND NEW.password_hash = OLD.password_hash
BEGIN SELECT RAISE(ABORT, 'rows of users are never changed or removed'); END;

-- A receipt keeps what has it, until two movements prove to be one, or its payment gets a movement of its own.
CREATE TRIGGER movement_receipts_lasting BEFORE UPDATE ON movement_receipts
WHEN (NEW.account, NEW.direction, NEW.receipt, NEW.written) IS NOT
        (OLD.account, OLD.direction, OLD.receipt, OLD.written)
    OR (OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS NOT OLD.transaction_id AND NOT EXISTS (
        SELECT 1 FROM movement_uses WHERE movement_id = NEW.movement_id AND transaction_id = OLD.transaction_id))
    OR (OLD.movement_id IS NOT NULL AND NEW.movement_id IS NULL)
BEGIN SELECT RAISE(ABORT, 'money that moved is never edited'); END;

-- A transaction keeps what it was recorded with: who, what, for whom, and every name that it can be found by. A final
-- state only moves as a provider's late success or a refund allows.
CREATE TRIGGER transactions_begin BEFORE INSERT ON transactions WHEN NEW.status <> 'created'
BEGIN SELECT RAISE(ABORT, 'a transaction begins as created'); END;

CREATE TRIGGER transactions_promise BEFORE UPDATE ON transactions
WHEN (
    NEW.id, NEW.client_id, NEW.type, NEW.phone_number, NEW.to_phone_number, NEW.amount_cents, NEW.fee_cents,
    NEW.currency, NEW.account, NEW.provider, NEW.provider_reference, NEW.unsent_before, NEW.reference, NEW.idempotency_key,
    NEW.request_digest, NEW.session_id, NEW.confirmation, NEW.refund_of, NEW.created_at, NEW.key_id, NEW.origin
) IS NOT (
    OLD.id, OLD.client_id, OLD.type, OLD.phone_number, OLD.to_phone_number, OLD.amount_cents, OLD.fee_cents,
    OLD.currency, OLD.account, OLD.provider, OLD.provider_reference, OLD.unsent_before, OLD.reference, OLD.idempotency_key,
    OLD.request_digest, OLD.session_id, OLD.confirmation, OLD.refund_of, OLD.created_at, OLD.key_id, OLD.origin
) OR (NEW.provider_account IS NOT OLD.provider_account
    AND (OLD.sent_to IS NOT NULL OR OLD.status IN ('succeeded', 'reversed')))
BEGIN SELECT RAISE(ABORT, 'what a transaction promised is never edited'); END;

CREATE TRIGGER transactions_final BEFORE UPDATE OF status ON transactions
WHEN NEW.status <> OLD.status AND NOT (
        (OLD.status IN ('created', 'submitted', 'pending', 'ambiguous') AND NEW.status NOT IN ('created', 'reversed')
            AND (NEW.status <> 'submitted' OR OLD.status = 'created'))
        OR (OLD.status = 'failed' AND NEW.status = 'succeeded' AND NEW.late)
        OR (OLD.status = 'succeeded' AND NEW.status = 'reversed')
        -- What gave its money back is taken out of the books.
        OR (OLD.status = 'reversed' AND NEW.status = 'succeeded' AND OLD.type = 'collection'
            AND OLD.released_at IS NULL))
BEGIN SELECT RAISE(ABORT, 'a final state stays final'); END;

CREATE TRIGGER transactions_payout BEFORE UPDATE OF payout_id ON transactions
WHEN NEW.payout_id IS NOT OLD.payout_id
BEGIN SELECT RAISE(ABORT, 'a transaction never changes its payout'); END;

CREATE TRIGGER transactions_fixed BEFORE UPDATE ON transactions
WHEN (NEW.callback_url, NEW.description, NEW.metadata, NEW.effect, NEW.corrects, NEW.reason) IS NOT
    (OLD.callback_url, OLD.description, OLD.metadata, OLD.effect, OLD.corrects, OLD.reason)
    OR (OLD.released_at IS NOT NULL AND NEW.released_at IS NOT OLD.released_at)
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never changed or removed'); END;

CREATE TRIGGER transactions_sender BEFORE UPDATE OF user_id, menu_id, menu_version ON transactions
WHEN (NEW.user_id, NEW.menu_id, NEW.menu_version) IS NOT (OLD.user_id, OLD.menu_id, OLD.menu_version)
BEGIN SELECT RAISE(ABORT, 'who sends a payment is never edited'); END;

-- A payment that is final, and a settlement that waits for a person, are never due again.
CREATE TRIGGER transactions_rest BEFORE UPDATE ON transactions
WHEN NEW.due_at IS NOT NULL AND ((NEW.status IN ('succeeded', 'reversed') AND NEW.status = OLD.status)
    OR (NEW.type = 'settlement' AND NEW.due_at <> '9999-01-01T00:00:00.000Z'))
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never changed or removed'); END;

CREATE TRIGGER transaction_events_follow BEFORE INSERT ON transaction_events WHEN NEW.sequence > 1 AND NOT EXISTS (
        SELECT 1 FROM transaction_events
        WHERE transaction_id = NEW.transaction_id AND sequence = NEW.sequence - 1)
BEGIN SELECT RAISE(ABORT, 'a status history has no gaps'); END;

CREATE TRIGGER transactions_bind_key AFTER INSERT ON transactions WHEN NEW.idempotency_key IS NOT NULL
BEGIN INSERT INTO idempotency_keys (client_id, key, transaction_id, created_at)
        VALUES (NEW.client_id, NEW.idempotency_key, NEW.id, NEW.created_at); END;

-- A movement stays as it was told, and is used once at a time: by the last row of its uses.
CREATE TRIGGER movements_promise BEFORE UPDATE ON movements
WHEN (NEW.id, NEW.account, NEW.direction, NEW.amount_cents, NEW.receipt, NEW.created_at) IS NOT
        (OLD.id, OLD.account, OLD.direction, OLD.amount_cents, OLD.receipt, OLD.created_at)
    OR ((NEW.use_kind, NEW.transaction_id, NEW.same_as) IS NOT (OLD.use_kind, OLD.transaction_id, OLD.same_as)
        AND NOT EXISTS (SELECT 1 FROM movement_uses WHERE movement_id = NEW.id
            AND number = (SELECT max(number) FROM movement_uses WHERE movement_id = NEW.id)
            AND (CASE WHEN kind NOT IN ('release', 'same') THEN kind END) IS NEW.use_kind
            AND (CASE WHEN kind <> 'release' THEN transaction_id END) IS NEW.transaction_id
            AND (CASE kind WHEN 'same' THEN other_id END) IS NEW.same_as))
    OR (NEW.counterpart IS NOT OLD.counterpart
        AND NOT EXISTS (SELECT 1 FROM movement_uses AS used
            WHERE movement_id IN (NEW.id, coalesce(NEW.counterpart, OLD.counterpart))
            AND number = (SELECT max(number) FROM movement_uses WHERE movement_id = used.movement_id)
            AND CASE WHEN NEW.counterpart IS NULL THEN kind = 'release'
                ELSE kind = 'returned' AND other_id IN (NEW.id, NEW.counterpart) END))
BEGIN SELECT RAISE(ABORT, 'money that moved is never edited'); END;

CREATE TRIGGER movement_uses_once BEFORE INSERT ON movement_uses WHEN NOT EXISTS (
        SELECT 1 FROM movements
        WHERE id = NEW.movement_id AND (use_kind IS NULL AND same_as IS NULL) = (NEW.kind <> 'release'))
BEGIN SELECT RAISE(ABORT, 'a movement is used once at a time'); END;

CREATE TRIGGER movement_uses_pair BEFORE INSERT ON movement_uses
WHEN NEW.kind = 'returned' AND NEW.other_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM movements AS first JOIN movements AS second ON second.id = NEW.movement_id
        WHERE first.id = NEW.other_id AND first.use_kind = 'returned' AND first.counterpart IS NULL
            AND first.direction <> second.direction
            AND (first.account, first.amount_cents) = (second.account, second.amount_cents))
BEGIN SELECT RAISE(ABORT, 'a movement is given back once, by its amount in the other direction'); END;

CREATE TRIGGER movement_uses_apply AFTER INSERT ON movement_uses
BEGIN
    UPDATE movements SET counterpart = NULL WHERE NEW.kind = 'release' AND counterpart = NEW.movement_id;
    UPDATE movements SET
        use_kind = CASE WHEN NEW.kind NOT IN ('release', 'same') THEN NEW.kind END,
        transaction_id = CASE WHEN NEW.kind <> 'release' THEN NEW.transaction_id END,
        counterpart = CASE NEW.kind WHEN 'returned' THEN NEW.other_id END,
        same_as = CASE NEW.kind WHEN 'same' THEN NEW.other_id END
    WHERE id = NEW.movement_id;
    UPDATE movements SET counterpart = NEW.movement_id WHERE NEW.kind = 'returned' AND id = NEW.other_id;
END;

CREATE TRIGGER transactions_of_payers AFTER INSERT ON transactions
WHEN (NEW.origin = 'payer' OR (NEW.type = 'correction' AND NEW.provider IS NOT NULL)) AND NOT EXISTS (
        SELECT 1 FROM movements WHERE transaction_id = NEW.id AND amount_cents = NEW.amount_cents)
BEGIN SELECT RAISE(ABORT, 'a payment of a payer, and a correction, use a movement'); END;

-- The judged columns of a payout's rows stay as the approver saw them.
CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items
WHEN (
    NEW.payout_id, NEW.line, NEW.phone_number, NEW.amount_cents, NEW.amount_text, NEW.provider, NEW.reference,
    NEW.description, NEW.name, NEW.is_ready, NEW.problems
) IS NOT (
    OLD.payout_id, OLD.line, OLD.phone_number, OLD.amount_cents, OLD.amount_text, OLD.provider, OLD.reference,
    OLD.description, OLD.name, OLD.is_ready, OLD.problems
)
OR (NEW.transaction_id IS NOT OLD.transaction_id AND (NEW.transaction_id IS NULL OR NEW.waits))
OR (OLD.waits AND NEW.fee_cents <> OLD.fee_cents)
OR ((NEW.round, NEW.attempt) IS NOT (OLD.round, OLD.attempt)
    AND (NEW.round <= OLD.round OR NEW.attempt NOT IN (OLD.attempt, OLD.attempt + 1)))
BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END;

CREATE TRIGGER payout_attempts_unedited BEFORE UPDATE ON payout_attempts
BEGIN SELECT RAISE(ABORT, 'rows of payout_attempts are never changed'); END;

CREATE TRIGGER payout_attempts_keep BEFORE DELETE ON payout_attempts
BEGIN SELECT RAISE(ABORT, 'rows of payout_attempts are never removed'); END;

CREATE TRIGGER payout_attempts_unreplaced BEFORE INSERT ON payout_attempts
WHEN EXISTS (SELECT 1 FROM payout_attempts
        WHERE payout_id = NEW.payout_id AND line = NEW.line AND number = NEW.number)
    OR EXISTS (SELECT 1 FROM payout_attempts WHERE transaction_id = NEW.transaction_id)
BEGIN SELECT RAISE(ABORT, 'rows of payout_attempts are never replaced'); END;

CREATE TRIGGER payout_holds_keep BEFORE DELETE ON payout_holds
BEGIN SELECT RAISE(ABORT, 'rows of payout_holds are never removed'); END;

CREATE TRIGGER payout_holds_unreplaced BEFORE INSERT ON payout_holds
WHEN EXISTS (SELECT 1 FROM payout_holds WHERE payout_id = NEW.payout_id AND number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'rows of payout_holds are never replaced'); END;

CREATE TRIGGER payout_holds_kept BEFORE UPDATE ON payout_holds
WHEN (NEW.payout_id, NEW.number, NEW.round, NEW.key_id, NEW.day, NEW.reserved_cents)
    IS NOT (OLD.payout_id, OLD.number, OLD.round, OLD.key_id, OLD.day, OLD.reserved_cents)
    OR NEW.released_cents < OLD.released_cents
BEGIN SELECT RAISE(ABORT, 'rows of payout_holds are never changed'); END;

-- A payout holds the money of its waiting rows on the main account of its client.
CREATE TRIGGER payouts_hold AFTER UPDATE OF held_cents ON payouts WHEN NEW.held_cents <> OLD.held_cents
BEGIN
    SELECT RAISE(ABORT, 'no_overdraft') WHERE NOT EXISTS (
        SELECT 1 FROM ledger_accounts WHERE client_id = NEW.client_id AND name = 'main');
    UPDATE ledger_accounts SET
        reserved_cents = reserved_cents + NEW.held_cents - OLD.held_cents,
        held_cents = held_cents + NEW.held_cents - OLD.held_cents
    WHERE client_id = NEW.client_id AND name = 'main';
END;

CREATE TRIGGER payouts_begin BEFORE INSERT ON payouts WHEN NEW.held_cents <> 0 OR NEW.round <> 1
BEGIN SELECT RAISE(ABORT, 'a payout begins with its first round and no money'); END;

-- An approval that is withdrawn, and a retry, make a payout a draft again.
CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts
WHEN (
    NEW.id, NEW.client_id, NEW.reference, NEW.description, NEW.request_digest, NEW.item_count,
    NEW.ready_count, NEW.invalid_count, NEW.total_amount_cents, NEW.created_by, NEW.people, NEW.created_at
) IS NOT (
    OLD.id, OLD.client_id, OLD.reference, OLD.description, OLD.request_digest, OLD.item_count,
    OLD.ready_count, OLD.invalid_count, OLD.total_amount_cents, OLD.created_by, OLD.people, OLD.created_at
)
OR NEW.round NOT IN (OLD.round, OLD.round + 1)
OR (NEW.round = OLD.round AND (
    (NEW.send_at, NEW.items_digest, NEW.round_by, NEW.round_people, NEW.round_count, NEW.round_amount_cents)
    IS NOT (OLD.send_at, OLD.items_digest, OLD.round_by, OLD.round_people, OLD.round_count, OLD.round_amount_cents)
    OR (OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS NOT OLD.cancelled_at)
    OR (OLD.completed_at IS NOT NULL AND NEW.completed_at IS NOT OLD.completed_at)))
OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NOT OLD.revoked_at)
OR (OLD.status <> 'draft' AND NEW.replaced_by IS NOT OLD.replaced_by)
OR (NEW.round = OLD.round AND NOT (OLD.status IN ('approved', 'running') AND NEW.status = 'draft') AND (
    (OLD.approved_by IS NOT NULL AND NEW.approved_by IS NOT OLD.approved_by)
    OR (OLD.approved_at IS NOT NULL
        AND (NEW.approved_at, NEW.key_id) IS NOT (OLD.approved_at, OLD.key_id))
    OR (OLD.approved_at IS NOT NULL AND NEW.approved_fee_cents IS NOT OLD.approved_fee_cents)
    OR (OLD.reserved_at IS NOT NULL AND NEW.reserved_at IS NOT OLD.reserved_at)
    OR (OLD.needs_money_at IS NOT NULL AND NEW.needs_money_at IS NOT OLD.needs_money_at)
    OR ((OLD.reserved_at IS NOT NULL OR OLD.status NOT IN ('draft', 'approved'))
        AND (NEW.total_fee_cents, NEW.round_fee_cents) IS NOT (OLD.total_fee_cents, OLD.round_fee_cents))))
BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END;

CREATE TRIGGER payouts_status BEFORE UPDATE OF status ON payouts
WHEN NEW.status <> OLD.status AND NOT (
    (OLD.status = 'draft' AND NEW.status IN ('approved', 'cancelled'))
    OR (OLD.status = 'draft' AND NEW.status = 'completed' AND NEW.round > 1)
    OR (OLD.status IN ('completed', 'cancelled') AND NEW.status = 'draft' AND NEW.round = OLD.round + 1)
    OR (OLD.status = 'approved' AND NEW.status IN ('draft', 'running', 'completed', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('draft', 'completed', 'cancelled')))
BEGIN SELECT RAISE(ABORT, 'the status of a payout never goes back'); END;

CREATE TRIGGER payouts_key_limit BEFORE UPDATE OF key_limit_cents ON payouts
WHEN OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL AND NEW.key_limit_cents IS NOT OLD.key_limit_cents
BEGIN SELECT RAISE(ABORT, 'who sends a payment is never edited'); END;

CREATE TRIGGER payouts_bound BEFORE UPDATE ON payouts FOR EACH ROW
WHEN OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL AND NEW.counted_key_id IS NOT OLD.counted_key_id
BEGIN SELECT RAISE(ABORT, 'the key that a payout counts for is never edited'); END;

CREATE TRIGGER payout_approvals_given BEFORE UPDATE ON payout_approvals
WHEN (
    NEW.id, NEW.payout_id, NEW.round, NEW.made_by, NEW.people, NEW.key_id, NEW.operators, NEW.note, NEW.total_fee_cents,
    NEW.created_at
) IS NOT (
    OLD.id, OLD.payout_id, OLD.round, OLD.made_by, OLD.people, OLD.key_id, OLD.operators, OLD.note, OLD.total_fee_cents,
    OLD.created_at
)
OR (OLD.withdrawn_at IS NOT NULL AND NEW.withdrawn_at IS NOT OLD.withdrawn_at)
BEGIN SELECT RAISE(ABORT, 'rows of payout_approvals are never changed'); END;

-- Pending events have a table of their own, which is empty most of the time, so the relay reads few rows.
CREATE TRIGGER events_queue AFTER INSERT ON events
BEGIN INSERT INTO pending_events (event_id) VALUES (NEW.id); END;
