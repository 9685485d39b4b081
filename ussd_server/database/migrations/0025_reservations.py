"""Reservations are counted once for each statement, so that thousands of rows are reserved as quickly as one."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# Every subquery is a scalar: the planner can neither hash it nor join it, and reads a few rows by an index for each
# transfer, whether the statement made two or ten thousand.
_REFUSALS = {
    "both accounts of a transfer belong to its client": """(
        SELECT count(*) FROM ledger_accounts
        WHERE id IN (made.debit_account_id, made.credit_account_id) AND client_id = made.client_id) <> 2""",
    "a transfer moves what its transaction promised": """(
        SELECT 1 FROM transactions WHERE id = made.transaction_id AND client_id = made.client_id
            AND made.amount_cents = CASE made.purpose WHEN 'amount' THEN amount_cents ELSE fee_cents END) IS NULL""",
    "a post or void repeats its hold": """made.hold_id IS NOT NULL AND (
        SELECT 1 FROM ledger_transfers AS held WHERE held.id = made.hold_id AND held.kind = 'hold'
            AND held.transaction_id = made.transaction_id AND held.purpose = made.purpose
            AND held.debit_account_id = made.debit_account_id AND held.credit_account_id = made.credit_account_id
            AND held.amount_cents = made.amount_cents) IS NULL""",
    "a hold comes first and is ended before anything else moves": """made.hold_id IS NULL AND (
        SELECT 1 FROM ledger_transfers AS earlier
        WHERE earlier.transaction_id = made.transaction_id AND earlier.purpose = made.purpose
            AND earlier.id <> made.id LIMIT 1) IS NOT NULL""",
}

_ACCOUNT_ID = "SELECT id FROM ledger_accounts AS known WHERE known.client_id = {0}.client_id AND known.name = {0}.{1}"

# Only the debited account of a reservation changes, at the very end of the statement: a client's payments wait for that
# account as short as possible. Movements lock their accounts before, in one order.
_POSTGRES_RULES = f"""
CREATE FUNCTION ledger_reserve() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    refusal text;
    change record;
BEGIN
    SELECT min(CASE {
    " ".join(f"WHEN {condition} THEN '{refusal}'" for refusal, condition in _REFUSALS.items())
} END) INTO refusal FROM fresh AS made WHERE kind IN ('hold', 'void');
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    FOR change IN
        SELECT debit_account_id AS id, sum(CASE kind WHEN 'hold' THEN amount_cents ELSE -amount_cents END) AS cents
        FROM fresh WHERE kind IN ('hold', 'void') GROUP BY debit_account_id ORDER BY debit_account_id
    LOOP
        UPDATE ledger_accounts SET reserved_cents = reserved_cents + change.cents WHERE id = change.id;
    END LOOP;
    RETURN NULL;
END $$;;
DROP TRIGGER ledger_transfers_apply ON ledger_transfers;;
CREATE TRIGGER ledger_transfers_apply AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.kind IN ('move', 'post')) EXECUTE FUNCTION ledger_apply();;
CREATE TRIGGER ledger_transfers_reserve AFTER INSERT ON ledger_transfers
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ledger_reserve();;
CREATE OR REPLACE FUNCTION ledger_post(batch jsonb) RETURNS void LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan AS $$
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
END $$
"""


def up(migrator, db):
    # SQLite has no triggers for statements, and one writer at a time anyway.
    if is_postgres():
        execute_all(db, _POSTGRES_RULES)
