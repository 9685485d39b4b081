-- Functions that write a whole batch in one call. They find rows by whole keys, so the best plan is the same for all
-- values: PostgreSQL keeps one generic plan. `enable_seqscan = off` makes it use the index of a table of one page too,
-- also for foreign keys. Look-ups are subqueries, because the planner expects a list to be long and would read whole
-- tables for it.

-- Count what keys pay, and refuse more than their daily limits, as the limits are in the database now.
CREATE FUNCTION keys_spend(spending jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO key_spending AS kept (key_id, day, spent_cents)
        SELECT key_id, day, sum(cents)
        FROM jsonb_to_recordset(spending) AS paid (key_id uuid, day text, cents bigint)
        GROUP BY key_id, day ORDER BY key_id, day
        ON CONFLICT (key_id, day) DO UPDATE SET spent_cents = kept.spent_cents + excluded.spent_cents;
    IF EXISTS (
        SELECT 1 FROM jsonb_to_recordset(spending) AS paid (key_id uuid, day text, limit_cents bigint)
        WHERE (SELECT spent_cents FROM key_spending AS kept WHERE kept.key_id = paid.key_id AND kept.day = paid.day)
            > least(limit_cents, (SELECT daily_limit_cents FROM api_keys WHERE id = paid.key_id))
    ) THEN
        RAISE EXCEPTION 'daily_limit_reached' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
END $$;

-- Lock names, days of keys, new accounts, accounts, always in this order: no deadlock. Movements lock their accounts here;
-- reservations lock none.
CREATE FUNCTION ledger_post(batch jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    IF jsonb_array_length(batch -> 'spending') > 0 THEN
        PERFORM keys_spend(batch -> 'spending');
    END IF;
    INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
        SELECT DISTINCT ON (client_id, name) id, client_id, name, kind, 'UGX', 0, 0, created_at
        FROM jsonb_to_recordset(batch -> 'accounts')
            AS wanted (id uuid, client_id uuid, name text, kind text, created_at timestamptz)
        WHERE (
            SELECT id FROM ledger_accounts AS known
            WHERE known.client_id = wanted.client_id AND known.name = wanted.name) IS NULL
        ORDER BY client_id, name
        ON CONFLICT DO NOTHING;
    IF EXISTS (
        SELECT 1 FROM jsonb_to_recordset(batch -> 'legs') AS leg (kind text) WHERE kind IN ('move', 'post')
    ) THEN
        PERFORM 1 FROM ledger_accounts
            WHERE id = ANY (ARRAY(
                SELECT (
                    SELECT id FROM ledger_accounts AS known
                    WHERE known.client_id = wanted.client_id AND known.name = wanted.name)
                FROM jsonb_to_recordset(batch -> 'accounts') AS wanted (client_id uuid, name text)))
            ORDER BY id FOR NO KEY UPDATE;
    END IF;
    INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
            amount_cents, hold_id, created_at)
        SELECT id, client_id, transaction_id, kind, purpose,
            (SELECT id FROM ledger_accounts AS known WHERE known.client_id = leg.client_id AND known.name = leg.debit),
            (SELECT id FROM ledger_accounts AS known WHERE known.client_id = leg.client_id AND known.name = leg.credit),
            amount_cents, hold_id, created_at
        FROM jsonb_to_recordset(batch -> 'legs') AS leg (id uuid, client_id uuid, transaction_id uuid, kind text,
            purpose text, debit text, credit text, amount_cents bigint, hold_id uuid, created_at timestamptz);
END $$;

-- Attempts to pay rows of one payout: each row has its transaction and waits no more, and the payout holds less.
CREATE FUNCTION payout_attempt(attempts jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO payout_attempts SELECT * FROM jsonb_populate_recordset(NULL::payout_attempts, attempts);
    UPDATE payout_items SET waits = false, transaction_id = (
            SELECT made.transaction_id FROM payout_attempts AS made WHERE made.payout_id = payout_items.payout_id
                AND made.line = payout_items.line AND made.number = payout_items.attempt)
        WHERE payout_id = (attempts -> 0 ->> 'payout_id')::uuid
            AND line = ANY (ARRAY(SELECT (made ->> 'line')::integer FROM jsonb_array_elements(attempts) AS made));
    UPDATE payouts SET held_cents = held_cents
            - (SELECT sum((made ->> 'cents')::bigint) FROM jsonb_array_elements(attempts) AS made)
        WHERE id = (attempts -> 0 ->> 'payout_id')::uuid;
END $$;

-- Transactions with their status changes, events, attempts and transfers; those in `settled` are complete at once.
CREATE FUNCTION transactions_record(batch jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM jsonb_to_recordset(batch -> 'fees')
            AS believed (client_id uuid, type text, fixed_cents bigint, share_basis_points integer)
        WHERE fixed_cents <> coalesce((SELECT agreed.fixed_cents FROM fees AS agreed
                WHERE agreed.client_id = believed.client_id AND agreed.type = believed.type), 0)
            OR share_basis_points <> coalesce((SELECT agreed.share_basis_points FROM fees AS agreed
                WHERE agreed.client_id = believed.client_id AND agreed.type = believed.type), 0)
    ) THEN
        RAISE EXCEPTION 'another_fee_was_agreed' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    INSERT INTO transactions SELECT * FROM jsonb_populate_recordset(NULL::transactions, batch -> 'transactions');
    INSERT INTO transaction_events
        SELECT * FROM jsonb_populate_recordset(NULL::transaction_events, batch -> 'changes');
    INSERT INTO events SELECT * FROM jsonb_populate_recordset(NULL::events, batch -> 'events');
    IF jsonb_array_length(batch -> 'attempts') > 0 THEN
        PERFORM payout_attempt(batch -> 'attempts');
    END IF;
    IF jsonb_array_length(batch -> 'legs') > 0 THEN
        PERFORM ledger_post(batch);
    END IF;
    IF jsonb_array_length(batch -> 'settled') > 0 THEN
        UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL
            WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(batch -> 'settled')::uuid));
    END IF;
