"""The ledger. Inserting a transfer moves the balances; nothing else can, not even a hand at a prompt."""

from ussd_server.models.base import is_postgres
from ussd_server.models.schema import execute_all

_TABLES = """
CREATE TABLE ledger_accounts (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('main', 'subscriber', 'provider', 'fees', 'deposits', 'shortfall')),
    currency text NOT NULL CHECK (currency = 'UGX'),
    balance_cents bigint NOT NULL,
    reserved_cents bigint NOT NULL CHECK (reserved_cents >= 0),
    created_at {moment} NOT NULL,
    {last_transfer}
    UNIQUE (client_id, name),
    CONSTRAINT no_overdraft CHECK (balance_cents - reserved_cents >= 0 OR kind IN ('provider', 'deposits', 'shortfall'))
) {strict};;
CREATE TABLE ledger_transfers (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    transaction_id {id} NOT NULL REFERENCES transactions (id),
    kind text NOT NULL CHECK (kind IN ('move', 'hold', 'post', 'void')),
    purpose text NOT NULL CHECK (purpose IN ('amount', 'fee', 'fee_return')),
    debit_account_id {id} NOT NULL REFERENCES ledger_accounts (id),
    credit_account_id {id} NOT NULL REFERENCES ledger_accounts (id),
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    hold_id {id} UNIQUE REFERENCES ledger_transfers (id),
    created_at {moment} NOT NULL,
    CHECK (debit_account_id <> credit_account_id),
    CHECK ((hold_id IS NOT NULL) = (kind IN ('post', 'void')))
) {strict};;
CREATE UNIQUE INDEX ledger_transfers_once ON ledger_transfers (transaction_id, purpose, kind);;
CREATE UNIQUE INDEX ledger_transfers_moved_once ON ledger_transfers (transaction_id, purpose)
    WHERE kind IN ('move', 'post');;
CREATE INDEX ledger_transfers_debits ON ledger_transfers (debit_account_id, id);;
CREATE INDEX ledger_transfers_credits ON ledger_transfers (credit_account_id, id)
"""

_POSTGRES_RULES = """
CREATE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held ledger_transfers;
    owners integer;
BEGIN
    -- Always in the order of the ids, so that two transfers between the same accounts cannot wait for each other.
    SELECT count(*) INTO owners FROM (
        SELECT 1 FROM ledger_accounts
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND client_id = NEW.client_id
        ORDER BY id FOR NO KEY UPDATE) AS locked;
    IF owners <> 2 THEN
        RAISE EXCEPTION 'both accounts of a transfer belong to its client' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.hold_id IS NOT NULL THEN
        SELECT * INTO held FROM ledger_transfers WHERE id = NEW.hold_id;
        IF (held.kind, held.transaction_id, held.purpose, held.debit_account_id, held.credit_account_id, held.amount_cents)
           IS DISTINCT FROM
           ('hold'::text, NEW.transaction_id, NEW.purpose, NEW.debit_account_id, NEW.credit_account_id, NEW.amount_cents) THEN
            RAISE EXCEPTION 'a post or void repeats its hold' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    END IF;
    UPDATE ledger_accounts SET
        balance_cents = balance_cents - CASE WHEN NEW.kind IN ('move', 'post') THEN NEW.amount_cents ELSE 0 END,
        reserved_cents = reserved_cents + CASE NEW.kind
            WHEN 'hold' THEN NEW.amount_cents WHEN 'move' THEN 0 ELSE -NEW.amount_cents END
    WHERE id = NEW.debit_account_id;
    IF NEW.kind IN ('move', 'post') THEN
        UPDATE ledger_accounts SET balance_cents = balance_cents + NEW.amount_cents WHERE id = NEW.credit_account_id;
    END IF;
    RETURN NULL;
END $$;;
CREATE FUNCTION ledger_guard_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0 THEN
            RAISE EXCEPTION 'an account begins empty' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'only a transfer changes an account' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;;
CREATE TRIGGER ledger_transfers_apply AFTER INSERT ON ledger_transfers FOR EACH ROW EXECUTE FUNCTION ledger_apply();;
CREATE TRIGGER ledger_transfers_keep BEFORE UPDATE OR DELETE ON ledger_transfers
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER ledger_transfers_keep_all BEFORE TRUNCATE ON ledger_transfers EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER ledger_accounts_guard BEFORE INSERT OR UPDATE ON ledger_accounts
    FOR EACH ROW EXECUTE FUNCTION ledger_guard_account();;
CREATE TRIGGER ledger_accounts_keep BEFORE DELETE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER ledger_accounts_keep_all BEFORE TRUNCATE ON ledger_accounts EXECUTE FUNCTION refuse_change();;
CREATE FUNCTION ledger_write(entries jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- All accounts of the whole entry first, in one order: entries with several transfers cannot deadlock.
    PERFORM 1 FROM ledger_accounts WHERE id IN (
        SELECT (entry ->> name)::uuid FROM jsonb_array_elements(entries) AS entry,
            unnest(ARRAY['debit_account_id', 'credit_account_id']) AS name)
        ORDER BY id FOR NO KEY UPDATE;
    INSERT INTO ledger_transfers
        (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id, created_at)
    SELECT id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id, created_at
        FROM jsonb_populate_recordset(NULL::ledger_transfers, entries);
END $$
"""

