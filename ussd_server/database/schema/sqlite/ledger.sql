-- The ledger: only transfers move balances, and each moves exactly what its transaction promised.
-- SQLite cannot distinguish a trigger's update from a manual one. An account therefore names the transfer that changed
-- it last, by the transfer's position, which has no gaps. An update is accepted only for a later transfer, and only by
-- exactly that transfer's amounts.

CREATE TRIGGER ledger_transfers_rules BEFORE INSERT ON ledger_transfers BEGIN
    SELECT RAISE(ABORT, 'rows of ledger_transfers are never replaced') WHERE EXISTS (
        SELECT 1 FROM ledger_transfers
        WHERE id = NEW.id OR position = NEW.position OR hold_id = NEW.hold_id
            OR (transaction_id = NEW.transaction_id AND purpose = NEW.purpose
                AND (debit_account_id, credit_account_id) IS NOT (NEW.credit_account_id, NEW.debit_account_id)
                AND (kind = NEW.kind OR (kind IN ('move', 'post') AND NEW.kind IN ('move', 'post')))));
    SELECT RAISE(ABORT, 'both accounts of a transfer belong to its client') WHERE (
        SELECT count(*) FROM ledger_accounts
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND client_id = NEW.client_id) <> 2;
    SELECT RAISE(ABORT, 'a transfer moves what its transaction promised') WHERE NOT EXISTS (
        SELECT 1 FROM transactions WHERE id = NEW.transaction_id AND client_id = NEW.client_id
            AND NEW.amount_cents = CASE NEW.purpose WHEN 'amount' THEN amount_cents WHEN 'fee' THEN fee_cents
                ELSE min(NEW.amount_cents, amount_cents + fee_cents) END);
    SELECT RAISE(ABORT, 'a post or void repeats its hold') WHERE NEW.hold_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM ledger_transfers AS held WHERE held.id = NEW.hold_id AND held.kind = 'hold'
            AND held.transaction_id = NEW.transaction_id AND held.purpose = NEW.purpose
            AND held.debit_account_id = NEW.debit_account_id AND held.credit_account_id = NEW.credit_account_id
            AND held.amount_cents = NEW.amount_cents);
    SELECT RAISE(ABORT, 'a hold comes first and is ended before anything else moves')
        WHERE NEW.hold_id IS NULL AND EXISTS (
        SELECT 1 FROM ledger_transfers AS earlier
        WHERE earlier.transaction_id = NEW.transaction_id AND earlier.purpose = NEW.purpose AND earlier.id <> NEW.id
            AND (NEW.kind = 'hold' OR (earlier.kind = 'hold' AND NOT EXISTS (
                SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id))));
END;

CREATE TRIGGER ledger_transfers_apply AFTER INSERT ON ledger_transfers BEGIN
    SELECT RAISE(ABORT, 'the book has no gaps') WHERE NEW.position <> 1 + coalesce(
        (SELECT max(position) FROM ledger_transfers WHERE position <> NEW.position), 0);
    UPDATE ledger_accounts SET
        balance_cents = balance_cents - iif(NEW.kind IN ('move', 'post'), NEW.amount_cents, 0),
        reserved_cents = reserved_cents
            + CASE NEW.kind WHEN 'hold' THEN NEW.amount_cents WHEN 'move' THEN 0 ELSE -NEW.amount_cents END,
        last_transfer = NEW.position
    WHERE id = NEW.debit_account_id;
    UPDATE ledger_accounts SET
        balance_cents = balance_cents + iif(NEW.kind IN ('move', 'post'), NEW.amount_cents, 0),
        last_transfer = NEW.position
    WHERE id = NEW.credit_account_id;
END;

CREATE TRIGGER ledger_accounts_begin_empty BEFORE INSERT ON ledger_accounts
WHEN NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0 OR NEW.held_cents <> 0 OR NEW.last_transfer <> 0
BEGIN SELECT RAISE(ABORT, 'an account begins empty'); END;

-- The limits are checked here and raised by name: with a manual OR IGNORE, SQLite would skip the account whose CHECK
-- fails and still change the other one.
CREATE TRIGGER ledger_accounts_limits BEFORE UPDATE ON ledger_accounts BEGIN
    SELECT RAISE(ABORT, 'no_negative_reservation') WHERE NEW.reserved_cents < 0;
    SELECT RAISE(ABORT, 'no_overdraft') WHERE NEW.balance_cents - NEW.reserved_cents < 0
        AND NEW.kind NOT IN ('provider', 'deposits', 'shortfall');
