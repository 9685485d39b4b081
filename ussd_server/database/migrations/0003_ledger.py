"""The ledger. Inserting a transfer moves the balances; nothing else can, not even a hand at a prompt."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

_TABLES = """
CREATE TABLE ledger_accounts (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('main', 'subscriber', 'provider', 'fees', 'deposits', 'shortfall')),
    currency text NOT NULL CHECK (currency = 'UGX'),
    balance_cents bigint NOT NULL,
    reserved_cents bigint NOT NULL CONSTRAINT no_negative_reservation CHECK (reserved_cents >= 0),
    created_at {moment} NOT NULL,
    {last_transfer}
    UNIQUE (client_id, name),
    CHECK (kind = CASE substr(name, 1, 1) WHEN '+' THEN 'subscriber' ELSE
        CASE substr(name, 1, 9) WHEN 'provider:' THEN 'provider' ELSE name END END),
    CONSTRAINT no_overdraft CHECK (balance_cents - reserved_cents >= 0 OR kind IN ('provider', 'deposits', 'shortfall'))
) {strict_by_key};;
CREATE TABLE ledger_transfers (
    {position}
    id {id} NOT NULL,
    client_id {id} NOT NULL REFERENCES clients (id),
    transaction_id {id} NOT NULL REFERENCES transactions (id),
    kind text NOT NULL CHECK (kind IN ('move', 'hold', 'post', 'void')),
    purpose text NOT NULL CHECK (purpose IN ('amount', 'fee')),
    debit_account_id {id} NOT NULL REFERENCES ledger_accounts (id),
    credit_account_id {id} NOT NULL REFERENCES ledger_accounts (id),
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    hold_id {id} UNIQUE REFERENCES ledger_transfers (id),
    created_at {moment} NOT NULL,
    {key} (id),
    CHECK (debit_account_id <> credit_account_id),
    CHECK ((hold_id IS NOT NULL) = (kind IN ('post', 'void')))
) {strict};;
CREATE UNIQUE INDEX ledger_transfers_once ON ledger_transfers (transaction_id, purpose, kind);;
CREATE UNIQUE INDEX ledger_transfers_moved_once ON ledger_transfers (transaction_id, purpose)
    WHERE kind IN ('move', 'post');;
CREATE INDEX ledger_transfers_debits ON ledger_transfers (debit_account_id, id);;
CREATE INDEX ledger_transfers_credits ON ledger_transfers (credit_account_id, id)
"""

# What may not be, as a condition on a NEW transfer, in words that both databases understand.
_REFUSALS = {
    "both accounts of a transfer belong to its client": """(
        SELECT count(*) FROM ledger_accounts
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND client_id = NEW.client_id) <> 2""",
    "a transfer moves what its transaction promised": """NOT EXISTS (
        SELECT 1 FROM transactions WHERE id = NEW.transaction_id AND client_id = NEW.client_id
            AND NEW.amount_cents = CASE NEW.purpose WHEN 'amount' THEN amount_cents ELSE fee_cents END)""",
    "a post or void repeats its hold": """NEW.hold_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM ledger_transfers AS held WHERE held.id = NEW.hold_id AND held.kind = 'hold'
            AND held.transaction_id = NEW.transaction_id AND held.purpose = NEW.purpose
            AND held.debit_account_id = NEW.debit_account_id AND held.credit_account_id = NEW.credit_account_id
            AND held.amount_cents = NEW.amount_cents)""",
    "a hold comes first and is ended before anything else moves": """NEW.hold_id IS NULL AND EXISTS (
        SELECT 1 FROM ledger_transfers AS earlier
        WHERE earlier.transaction_id = NEW.transaction_id AND earlier.purpose = NEW.purpose AND earlier.id <> NEW.id
            AND (NEW.kind = 'hold' OR (earlier.kind = 'hold' AND NOT EXISTS (
                SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id))))""",
}

_POSTGRES_RULES = f"""
CREATE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Always in the order of the ids, so that two transfers between the same accounts cannot wait for each other.
    PERFORM 1 FROM ledger_accounts WHERE id IN (NEW.debit_account_id, NEW.credit_account_id)
        ORDER BY id FOR NO KEY UPDATE;
    {
    "".join(
        f'''
    IF {condition} THEN
        RAISE EXCEPTION '{refusal}' USING ERRCODE = 'integrity_constraint_violation';
    END IF;'''
        for refusal, condition in _REFUSALS.items()
    )
}
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
    INSERT INTO ledger_transfers SELECT * FROM jsonb_populate_recordset(NULL::ledger_transfers, entries);
