"""Payouts and their rows; a transaction never changes its payout."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

_TABLES = """
CREATE TABLE IF NOT EXISTS payouts (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    reference text NOT NULL,
    description text,
    status text NOT NULL CHECK (status IN ('draft', 'approved', 'running', 'completed', 'cancelled')),
    request_digest text NOT NULL,
    item_count integer NOT NULL CHECK (item_count > 0),
    ready_count integer NOT NULL CHECK (ready_count >= 0),
    invalid_count integer NOT NULL CHECK (invalid_count >= 0),
    total_amount_cents bigint NOT NULL CHECK (total_amount_cents >= 0),
    total_fee_cents bigint NOT NULL CHECK (total_fee_cents >= 0),
    created_by {id} NOT NULL,
    approved_by {id},
    request_id text,
    created_at {moment} NOT NULL,
    updated_at {moment} NOT NULL,
    approved_at {moment},
    cancelled_at {moment},
    completed_at {moment},
    due_at {moment},
    leased_until {moment},
    lease_token text,
    UNIQUE (client_id, reference),
    CHECK (ready_count + invalid_count = item_count),
    CHECK ((approved_by IS NULL) = (approved_at IS NULL)),
    CHECK (approved_by IS NULL OR approved_by <> created_by),
    CHECK (approved_at IS NULL OR status <> 'draft'),
    CHECK (approved_at IS NOT NULL OR status IN ('draft', 'cancelled')),
    CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled')),
    CHECK (completed_at IS NOT NULL OR status <> 'completed'),
    CHECK (due_at IS NOT NULL OR approved_at IS NULL OR completed_at IS NOT NULL)
) {strict_by_key};;
CREATE INDEX IF NOT EXISTS payouts_newest ON payouts (client_id, id);;
CREATE INDEX IF NOT EXISTS payouts_due ON payouts (due_at) WHERE due_at IS NOT NULL;;
CREATE TABLE IF NOT EXISTS payout_items (
    payout_id {id} NOT NULL REFERENCES payouts (id),
    line integer NOT NULL CHECK (line > 0),
    phone_number text,
    amount_cents bigint,
    fee_cents bigint,
    provider text,
    reference text,
    description text,
    name text,
    name_match text CHECK (name_match IN ('same', 'similar', 'different', 'unknown')),
    is_ready {bool} NOT NULL,
    problems text,
    transaction_id {id} REFERENCES transactions (id),
    PRIMARY KEY (payout_id, line),
    CHECK ((problems IS NULL) = is_ready),
    CHECK (NOT is_ready OR (phone_number IS NOT NULL AND amount_cents > 0 AND fee_cents >= 0
        AND provider IS NOT NULL AND reference IS NOT NULL)),
    CHECK (transaction_id IS NULL OR is_ready)
) {strict_by_key};;
CREATE UNIQUE INDEX IF NOT EXISTS payout_items_transaction ON payout_items (transaction_id)
    WHERE transaction_id IS NOT NULL;;
CREATE INDEX IF NOT EXISTS payout_items_unmatched ON payout_items (payout_id, line)
    WHERE name IS NOT NULL AND name_match IS NULL
"""

_POSTGRES_RULES = """
CREATE OR REPLACE FUNCTION guard_payout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a transaction never changes its payout' USING ERRCODE = 'integrity_constraint_violation';
END $$;;
CREATE OR REPLACE TRIGGER transactions_payout BEFORE UPDATE ON transactions
    FOR EACH ROW WHEN (NEW.payout_id IS DISTINCT FROM OLD.payout_id) EXECUTE FUNCTION guard_payout()
"""
_SQLITE_RULES = """
CREATE TRIGGER transactions_payout BEFORE UPDATE OF payout_id ON transactions
WHEN NEW.payout_id IS NOT OLD.payout_id
BEGIN SELECT RAISE(ABORT, 'a transaction never changes its payout'); END
"""


def up(migrator, db):
    execute_all(db, _TABLES)
    execute_all(db, _POSTGRES_RULES if is_postgres() else _SQLITE_RULES)
    build_index(db, "transactions_of_payout_due", "transactions (payout_id, due_at, id) WHERE payout_id IS NOT NULL")
    build_index(db, "transactions_of_payout_status", "transactions (payout_id, status) WHERE payout_id IS NOT NULL")