END;

CREATE TRIGGER ledger_accounts_guard BEFORE UPDATE ON ledger_accounts
WHEN NEW.id IS NOT OLD.id OR NEW.client_id IS NOT OLD.client_id OR NEW.name IS NOT OLD.name OR NEW.kind IS NOT OLD.kind
    OR NEW.currency IS NOT OLD.currency OR NEW.created_at IS NOT OLD.created_at
    -- The hold of a payout: this part is the sum of what the client's payouts hold.
    OR NOT (NEW.name = 'main' AND NEW.last_transfer = OLD.last_transfer AND NEW.balance_cents = OLD.balance_cents
        AND NEW.reserved_cents - OLD.reserved_cents = NEW.held_cents - OLD.held_cents
        AND NEW.held_cents <> OLD.held_cents
        AND NEW.held_cents = (SELECT coalesce(sum(held_cents), 0) FROM payouts
            WHERE client_id = NEW.client_id AND held_cents > 0))
    AND NOT EXISTS (
        SELECT 1 FROM ledger_transfers AS made
        WHERE made.position = NEW.last_transfer AND made.position > OLD.last_transfer
            AND NEW.held_cents = OLD.held_cents AND (
            (made.debit_account_id = OLD.id
                AND NEW.balance_cents = OLD.balance_cents - iif(made.kind IN ('move', 'post'), made.amount_cents, 0)
                AND NEW.reserved_cents = OLD.reserved_cents
                    + CASE made.kind WHEN 'hold' THEN made.amount_cents WHEN 'move' THEN 0 ELSE -made.amount_cents END)
            OR (made.credit_account_id = OLD.id
                AND NEW.balance_cents = OLD.balance_cents + iif(made.kind IN ('move', 'post'), made.amount_cents, 0)
                AND NEW.reserved_cents = OLD.reserved_cents)))
BEGIN SELECT RAISE(ABORT, 'only a transfer changes an account'); END;

-- `posted_us` is the service's time in microseconds since 1970, and later than every entry of the account. It is less than
-- an hour later than the transfer: the database's clock may have been set forward, and no process has noticed that yet.
CREATE TRIGGER ledger_accounts_enter AFTER UPDATE OF last_transfer ON ledger_accounts
WHEN NEW.kind IN ('main', 'subscriber') AND NEW.balance_cents <> OLD.balance_cents
BEGIN
    INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
    SELECT NEW.id, max(
        min(
            CAST(strftime('%s', 'now') AS integer) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS integer) * 1000
                + coalesce((
                    SELECT CAST(sign(ahead_ms) * max(0, abs(ahead_ms) * 1000
                        - max(0, julianday('now') - julianday(decided_at)) * 864000000) AS integer)
                    FROM service_clock WHERE id = 1), 0),
            CAST(strftime('%s', created_at) AS integer) * 1000000
                + CAST(substr(strftime('%f', created_at), 4) AS integer) * 1000 + 3599000000),
        CAST(strftime('%s', created_at) AS integer) * 1000000
            + CAST(substr(strftime('%f', created_at), 4) AS integer) * 1000,
        1 + coalesce((SELECT max(posted_us) FROM ledger_entries WHERE account_id = NEW.id), 0)), id, NEW.balance_cents
    FROM ledger_transfers WHERE position = NEW.last_transfer;
END;

CREATE TRIGGER ledger_entries_written_by_transfers BEFORE INSERT ON ledger_entries
WHEN NOT EXISTS (
        SELECT 1 FROM ledger_accounts AS account JOIN ledger_transfers AS moved
            ON moved.position = account.last_transfer AND moved.kind IN ('move', 'post')
        WHERE account.id = NEW.account_id AND account.kind IN ('main', 'subscriber')
            AND account.balance_cents = NEW.balance_cents AND moved.id = NEW.transfer_id)
    OR EXISTS (SELECT 1 FROM (
            SELECT posted_us, transfer_id FROM ledger_entries WHERE account_id = NEW.account_id
            ORDER BY posted_us DESC LIMIT 1) AS last
        WHERE last.posted_us >= NEW.posted_us OR last.transfer_id = NEW.transfer_id)
BEGIN SELECT RAISE(ABORT, 'only a transfer writes an entry'); END;
