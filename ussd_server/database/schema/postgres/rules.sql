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

CREATE TRIGGER payout_approvals_keep BEFORE DELETE ON payout_approvals FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_approvals_keep_all BEFORE TRUNCATE ON payout_approvals EXECUTE FUNCTION refuse_change();

CREATE TRIGGER approval_rules_keep BEFORE DELETE ON approval_rules FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER approval_rules_keep_all BEFORE TRUNCATE ON approval_rules EXECUTE FUNCTION refuse_change();

CREATE TRIGGER movement_receipts_keep BEFORE DELETE ON movement_receipts
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER movement_receipts_keep_all BEFORE TRUNCATE ON movement_receipts EXECUTE FUNCTION refuse_change();

CREATE TRIGGER audit_events_keep BEFORE DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER audit_events_keep_all BEFORE TRUNCATE ON audit_events EXECUTE FUNCTION refuse_change();

CREATE TRIGGER row_signatures_keep BEFORE DELETE ON row_signatures FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER row_signatures_keep_all BEFORE TRUNCATE ON row_signatures EXECUTE FUNCTION refuse_change();

CREATE TRIGGER movements_keep BEFORE DELETE ON movements FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER movements_keep_all BEFORE TRUNCATE ON movements EXECUTE FUNCTION refuse_change();

CREATE TRIGGER movement_uses_keep BEFORE UPDATE OR DELETE ON movement_uses
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER movement_uses_keep_all BEFORE TRUNCATE ON movement_uses EXECUTE FUNCTION refuse_change();

CREATE TRIGGER menu_versions_keep BEFORE UPDATE OR DELETE ON menu_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER menu_versions_keep_all BEFORE TRUNCATE ON menu_versions EXECUTE FUNCTION refuse_change();

CREATE TRIGGER closed_days_unedited BEFORE UPDATE ON closed_days FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER closed_days_keep BEFORE DELETE ON closed_days FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER closed_days_keep_all BEFORE TRUNCATE ON closed_days EXECUTE FUNCTION refuse_change();

-- The lines of a closed day's statements stay as they are.
CREATE FUNCTION keep_proven_lines() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM day_proofs WHERE day = OLD.day
        AND statements LIKE '%' || OLD.statement_id || '%') THEN
        RAISE EXCEPTION 'rows of % are never removed once their day is closed', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER statement_days_unedited BEFORE UPDATE ON statement_days
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER statement_days_keep BEFORE DELETE ON statement_days
    FOR EACH ROW EXECUTE FUNCTION keep_proven_lines();

CREATE TRIGGER statement_days_keep_all BEFORE TRUNCATE ON statement_days EXECUTE FUNCTION refuse_change();

-- Only the digest itself may change, when a master key is rotated.
CREATE TRIGGER day_proofs_unedited BEFORE UPDATE ON day_proofs
    FOR EACH ROW WHEN (
        (NEW.id, NEW.account, NEW.day, NEW.statements, NEW.first_at, NEW.last_at, NEW.content)
        IS DISTINCT FROM
        (OLD.id, OLD.account, OLD.day, OLD.statements, OLD.first_at, OLD.last_at, OLD.content))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER day_proofs_keep BEFORE DELETE ON day_proofs FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER day_proofs_keep_all BEFORE TRUNCATE ON day_proofs EXECUTE FUNCTION refuse_change();

CREATE TRIGGER history_digests_unedited BEFORE UPDATE ON history_digests
    FOR EACH ROW WHEN (NEW.clients <> OLD.clients) EXECUTE FUNCTION refuse_change();

CREATE TRIGGER history_digests_keep BEFORE DELETE ON history_digests
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER history_digests_keep_all BEFORE TRUNCATE ON history_digests EXECUTE FUNCTION refuse_change();

CREATE TRIGGER events_unedited BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER events_keep BEFORE DELETE ON events
    FOR EACH ROW WHEN (OLD.type LIKE 'transaction.%') EXECUTE FUNCTION refuse_change();

CREATE TRIGGER events_keep_all BEFORE TRUNCATE ON events EXECUTE FUNCTION refuse_change();

