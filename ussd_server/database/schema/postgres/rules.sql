-- The changes that are allowed to money and its records. PostgreSQL refuses all others, also those typed into psql.

-- Evidence: the rows of these tables are never updated or deleted.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER transactions_keep BEFORE DELETE ON transactions FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER transactions_keep_all BEFORE TRUNCATE ON transactions EXECUTE FUNCTION refuse_change();

CREATE TRIGGER transaction_events_keep BEFORE UPDATE OR DELETE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER transaction_events_keep_all BEFORE TRUNCATE ON transaction_events EXECUTE FUNCTION refuse_change();

CREATE TRIGGER idempotency_keys_keep BEFORE UPDATE OR DELETE ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER idempotency_keys_keep_all BEFORE TRUNCATE ON idempotency_keys EXECUTE FUNCTION refuse_change();

CREATE TRIGGER ledger_accounts_keep BEFORE DELETE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER ledger_accounts_keep_all BEFORE TRUNCATE ON ledger_accounts EXECUTE FUNCTION refuse_change();

CREATE TRIGGER ledger_transfers_keep BEFORE UPDATE OR DELETE ON ledger_transfers
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER ledger_transfers_keep_all BEFORE TRUNCATE ON ledger_transfers EXECUTE FUNCTION refuse_change();

CREATE TRIGGER ledger_entries_keep BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER ledger_entries_keep_all BEFORE TRUNCATE ON ledger_entries EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payouts_keep BEFORE DELETE ON payouts FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payouts_keep_all BEFORE TRUNCATE ON payouts EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_items_keep BEFORE DELETE ON payout_items FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_items_keep_all BEFORE TRUNCATE ON payout_items EXECUTE FUNCTION refuse_change();

CREATE TRIGGER incoming_payments_keep BEFORE DELETE ON incoming_payments
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER incoming_payments_keep_all BEFORE TRUNCATE ON incoming_payments EXECUTE FUNCTION refuse_change();

CREATE TRIGGER menu_versions_keep BEFORE UPDATE OR DELETE ON menu_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER menu_versions_keep_all BEFORE TRUNCATE ON menu_versions EXECUTE FUNCTION refuse_change();

-- Only the digest itself may change, when a master key is rotated.
CREATE TRIGGER history_digests_unedited BEFORE UPDATE ON history_digests
    FOR EACH ROW WHEN (NEW.clients <> OLD.clients) EXECUTE FUNCTION refuse_change();

CREATE TRIGGER history_digests_keep BEFORE DELETE ON history_digests
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER history_digests_keep_all BEFORE TRUNCATE ON history_digests EXECUTE FUNCTION refuse_change();

CREATE TRIGGER events_unedited BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER events_keep BEFORE DELETE ON events
    FOR EACH ROW WHEN (OLD.type LIKE 'transaction.%') EXECUTE FUNCTION refuse_change();

CREATE TRIGGER events_keep_all BEFORE TRUNCATE ON events EXECUTE FUNCTION refuse_change();

-- A transaction keeps what it was recorded with: who, what, for whom, and every name that it can be found by. A final
-- state only moves as a provider's late success or a refund allows.
CREATE FUNCTION guard_new_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status <> 'created' THEN
        RAISE EXCEPTION 'a transaction begins as created' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER transactions_begin BEFORE INSERT ON transactions
    FOR EACH ROW WHEN (NEW.status <> 'created') EXECUTE FUNCTION guard_new_transaction();

CREATE FUNCTION guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (
        fixed(NEW, transactions)
    ) IS DISTINCT FROM (
        fixed(OLD, transactions)
    ) THEN
        RAISE EXCEPTION 'what a transaction promised is never edited' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.status <> OLD.status AND NOT (
        (OLD.status IN ('created', 'submitted', 'pending', 'ambiguous') AND NEW.status NOT IN ('created', 'reversed')
            AND (NEW.status <> 'submitted' OR OLD.status = 'created'))
        OR (OLD.status = 'failed' AND NEW.status = 'succeeded' AND NEW.late)
        OR (OLD.status = 'succeeded' AND NEW.status = 'reversed')) THEN
        RAISE EXCEPTION 'a final state stays final' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER transactions_guard BEFORE UPDATE ON transactions FOR EACH ROW EXECUTE FUNCTION guard_transaction();