END $$
"""

# SQLite cannot tell a trigger's update from a hand's. An account therefore names the transfer that changed it last by
# its position in the book, which has no gaps; a change is only accepted for a later transfer, and only by exactly what
# that transfer says. Limits are raised by name here because a hand's OR IGNORE would step over the CHECK of one account
# and still change the other. What REPLACE would remove is looked for first: it asks no trigger for deletions.
_SQLITE_RULES = f"""
CREATE TRIGGER ledger_transfers_rules BEFORE INSERT ON ledger_transfers BEGIN
    SELECT RAISE(ABORT, 'rows of ledger_transfers are never replaced') WHERE EXISTS (
        SELECT 1 FROM ledger_transfers
        WHERE id = NEW.id OR position = NEW.position OR hold_id = NEW.hold_id
            OR (transaction_id = NEW.transaction_id AND purpose = NEW.purpose
                AND (kind = NEW.kind OR (kind IN ('move', 'post') AND NEW.kind IN ('move', 'post')))));
    {
    "".join(
        f'''
    SELECT RAISE(ABORT, '{refusal}') WHERE {condition};'''
        for refusal, condition in _REFUSALS.items()
    )
}
END;;
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
END;;
CREATE TRIGGER ledger_accounts_begin_empty BEFORE INSERT ON ledger_accounts
WHEN NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0 OR NEW.last_transfer <> 0
BEGIN SELECT RAISE(ABORT, 'an account begins empty'); END;;
CREATE TRIGGER ledger_accounts_unreplaced BEFORE INSERT ON ledger_accounts
WHEN EXISTS (SELECT 1 FROM ledger_accounts WHERE id = NEW.id OR (client_id = NEW.client_id AND name = NEW.name))
BEGIN SELECT RAISE(ABORT, 'rows of ledger_accounts are never replaced'); END;;
CREATE TRIGGER ledger_accounts_limits BEFORE UPDATE ON ledger_accounts BEGIN
    SELECT RAISE(ABORT, 'no_negative_reservation') WHERE NEW.reserved_cents < 0;
    SELECT RAISE(ABORT, 'no_overdraft') WHERE NEW.balance_cents - NEW.reserved_cents < 0
        AND NEW.kind NOT IN ('provider', 'deposits', 'shortfall');
END;;
CREATE TRIGGER ledger_accounts_guard BEFORE UPDATE ON ledger_accounts
WHEN NEW.id IS NOT OLD.id OR NEW.client_id IS NOT OLD.client_id OR NEW.name IS NOT OLD.name OR NEW.kind IS NOT OLD.kind
    OR NEW.currency IS NOT OLD.currency OR NEW.created_at IS NOT OLD.created_at
    OR NOT EXISTS (
        SELECT 1 FROM ledger_transfers AS said
        WHERE said.position = NEW.last_transfer AND said.position > OLD.last_transfer AND (
            (said.debit_account_id = OLD.id
                AND NEW.balance_cents = OLD.balance_cents - iif(said.kind IN ('move', 'post'), said.amount_cents, 0)
                AND NEW.reserved_cents = OLD.reserved_cents
                    + CASE said.kind WHEN 'hold' THEN said.amount_cents WHEN 'move' THEN 0 ELSE -said.amount_cents END)
            OR (said.credit_account_id = OLD.id
                AND NEW.balance_cents = OLD.balance_cents + iif(said.kind IN ('move', 'post'), said.amount_cents, 0)
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
    postgres = is_postgres()
    tables = (
        _TABLES.replace("{last_transfer}", "" if postgres else "last_transfer integer NOT NULL DEFAULT 0,")
        .replace("{position}", "" if postgres else "position integer PRIMARY KEY,")
        .replace("{key}", "PRIMARY KEY" if postgres else "UNIQUE")
    )
    execute_all(db, tables)
    execute_all(db, _POSTGRES_RULES if postgres else _SQLITE_RULES)
