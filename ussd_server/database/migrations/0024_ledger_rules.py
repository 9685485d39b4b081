"""Payments with fewer queries in the database; thousands of rows are reserved as quickly as one."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# A connection keeps a plan until the statistics of its tables change. In a small table every index looks alike, so a
# condition on the client made PostgreSQL read all rows of the client for each transfer. Only the key may select rows;
# everything else is compared afterwards. Every subquery is a scalar: the planner can neither hash it nor join it.
_OWN_ACCOUNTS = "count(*) FILTER (WHERE client_id = {0}.client_id)"
_REFUSALS = {
    "a transfer moves what its transaction promised": """(
        SELECT client_id = {0}.client_id
            AND {0}.amount_cents = CASE {0}.purpose WHEN 'amount' THEN amount_cents ELSE fee_cents END
        FROM transactions WHERE id = {0}.transaction_id) IS NOT TRUE""",
    "a post or void repeats its hold": """{0}.hold_id IS NOT NULL AND (
        SELECT held.kind = 'hold' AND held.transaction_id = {0}.transaction_id AND held.purpose = {0}.purpose
            AND held.debit_account_id = {0}.debit_account_id AND held.credit_account_id = {0}.credit_account_id
            AND held.amount_cents = {0}.amount_cents
        FROM ledger_transfers AS held WHERE held.id = {0}.hold_id) IS NOT TRUE""",
}
_FOREIGN_ACCOUNT = "both accounts of a transfer belong to its client"
_SECOND_HOLD = "a hold comes first and is ended before anything else moves"


def _cases(row: str) -> str:
    return "\n".join(f"WHEN {condition.format(row)} THEN '{refusal}'" for refusal, condition in _REFUSALS.items())


# Moves and posts, row by row. The accounts are locked in a query of their own, so that what a transfer waited for is
# visible to the checks.
_APPLY = f"""
CREATE OR REPLACE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own_accounts bigint;
    refusal text;
BEGIN
    -- Always in the order of the ids, so that two transfers between the same accounts cannot wait for each other.
    SELECT {_OWN_ACCOUNTS.format("NEW")} INTO own_accounts
        FROM (
            SELECT client_id FROM ledger_accounts WHERE id IN (NEW.debit_account_id, NEW.credit_account_id)
            ORDER BY id FOR NO KEY UPDATE
        ) AS locked;
    SELECT CASE
        WHEN own_accounts <> 2 THEN '{_FOREIGN_ACCOUNT}'
        {_cases("NEW")}
        WHEN NEW.hold_id IS NULL AND EXISTS (
            SELECT 1 FROM ledger_transfers AS earlier
            WHERE earlier.transaction_id = NEW.transaction_id AND earlier.purpose = NEW.purpose AND earlier.id <> NEW.id
                AND earlier.kind = 'hold' AND NOT EXISTS (SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id))
            THEN '{_SECOND_HOLD}'
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
END $$;;
DROP TRIGGER ledger_transfers_apply ON ledger_transfers;;
CREATE TRIGGER ledger_transfers_apply AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.kind IN ('move', 'post')) EXECUTE FUNCTION ledger_apply();;
"""

# Holds and voids, once for each statement. Only the debited account of a reservation changes, at the very end of the
# statement: a client's payments wait for that account as short as possible.
_RESERVE = f"""
CREATE FUNCTION ledger_reserve() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT debit_account_id AS id, sum(CASE kind WHEN 'hold' THEN amount_cents ELSE -amount_cents END) AS cents,
            min(CASE
                WHEN (
                    SELECT {_OWN_ACCOUNTS.format("made")} FROM ledger_accounts
                    WHERE id IN (made.debit_account_id, made.credit_account_id)) <> 2 THEN '{_FOREIGN_ACCOUNT}'
                {_cases("made")}
                WHEN made.hold_id IS NULL AND (
                    SELECT 1 FROM ledger_transfers AS earlier
                    WHERE earlier.transaction_id = made.transaction_id AND earlier.purpose = made.purpose
                        AND earlier.id <> made.id LIMIT 1) IS NOT NULL THEN '{_SECOND_HOLD}'
                END) AS refusal
        FROM fresh AS made WHERE kind IN ('hold', 'void') GROUP BY debit_account_id ORDER BY debit_account_id
    LOOP
        IF change.refusal IS NOT NULL THEN
            RAISE EXCEPTION '%', change.refusal USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        UPDATE ledger_accounts SET reserved_cents = reserved_cents + change.cents WHERE id = change.id;
    END LOOP;
    RETURN NULL;