-- Who someone is, what they did, and which codes and accounts a client has: what never changes.
CREATE TRIGGER api_keys_fixed BEFORE UPDATE ON api_keys
    FOR EACH ROW WHEN (
        (NEW.id, NEW.client_id, NEW.apikey, NEW.created_by)
        IS DISTINCT FROM
        (OLD.id, OLD.client_id, OLD.apikey, OLD.created_by))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER audit_events_fixed BEFORE UPDATE ON audit_events
    FOR EACH ROW WHEN (
        (NEW.id, NEW.client_id, NEW.user_id, NEW.actor, NEW.action, NEW.object_id, NEW.address,
         NEW.request_id, NEW.created_at, NEW.operator, NEW.reason, NEW.key_id, NEW.amount_cents,
         NEW.phone_number, NEW.decided_by)
        IS DISTINCT FROM
        (OLD.id, OLD.client_id, OLD.user_id, OLD.actor, OLD.action, OLD.object_id, OLD.address,
         OLD.request_id, OLD.created_at, OLD.operator, OLD.reason, OLD.key_id, OLD.amount_cents,
         OLD.phone_number, OLD.decided_by))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER bank_accounts_fixed BEFORE UPDATE ON bank_accounts
    FOR EACH ROW WHEN (
        (NEW.client_id)
        IS DISTINCT FROM
        (OLD.client_id))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payment_code_prefixes_fixed BEFORE UPDATE ON payment_code_prefixes
    FOR EACH ROW WHEN (
        (NEW.client_id, NEW.prefix)
        IS DISTINCT FROM
        (OLD.client_id, OLD.prefix))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payment_codes_fixed BEFORE UPDATE ON payment_codes
    FOR EACH ROW WHEN (
        (NEW.id, NEW.client_id, NEW.code, NEW.created_at)
        IS DISTINCT FROM
        (OLD.id, OLD.client_id, OLD.code, OLD.created_at))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER bank_accounts_confirmed BEFORE UPDATE ON bank_accounts
    FOR EACH ROW WHEN (OLD.confirmed_at IS NOT NULL AND NEW.confirmed_at IS NOT NULL
        AND (NEW.bank, NEW.number, NEW.name, NEW.confirmed_by) IS DISTINCT FROM
            (OLD.bank, OLD.number, OLD.name, OLD.confirmed_by))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payment_codes_used BEFORE UPDATE ON payment_codes
    FOR EACH ROW WHEN (OLD.used_at IS NOT NULL AND NEW.used_at IS DISTINCT FROM OLD.used_at
        AND NOT (OLD.single_use AND NEW.used_at IS NULL))
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER users_password_seen_by BEFORE UPDATE ON users
    FOR EACH ROW WHEN (
        NEW.password_seen_by IS DISTINCT FROM OLD.password_seen_by AND NEW.password_hash = OLD.password_hash)
    EXECUTE FUNCTION refuse_change();

-- A receipt keeps what has it, until two movements prove to be one, or its payment gets a movement of its own.
CREATE FUNCTION guard_movement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'money that moved is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER movement_receipts_lasting BEFORE UPDATE ON movement_receipts
    FOR EACH ROW WHEN ((NEW.account, NEW.direction, NEW.receipt, NEW.written)
            IS DISTINCT FROM (OLD.account, OLD.direction, OLD.receipt, OLD.written)
        OR (OLD.movement_id IS NOT NULL AND NEW.movement_id IS NULL))
    EXECUTE FUNCTION guard_movement();