# SQLite cannot tell a trigger's update from a hand's. An account therefore names the transfer that changed it last, and
# a change is only accepted for a later transfer, and only by exactly what that transfer says.
_SQLITE_RULES = """
CREATE TRIGGER ledger_transfers_rules BEFORE INSERT ON ledger_transfers BEGIN
    SELECT RAISE(ABORT, 'both accounts of a transfer belong to its client') WHERE (
        SELECT count(*) FROM ledger_accounts
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND client_id = NEW.client_id) <> 2;
    SELECT RAISE(ABORT, 'a post or void repeats its hold') WHERE NEW.hold_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM ledger_transfers AS held WHERE held.id = NEW.hold_id AND held.kind = 'hold'
            AND held.transaction_id = NEW.transaction_id AND held.purpose = NEW.purpose
            AND held.debit_account_id = NEW.debit_account_id AND held.credit_account_id = NEW.credit_account_id
            AND held.amount_cents = NEW.amount_cents);
END;;
CREATE TRIGGER ledger_transfers_apply AFTER INSERT ON ledger_transfers BEGIN
    UPDATE ledger_accounts SET
        balance_cents = balance_cents - iif(NEW.kind IN ('move', 'post'), NEW.amount_cents, 0),
        reserved_cents = reserved_cents
            + CASE NEW.kind WHEN 'hold' THEN NEW.amount_cents WHEN 'move' THEN 0 ELSE -NEW.amount_cents END,
        last_transfer = NEW.rowid
    WHERE id = NEW.debit_account_id;
    UPDATE ledger_accounts SET
        balance_cents = balance_cents + iif(NEW.kind IN ('move', 'post'), NEW.amount_cents, 0),
        last_transfer = NEW.rowid
    WHERE id = NEW.credit_account_id;
END;;
CREATE TRIGGER ledger_accounts_begin_empty BEFORE INSERT ON ledger_accounts
WHEN NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0 OR NEW.last_transfer <> 0
BEGIN SELECT RAISE(ABORT, 'an account begins empty'); END;;
CREATE TRIGGER ledger_accounts_guard BEFORE UPDATE ON ledger_accounts
WHEN NEW.id IS NOT OLD.id OR NEW.client_id IS NOT OLD.client_id OR NEW.name IS NOT OLD.name OR NEW.kind IS NOT OLD.kind
    OR NEW.currency IS NOT OLD.currency OR NEW.created_at IS NOT OLD.created_at
    OR NOT EXISTS (
        SELECT 1 FROM ledger_transfers AS t WHERE t.rowid = NEW.last_transfer AND t.rowid > OLD.last_transfer AND (
            (t.debit_account_id = OLD.id
                AND NEW.balance_cents = OLD.balance_cents - iif(t.kind IN ('move', 'post'), t.amount_cents, 0)
                AND NEW.reserved_cents = OLD.reserved_cents
                    + CASE t.kind WHEN 'hold' THEN t.amount_cents WHEN 'move' THEN 0 ELSE -t.amount_cents END)
            OR (t.credit_account_id = OLD.id
                AND NEW.balance_cents = OLD.balance_cents + iif(t.kind IN ('move', 'post'), t.amount_cents, 0)
                AND NEW.reserved_cents = OLD.reserved_cents)))
BEGIN SELECT RAISE(ABORT, 'only a transfer changes an account'); END;;
CREATE TRIGGER ledger_accounts_keep BEFORE DELETE ON ledger_accounts
BEGIN SELECT RAISE(ABORT, 'rows of ledger_accounts are never removed'); END;;
CREATE TRIGGER ledger_transfers_keep BEFORE DELETE ON ledger_transfers
BEGIN SELECT RAISE(ABORT, 'rows of ledger_transfers are never removed'); END;;
CREATE TRIGGER ledger_transfers_unedited BEFORE UPDATE ON ledger_transfers
BEGIN SELECT RAISE(ABORT, 'rows of ledger_transfers are never changed'); END
"""


def up(migrator, db):
    last_transfer = "" if is_postgres() else "last_transfer integer NOT NULL DEFAULT 0,"
    execute_all(db, _TABLES.replace("{last_transfer}", last_transfer))
    execute_all(db, _POSTGRES_RULES if is_postgres() else _SQLITE_RULES)