CREATE FUNCTION guard_payout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a transaction never changes its payout' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER transactions_payout BEFORE UPDATE ON transactions
    FOR EACH ROW WHEN (NEW.payout_id IS DISTINCT FROM OLD.payout_id) EXECUTE FUNCTION guard_payout();

CREATE FUNCTION guard_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.sequence > 1 AND NOT EXISTS (
        SELECT 1 FROM transaction_events
        WHERE transaction_id = NEW.transaction_id AND sequence = NEW.sequence - 1) THEN
        RAISE EXCEPTION 'a status history has no gaps' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER transaction_events_follow BEFORE INSERT ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION guard_history();

CREATE FUNCTION bind_idempotency_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO idempotency_keys (client_id, key, transaction_id, created_at)
        VALUES (NEW.client_id, NEW.idempotency_key, NEW.id, NEW.created_at);
    RETURN NULL;
END $$;

CREATE TRIGGER transactions_bind_key AFTER INSERT ON transactions
    FOR EACH ROW WHEN (NEW.idempotency_key IS NOT NULL) EXECUTE FUNCTION bind_idempotency_key();

-- What came in stays as it was reported. A held payment is booked or returned once; both are final.
CREATE FUNCTION guard_incoming_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what came in is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER incoming_payments_promise BEFORE UPDATE ON incoming_payments
    FOR EACH ROW WHEN ((fixed(NEW, incoming_payments)) IS DISTINCT FROM (fixed(OLD, incoming_payments))
        OR (OLD.status <> 'held'
            AND (NEW.status, NEW.transaction_id) IS DISTINCT FROM (OLD.status, OLD.transaction_id)))
    EXECUTE FUNCTION guard_incoming_payment();

-- The judged columns of a payout's rows stay as the approver saw them.
CREATE FUNCTION guard_payout_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was judged of a payout is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items
    FOR EACH ROW WHEN ((fixed(NEW, payout_items)) IS DISTINCT FROM (fixed(OLD, payout_items))
    OR (OLD.transaction_id IS NOT NULL
        AND (NEW.transaction_id IS DISTINCT FROM OLD.transaction_id OR NEW.fee_cents IS DISTINCT FROM OLD.fee_cents)))
    EXECUTE FUNCTION guard_payout_item();

CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN ((fixed(NEW, payouts)) IS DISTINCT FROM (fixed(OLD, payouts))
    OR (OLD.items_digest IS NOT NULL AND NEW.items_digest IS DISTINCT FROM OLD.items_digest)
    OR (OLD.approved_by IS NOT NULL AND NEW.approved_by IS DISTINCT FROM OLD.approved_by)
    OR (OLD.approved_at IS NOT NULL AND (NEW.approved_at, NEW.key_id) IS DISTINCT FROM (OLD.approved_at, OLD.key_id))
    OR (OLD.reserved_at IS NOT NULL AND NEW.reserved_at IS DISTINCT FROM OLD.reserved_at)
    OR (OLD.needs_money_at IS NOT NULL AND NEW.needs_money_at IS DISTINCT FROM OLD.needs_money_at)
    OR (OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS DISTINCT FROM OLD.cancelled_at)
    OR (OLD.completed_at IS NOT NULL AND NEW.completed_at IS DISTINCT FROM OLD.completed_at)
    OR (OLD.status <> 'draft' AND NEW.replaced_by IS DISTINCT FROM OLD.replaced_by)
    OR ((OLD.reserved_at IS NOT NULL OR OLD.status NOT IN ('draft', 'approved'))
        AND NEW.total_fee_cents <> OLD.total_fee_cents))
    EXECUTE FUNCTION guard_payout_item();

CREATE FUNCTION guard_payout_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the status of a payout never goes back' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER payouts_status BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN (NEW.status <> OLD.status AND NOT (
        (OLD.status = 'draft' AND NEW.status IN ('approved', 'cancelled'))
        OR (OLD.status = 'approved' AND NEW.status IN ('running', 'completed', 'cancelled'))
        OR (OLD.status = 'running' AND NEW.status IN ('completed', 'cancelled'))))
    EXECUTE FUNCTION guard_payout_status();

-- Pending events have a table of their own, which is empty most of the time, so the relay reads few rows.
CREATE FUNCTION queue_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pending_events (event_id) VALUES (NEW.id);
    RETURN NULL;
END $$;

CREATE TRIGGER events_queue AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION queue_event();