CREATE FUNCTION guard_receipt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM movement_uses
        WHERE movement_id = NEW.movement_id AND transaction_id = OLD.transaction_id) THEN
        RAISE EXCEPTION 'money that moved is never edited' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER movement_receipts_pass BEFORE UPDATE ON movement_receipts
    FOR EACH ROW WHEN (OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS DISTINCT FROM OLD.transaction_id)
    EXECUTE FUNCTION guard_receipt();

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
        NEW.id, NEW.client_id, NEW.type, NEW.phone_number, NEW.to_phone_number, NEW.amount_cents,
        NEW.fee_cents, NEW.currency, NEW.account, NEW.provider, NEW.provider_reference, NEW.unsent_before, NEW.reference,
        NEW.idempotency_key, NEW.request_digest, NEW.session_id, NEW.confirmation, NEW.refund_of, NEW.created_at, NEW.key_id,
        NEW.origin
    ) IS DISTINCT FROM (
        OLD.id, OLD.client_id, OLD.type, OLD.phone_number, OLD.to_phone_number, OLD.amount_cents,
        OLD.fee_cents, OLD.currency, OLD.account, OLD.provider, OLD.provider_reference, OLD.unsent_before, OLD.reference,
        OLD.idempotency_key, OLD.request_digest, OLD.session_id, OLD.confirmation, OLD.refund_of, OLD.created_at, OLD.key_id,
        OLD.origin
    ) OR (NEW.provider_account IS DISTINCT FROM OLD.provider_account
        AND (OLD.sent_to IS NOT NULL OR OLD.status IN ('succeeded', 'reversed'))) THEN
        RAISE EXCEPTION 'what a transaction promised is never edited' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.status <> OLD.status AND NOT (
        (OLD.status IN ('created', 'submitted', 'pending', 'ambiguous') AND NEW.status NOT IN ('created', 'reversed')
            AND (NEW.status <> 'submitted' OR OLD.status = 'created'))
        OR (OLD.status = 'failed' AND NEW.status = 'succeeded' AND NEW.late)
        OR (OLD.status = 'succeeded' AND NEW.status = 'reversed')
        -- What gave its money back is taken out of the books.
        OR (OLD.status = 'reversed' AND NEW.status = 'succeeded' AND OLD.type = 'collection'
            AND OLD.released_at IS NULL)) THEN
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

CREATE TRIGGER transactions_fixed BEFORE UPDATE ON transactions
    FOR EACH ROW WHEN (
        (NEW.callback_url, NEW.description, NEW.metadata, NEW.effect, NEW.corrects, NEW.reason) IS DISTINCT FROM
        (OLD.callback_url, OLD.description, OLD.metadata, OLD.effect, OLD.corrects, OLD.reason)
        OR (OLD.released_at IS NOT NULL AND NEW.released_at IS DISTINCT FROM OLD.released_at))
    EXECUTE FUNCTION refuse_change();

CREATE FUNCTION guard_sender() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'who sends a payment is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER transactions_sender BEFORE UPDATE OF user_id, menu_id, menu_version ON transactions
    FOR EACH ROW WHEN (
        (NEW.user_id, NEW.menu_id, NEW.menu_version) IS DISTINCT FROM (OLD.user_id, OLD.menu_id, OLD.menu_version))
    EXECUTE FUNCTION guard_sender();

-- A payment that is final, and a settlement that waits for a person, are never due again.
CREATE TRIGGER transactions_rest BEFORE UPDATE ON transactions
    FOR EACH ROW WHEN (NEW.due_at IS NOT NULL AND (
        (NEW.status IN ('succeeded', 'reversed') AND NEW.status = OLD.status)
        OR (NEW.type = 'settlement' AND NEW.due_at <> '9999-01-01T00:00:00.000Z')))
    EXECUTE FUNCTION refuse_change();

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

-- A movement stays as it was told, and is used once at a time: by the last row of its uses.
CREATE TRIGGER movements_promise BEFORE UPDATE ON movements
    FOR EACH ROW WHEN ((NEW.id, NEW.account, NEW.direction, NEW.amount_cents, NEW.receipt, NEW.created_at)
            IS DISTINCT FROM (OLD.id, OLD.account, OLD.direction, OLD.amount_cents, OLD.receipt, OLD.created_at)
        OR ((NEW.use_kind, NEW.transaction_id, NEW.counterpart, NEW.same_as)
            IS DISTINCT FROM (OLD.use_kind, OLD.transaction_id, OLD.counterpart, OLD.same_as)
            AND pg_trigger_depth() = 0))
    EXECUTE FUNCTION guard_movement();

CREATE FUNCTION use_movement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE movements SET
        use_kind = CASE WHEN NEW.kind NOT IN ('release', 'same') THEN NEW.kind END,
        transaction_id = CASE WHEN NEW.kind <> 'release' THEN NEW.transaction_id END,
        counterpart = CASE NEW.kind WHEN 'returned' THEN NEW.other_id END,
        same_as = CASE NEW.kind WHEN 'same' THEN NEW.other_id END
    WHERE id = NEW.movement_id AND (use_kind IS NULL AND same_as IS NULL) = (NEW.kind <> 'release');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a movement is used once at a time' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.kind = 'release' THEN
        UPDATE movements SET counterpart = NULL WHERE counterpart = NEW.movement_id;
    ELSIF NEW.kind = 'returned' AND NEW.other_id IS NOT NULL THEN
        UPDATE movements AS first SET counterpart = second.id FROM movements AS second
        WHERE first.id = NEW.other_id AND second.id = NEW.movement_id AND first.use_kind = 'returned'
            AND first.counterpart IS NULL AND first.direction <> second.direction
            AND (first.account, first.amount_cents) = (second.account, second.amount_cents);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a movement is given back once, by its amount in the other direction'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER movement_uses_apply AFTER INSERT ON movement_uses FOR EACH ROW EXECUTE FUNCTION use_movement();

