-- The ledger: only transfers move balances, and each moves exactly what its transaction promised.

-- The conditions are plain comparisons, without a function call, so they cost a payment almost nothing.
CREATE FUNCTION ledger_guard_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0 OR NEW.held_cents <> 0 THEN
            RAISE EXCEPTION 'an account begins empty' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'only a transfer and the hold of a payout change an account' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER ledger_accounts_begin_empty BEFORE INSERT ON ledger_accounts
    FOR EACH ROW WHEN (NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0 OR NEW.held_cents <> 0) EXECUTE FUNCTION ledger_guard_account();

CREATE TRIGGER ledger_accounts_guard BEFORE UPDATE ON ledger_accounts
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_guard_account();

-- Moves and posts, row by row. The accounts are locked by a query of their own, so that the checks see what a transfer
-- that held the lock has committed. Rows are selected by key only, and every subquery is a scalar: a connection keeps a
-- plan until the statistics change, and with a condition on the client PostgreSQL read all of its rows for each
-- transfer.
CREATE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own_accounts bigint;
    refusal text;
BEGIN
    -- Always in the order of the ids, so that two transfers between the same accounts cannot deadlock.
    SELECT count(*) FILTER (WHERE client_id = NEW.client_id) INTO own_accounts
        FROM (
            SELECT client_id FROM ledger_accounts WHERE id IN (NEW.debit_account_id, NEW.credit_account_id)
            ORDER BY id FOR NO KEY UPDATE
        ) AS locked;
    SELECT CASE
        WHEN own_accounts <> 2 THEN 'both accounts of a transfer belong to its client'
        WHEN (
            SELECT client_id = NEW.client_id
                AND NEW.amount_cents = CASE NEW.purpose WHEN 'amount' THEN amount_cents WHEN 'fee' THEN fee_cents
                    ELSE least(NEW.amount_cents, amount_cents + fee_cents) END
            FROM transactions WHERE id = NEW.transaction_id
        ) IS NOT TRUE THEN 'a transfer moves what its transaction promised'
        WHEN NEW.hold_id IS NOT NULL AND (
            SELECT held.kind = 'hold' AND held.transaction_id = NEW.transaction_id AND held.purpose = NEW.purpose
                AND held.debit_account_id = NEW.debit_account_id AND held.credit_account_id = NEW.credit_account_id
                AND held.amount_cents = NEW.amount_cents
            FROM ledger_transfers AS held WHERE held.id = NEW.hold_id
        ) IS NOT TRUE THEN 'a post or void repeats its hold'
        WHEN NEW.hold_id IS NULL AND EXISTS (
            SELECT 1 FROM ledger_transfers AS earlier
            WHERE earlier.transaction_id = NEW.transaction_id AND earlier.purpose = NEW.purpose AND earlier.id <> NEW.id
                AND earlier.kind = 'hold' AND NOT EXISTS (SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id))
            THEN 'a hold comes first and is ended before anything else moves'
        END INTO refusal;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    UPDATE ledger_accounts SET
        balance_cents = balance_cents - NEW.amount_cents,
        reserved_cents = reserved_cents - CASE NEW.kind WHEN 'post' THEN NEW.amount_cents ELSE 0 END
    WHERE id = NEW.debit_account_id;
    UPDATE ledger_accounts SET balance_cents = balance_cents + NEW.amount_cents WHERE id = NEW.credit_account_id;
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_transfers_apply AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.kind IN ('move', 'post')) EXECUTE FUNCTION ledger_apply();

-- Holds and voids, once for each statement. Only the debited account of a reservation changes, at the end of the
-- statement: its lock is held as briefly as possible, because other payments of the client need it.
CREATE FUNCTION ledger_reserve() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT debit_account_id AS id, sum(CASE kind WHEN 'hold' THEN amount_cents ELSE -amount_cents END) AS cents,
            min(CASE
                WHEN (
                    SELECT count(*) FILTER (WHERE client_id = made.client_id) FROM ledger_accounts
                    WHERE id IN (made.debit_account_id, made.credit_account_id)
                ) <> 2 THEN 'both accounts of a transfer belong to its client'
                WHEN (
                    SELECT client_id = made.client_id
                        AND made.amount_cents = CASE made.purpose WHEN 'amount' THEN amount_cents ELSE fee_cents END
                    FROM transactions WHERE id = made.transaction_id
                ) IS NOT TRUE THEN 'a transfer moves what its transaction promised'
                WHEN made.hold_id IS NOT NULL AND (
                    SELECT held.kind = 'hold' AND held.transaction_id = made.transaction_id AND held.purpose = made.purpose
                        AND held.debit_account_id = made.debit_account_id AND held.credit_account_id = made.credit_account_id
                        AND held.amount_cents = made.amount_cents
                    FROM ledger_transfers AS held WHERE held.id = made.hold_id
                ) IS NOT TRUE THEN 'a post or void repeats its hold'
                WHEN made.hold_id IS NULL AND (
                    SELECT 1 FROM ledger_transfers AS earlier
                    WHERE earlier.transaction_id = made.transaction_id AND earlier.purpose = made.purpose
                        AND earlier.id <> made.id LIMIT 1
                ) IS NOT NULL THEN 'a hold comes first and is ended before anything else moves'
                END) AS refusal
        FROM fresh AS made WHERE kind IN ('hold', 'void') GROUP BY debit_account_id ORDER BY debit_account_id
    LOOP
        IF change.refusal IS NOT NULL THEN
            RAISE EXCEPTION '%', change.refusal USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        UPDATE ledger_accounts SET reserved_cents = reserved_cents + change.cents WHERE id = change.id;
    END LOOP;
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_transfers_reserve AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ledger_reserve();

-- `posted_us` is the service's time in microseconds since 1970, read while the posting holds the lock of the account. No
-- other posting to that account can commit between, so the order of the entries is the order of the commits.
-- `posted_us` is at least the transfer's own time, because the database's clock may have been set back, and less than an
-- hour later, because it may have been set forward and no process has noticed that yet. The trigger's name sorts
-- after `ledger_transfers_apply`, so that the balances move first.
CREATE FUNCTION ledger_enter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
        SELECT id, greatest(
            least(
                (date_part('epoch', clock_timestamp()) * 1000000)::bigint + coalesce((
                    SELECT CASE WHEN ahead_ms = 0 THEN 0 ELSE sign(ahead_ms) * greatest(0, abs(ahead_ms) * 1000
                        - greatest(0, date_part('epoch', clock_timestamp() - decided_at)) * 10000) END
                    FROM service_clock WHERE service_clock.id = 1)::bigint, 0),
                (date_part('epoch', NEW.created_at) * 1000000)::bigint + 3599000000),
            (date_part('epoch', NEW.created_at) * 1000000)::bigint,
            1 + (SELECT posted_us FROM ledger_entries WHERE account_id = ledger_accounts.id
                ORDER BY posted_us DESC LIMIT 1)), NEW.id, balance_cents
        FROM ledger_accounts
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND kind IN ('main', 'subscriber');
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_transfers_enter AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.kind IN ('move', 'post')) EXECUTE FUNCTION ledger_enter();

CREATE TRIGGER ledger_entries_written_by_transfers BEFORE INSERT ON ledger_entries
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change();