END $$;;
CREATE TRIGGER ledger_transfers_reserve AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ledger_reserve();;
"""

_ACCOUNT_ID = "SELECT id FROM ledger_accounts AS known WHERE known.client_id = {0}.client_id AND known.name = {0}.{1}"

# Movements lock their accounts before, in one order; reservations lock none here.
_POST = f"""
CREATE OR REPLACE FUNCTION ledger_post(batch jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
        SELECT DISTINCT ON (client_id, name) id, client_id, name, kind, 'UGX', 0, 0, created_at
        FROM jsonb_to_recordset(batch -> 'accounts')
            AS wanted (id uuid, client_id uuid, name text, kind text, created_at timestamptz)
        WHERE ({_ACCOUNT_ID.format("wanted", "name")}) IS NULL
        ORDER BY client_id, name
        ON CONFLICT DO NOTHING;
    IF EXISTS (
        SELECT 1 FROM jsonb_to_recordset(batch -> 'legs') AS leg (kind text) WHERE kind IN ('move', 'post')
    ) THEN
        PERFORM 1 FROM ledger_accounts
            WHERE id = ANY (ARRAY(
                SELECT ({_ACCOUNT_ID.format("wanted", "name")})
                FROM jsonb_to_recordset(batch -> 'accounts') AS wanted (client_id uuid, name text)))
            ORDER BY id FOR NO KEY UPDATE;
    END IF;
    INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
            amount_cents, hold_id, created_at)
        SELECT id, client_id, transaction_id, kind, purpose, ({_ACCOUNT_ID.format("leg", "debit")}),
            ({_ACCOUNT_ID.format("leg", "credit")}), amount_cents, hold_id, created_at
        FROM jsonb_to_recordset(batch -> 'legs') AS leg (id uuid, client_id uuid, transaction_id uuid, kind text,
            purpose text, debit text, credit text, amount_cents bigint, hold_id uuid, created_at timestamptz);
END $$;;
"""

# As 0012 made it, without a query for transactions that settle at once where there are none.
_RECORD = """
CREATE OR REPLACE FUNCTION transactions_record(batch jsonb) RETURNS void LANGUAGE plpgsql AS $$
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
        SELECT * FROM jsonb_populate_recordset(NULL::transaction_events, batch -> 'story');
    INSERT INTO events SELECT * FROM jsonb_populate_recordset(NULL::events, batch -> 'events');
    IF jsonb_array_length(batch -> 'legs') > 0 THEN
        PERFORM ledger_post(batch);
    END IF;
    IF jsonb_array_length(batch -> 'settled') > 0 THEN
        UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL
            WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(batch -> 'settled')::uuid));
    END IF;
END $$;;
"""

# The rules of 0002 and 0003, which call their functions only for a row that they may refuse.
_GUARDS = """
CREATE OR REPLACE TRIGGER transactions_begin BEFORE INSERT ON transactions
    FOR EACH ROW WHEN (NEW.status <> 'created') EXECUTE FUNCTION guard_new_transaction();;
CREATE OR REPLACE TRIGGER ledger_accounts_guard BEFORE UPDATE ON ledger_accounts
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_guard_account();;
CREATE TRIGGER ledger_accounts_begin_empty BEFORE INSERT ON ledger_accounts
    FOR EACH ROW WHEN (NEW.balance_cents <> 0 OR NEW.reserved_cents <> 0) EXECUTE FUNCTION ledger_guard_account();;
"""

# The triggers above read both accounts, and the hold, of every transfer and refuse a missing one. These rows are never
# removed. A foreign key would read and lock each of them a second time.
_FOREIGN_KEYS = """
LOCK TABLE transactions, clients, ledger_accounts, ledger_transfers IN ACCESS EXCLUSIVE MODE;;
ALTER TABLE ledger_transfers
    DROP CONSTRAINT ledger_transfers_client_id_fkey, DROP CONSTRAINT ledger_transfers_debit_account_id_fkey,
    DROP CONSTRAINT ledger_transfers_credit_account_id_fkey, DROP CONSTRAINT ledger_transfers_hold_id_fkey;;
"""

# These functions and the triggers below them find rows by whole keys, so no value would change a plan. PostgreSQL would
# plan some of their queries again for each row. `enable_seqscan` covers the foreign keys too: their look-ups are
# planned while these functions run.
_PLANS = """
ALTER FUNCTION ussd_step(jsonb) SET plan_cache_mode = force_generic_plan;;
ALTER FUNCTION transactions_record(jsonb) SET plan_cache_mode = force_generic_plan SET enable_seqscan = off;;
ALTER FUNCTION ledger_post(jsonb) SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
"""


def up(migrator, db):
    # SQLite has no triggers for statements, and one writer at a time anyway.
    if is_postgres():
        execute_all(db, _FOREIGN_KEYS + _APPLY + _RESERVE + _POST + _RECORD + _GUARDS + _PLANS)