CREATE FUNCTION require_movement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM movements WHERE transaction_id = NEW.id AND amount_cents = NEW.amount_cents) THEN
        RAISE EXCEPTION 'a payment of a payer, and a correction, use a movement' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER transactions_of_payers AFTER INSERT ON transactions
    FOR EACH ROW WHEN (NEW.origin = 'payer' OR (NEW.type = 'correction' AND NEW.provider IS NOT NULL))
    EXECUTE FUNCTION require_movement();

-- The judged columns of a payout's rows stay as the approver saw them.
CREATE FUNCTION guard_payout_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was judged of a payout is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items
    FOR EACH ROW WHEN ((
            NEW.payout_id, NEW.line, NEW.phone_number, NEW.amount_cents, NEW.amount_text, NEW.provider,
            NEW.reference, NEW.description, NEW.name, NEW.is_ready, NEW.problems
        ) IS DISTINCT FROM (
            OLD.payout_id, OLD.line, OLD.phone_number, OLD.amount_cents, OLD.amount_text, OLD.provider,
            OLD.reference, OLD.description, OLD.name, OLD.is_ready, OLD.problems
        )
        OR (NEW.transaction_id IS DISTINCT FROM OLD.transaction_id
            AND (NEW.transaction_id IS NULL OR NEW.waits))
        OR (OLD.waits AND NEW.fee_cents <> OLD.fee_cents)
        OR ((NEW.round, NEW.attempt) IS DISTINCT FROM (OLD.round, OLD.attempt)
            AND (NEW.round <= OLD.round OR NEW.attempt NOT IN (OLD.attempt, OLD.attempt + 1))))
    EXECUTE FUNCTION guard_payout_item();

CREATE TRIGGER payout_attempts_keep BEFORE UPDATE OR DELETE ON payout_attempts
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_attempts_keep_all BEFORE TRUNCATE ON payout_attempts EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_holds_keep BEFORE DELETE ON payout_holds FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_holds_keep_all BEFORE TRUNCATE ON payout_holds EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_holds_kept BEFORE UPDATE ON payout_holds
    FOR EACH ROW WHEN ((
            NEW.payout_id, NEW.number, NEW.round, NEW.key_id, NEW.day, NEW.reserved_cents
        ) IS DISTINCT FROM (
            OLD.payout_id, OLD.number, OLD.round, OLD.key_id, OLD.day, OLD.reserved_cents
        )
        OR NEW.released_cents < OLD.released_cents)
    EXECUTE FUNCTION refuse_change();

-- A payout holds the money of its waiting rows on the main account of its client.
CREATE FUNCTION hold_for_payout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_accounts SET
        reserved_cents = reserved_cents + NEW.held_cents - OLD.held_cents,
        held_cents = held_cents + NEW.held_cents - OLD.held_cents
    WHERE client_id = NEW.client_id AND name = 'main';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no_overdraft' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER payouts_hold AFTER UPDATE OF held_cents ON payouts
    FOR EACH ROW WHEN (NEW.held_cents <> OLD.held_cents) EXECUTE FUNCTION hold_for_payout();

CREATE TRIGGER payouts_begin BEFORE INSERT ON payouts
    FOR EACH ROW WHEN (NEW.held_cents <> 0 OR NEW.round <> 1) EXECUTE FUNCTION refuse_change();

