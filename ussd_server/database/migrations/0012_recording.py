"""Whole recordings by one call, and names of an operator's deposits beside the names that clients choose."""

from ussd_server.database.schema import build_index, drop_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

# A deposit is named by the operator, everything else by its client: neither may take a name away from the other.
_NAMES = "transactions (client_id, reference, (type = 'deposit'))"

_SQLITE_NAMES = """
DROP TRIGGER transactions_unreplaced;;
CREATE TRIGGER transactions_unreplaced BEFORE INSERT ON transactions
WHEN EXISTS (SELECT 1 FROM transactions WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM transactions WHERE client_id = NEW.client_id AND reference = NEW.reference
        AND (type = 'deposit') = (NEW.type = 'deposit'))
    OR EXISTS (SELECT 1 FROM transactions WHERE client_id = NEW.client_id AND idempotency_key = NEW.idempotency_key)
    OR EXISTS (SELECT 1 FROM transactions WHERE session_id = NEW.session_id AND confirmation = NEW.confirmation)
    OR EXISTS (SELECT 1 FROM transactions WHERE provider_reference = NEW.provider_reference)
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never replaced'); END
"""

# Lookups stand as subqueries, because the planner takes every list for a long one and would read whole tables for it.
_ACCOUNT_ID = "SELECT id FROM ledger_accounts AS known WHERE known.client_id = {0}.client_id AND known.name = {0}.{1}"

# Everybody waits for names first, then for new accounts, then for accounts, each in one order: nobody can wait for
# somebody who waits for him.
_POSTGRES_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION ledger_post(batch jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
        SELECT DISTINCT ON (client_id, name) id, client_id, name, kind, 'UGX', 0, 0, created_at
        FROM jsonb_to_recordset(batch -> 'accounts')
            AS wanted (id uuid, client_id uuid, name text, kind text, created_at timestamptz)
        WHERE ({_ACCOUNT_ID.format("wanted", "name")}) IS NULL
        ORDER BY client_id, name
        ON CONFLICT DO NOTHING;
    PERFORM 1 FROM ledger_accounts
        WHERE id = ANY (ARRAY(
            SELECT ({_ACCOUNT_ID.format("wanted", "name")})
            FROM jsonb_to_recordset(batch -> 'accounts') AS wanted (client_id uuid, name text)))
        ORDER BY id FOR NO KEY UPDATE;
    INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
            amount_cents, hold_id, created_at)
        SELECT id, client_id, transaction_id, kind, purpose, ({_ACCOUNT_ID.format("leg", "debit")}),
            ({_ACCOUNT_ID.format("leg", "credit")}), amount_cents, hold_id, created_at
        FROM jsonb_to_recordset(batch -> 'legs') AS leg (id uuid, client_id uuid, transaction_id uuid, kind text,
            purpose text, debit text, credit text, amount_cents bigint, hold_id uuid, created_at timestamptz);
END $$;;
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
        UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL
            WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(batch -> 'settled')::uuid));
    END IF;
END $$
"""


def up(migrator, db):
    build_index(db, "transactions_names", _NAMES, unique=True)
    drop_index(db, "transactions_reference")
    execute_all(db, _POSTGRES_FUNCTIONS if is_postgres() else _SQLITE_NAMES)