END $$;

-- Writes steps in the order of the sessions' ids: two processes with the same sessions cannot deadlock. The key alone
-- selects a row. The status is inside the CASE, so that the planner does not use the index of active sessions.
CREATE FUNCTION ussd_step(steps jsonb) RETURNS SETOF bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    step record;
    next ussd_sessions;
BEGIN
    FOR step IN
        SELECT value, place, value ->> 'proof' AS proof
        FROM jsonb_array_elements(steps) WITH ORDINALITY AS brought (value, place)
        ORDER BY value ->> 'id', place
    LOOP
        next := jsonb_populate_record(NULL::ussd_sessions, step.value);
        IF step.proof = 'new' THEN
            INSERT INTO ussd_sessions SELECT next.* ON CONFLICT DO NOTHING;
        ELSE
            UPDATE ussd_sessions AS kept SET
                turns = next.turns, turn = next.turn, state = next.state, node = next.node, language = next.language,
                message = next.message, transaction_id = next.transaction_id, last_seen_at = next.last_seen_at,
                expires_at = next.expires_at, status = next.status, end_reason = next.end_reason,
                ended_at = next.ended_at, action = next.action, working_token = next.working_token,
                working_until = next.working_until
            WHERE kept.id = next.id
                AND CASE
                    WHEN kept.status <> 'active' THEN false
                    WHEN step.proof = 'claimed' THEN kept.working_token = step.value ->> 'my_token'
                    ELSE kept.turn = (step.value ->> 'turn_read')::integer
                        AND (kept.working_until IS NULL OR kept.working_until <= next.last_seen_at)
                    END
                AND (step.proof <> 'cached' OR
                    EXISTS (SELECT 1 FROM channels WHERE channels.id = next.channel_id AND channels.is_active)
                    AND EXISTS (SELECT 1 FROM clients WHERE clients.id = next.client_id AND clients.is_active));
        END IF;
        CONTINUE WHEN NOT FOUND;
        RETURN NEXT step.place;
        IF step.value ? 'event' THEN
            INSERT INTO events (id, client_id, type, object_id, sequence, payload, created_at, traceparent)
            SELECT ended.id, ended.client_id, ended.type, ended.object_id,
                (SELECT coalesce(max(events.sequence), 0) + 1 FROM events WHERE events.object_id = ended.object_id),
                ended.payload, ended.created_at, ended.traceparent
            FROM jsonb_populate_record(NULL::events, step.value -> 'event') AS ended;
        END IF;
        IF step.value ? 'language_chosen' THEN
            INSERT INTO subscriber_languages (client_id, phone_number, language)
            VALUES (next.client_id, next.phone_number, step.value ->> 'language_chosen')
            ON CONFLICT (client_id, phone_number) DO UPDATE SET language = excluded.language;
        END IF;
    END LOOP;
END $$;