-- An approval that is withdrawn, and a retry, make a payout a draft again.
CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN ((
            NEW.id, NEW.client_id, NEW.reference, NEW.description, NEW.request_digest, NEW.item_count,
            NEW.ready_count, NEW.invalid_count, NEW.total_amount_cents, NEW.created_by, NEW.people,
            NEW.created_at
        ) IS DISTINCT FROM (
            OLD.id, OLD.client_id, OLD.reference, OLD.description, OLD.request_digest, OLD.item_count,
            OLD.ready_count, OLD.invalid_count, OLD.total_amount_cents, OLD.created_by, OLD.people,
            OLD.created_at
        )
        OR NEW.round NOT IN (OLD.round, OLD.round + 1)
        OR (NEW.round = OLD.round AND (
            (NEW.send_at, NEW.items_digest, NEW.round_by, NEW.round_people, NEW.round_count, NEW.round_amount_cents)
            IS DISTINCT FROM
            (OLD.send_at, OLD.items_digest, OLD.round_by, OLD.round_people, OLD.round_count, OLD.round_amount_cents)
            OR (OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS DISTINCT FROM OLD.cancelled_at)
            OR (OLD.completed_at IS NOT NULL AND NEW.completed_at IS DISTINCT FROM OLD.completed_at)))
        OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
        OR (OLD.status <> 'draft' AND NEW.replaced_by IS DISTINCT FROM OLD.replaced_by)
        OR (NEW.round = OLD.round AND NOT (OLD.status IN ('approved', 'running') AND NEW.status = 'draft') AND (
            (OLD.approved_by IS NOT NULL AND NEW.approved_by IS DISTINCT FROM OLD.approved_by)
            OR (OLD.approved_at IS NOT NULL
                AND (NEW.approved_at, NEW.key_id) IS DISTINCT FROM (OLD.approved_at, OLD.key_id))
            OR (OLD.approved_at IS NOT NULL AND NEW.approved_fee_cents IS DISTINCT FROM OLD.approved_fee_cents)
            OR (OLD.reserved_at IS NOT NULL AND NEW.reserved_at IS DISTINCT FROM OLD.reserved_at)
            OR (OLD.needs_money_at IS NOT NULL AND NEW.needs_money_at IS DISTINCT FROM OLD.needs_money_at)
            OR ((OLD.reserved_at IS NOT NULL OR OLD.status NOT IN ('draft', 'approved'))
                AND (NEW.total_fee_cents, NEW.round_fee_cents)
                    IS DISTINCT FROM (OLD.total_fee_cents, OLD.round_fee_cents)))))
    EXECUTE FUNCTION guard_payout_item();

CREATE FUNCTION guard_payout_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the status of a payout never goes back' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER payouts_status BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN (NEW.status <> OLD.status AND NOT (
        (OLD.status = 'draft' AND NEW.status IN ('approved', 'cancelled'))
        OR (OLD.status = 'draft' AND NEW.status = 'completed' AND NEW.round > 1)
        OR (OLD.status IN ('completed', 'cancelled') AND NEW.status = 'draft' AND NEW.round = OLD.round + 1)
        OR (OLD.status = 'approved' AND NEW.status IN ('draft', 'running', 'completed', 'cancelled'))
        OR (OLD.status = 'running' AND NEW.status IN ('draft', 'completed', 'cancelled'))))
    EXECUTE FUNCTION guard_payout_status();

CREATE TRIGGER payouts_key_limit BEFORE UPDATE OF key_limit_cents ON payouts
    FOR EACH ROW WHEN (
        OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL
        AND NEW.key_limit_cents IS DISTINCT FROM OLD.key_limit_cents)
    EXECUTE FUNCTION guard_sender();

CREATE TRIGGER payouts_bound BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN (OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL
        AND NEW.counted_key_id IS DISTINCT FROM OLD.counted_key_id)
    EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_approvals_given BEFORE UPDATE ON payout_approvals
    FOR EACH ROW WHEN ((
            NEW.id, NEW.payout_id, NEW.round, NEW.made_by, NEW.people, NEW.key_id, NEW.operators, NEW.note,
            NEW.total_fee_cents, NEW.created_at
        ) IS DISTINCT FROM (
            OLD.id, OLD.payout_id, OLD.round, OLD.made_by, OLD.people, OLD.key_id, OLD.operators, OLD.note,
            OLD.total_fee_cents, OLD.created_at
        )
        OR (OLD.withdrawn_at IS NOT NULL AND NEW.withdrawn_at IS DISTINCT FROM OLD.withdrawn_at))
    EXECUTE FUNCTION refuse_change();

-- Pending events have a table of their own, which is empty most of the time, so the relay reads few rows.
CREATE FUNCTION queue_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pending_events (event_id) VALUES (NEW.id);
    RETURN NULL;
END $$;

CREATE TRIGGER events_queue AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION queue_event();
