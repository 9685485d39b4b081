"""Transactions, their stories, and fees. A final state stays final, whoever writes."""

from ussd_server.models.base import is_postgres
from ussd_server.models.schema import execute_all

_TABLES = """
CREATE TABLE transactions (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    type text NOT NULL CHECK (type IN ('collection', 'disbursement', 'transfer', 'refund', 'deposit')),
    status text NOT NULL
        CHECK (status IN ('created', 'submitted', 'pending', 'ambiguous', 'succeeded', 'failed', 'reversed')),
    phone_number text,
    to_phone_number text,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    fee_cents bigint NOT NULL CHECK (fee_cents >= 0),
    currency text NOT NULL CHECK (currency = 'UGX'),
    account text NOT NULL,
    provider text,
    provider_reference {id} UNIQUE,
    provider_transaction_id text,
    reference text NOT NULL,
    idempotency_key text,
    request_digest text NOT NULL,
    failure_code text,
    late {bool} NOT NULL,
    session_id {id},
    confirmation text,
    refund_of {id} REFERENCES transactions (id),
    description text,
    metadata text,
    callback_url text,
    created_at {moment} NOT NULL,
    updated_at {moment} NOT NULL,
    asked_at {moment},
    ask_attempts integer NOT NULL,
    checks integer NOT NULL,
    completed_at {moment},
    due_at {moment},
    due_source text NOT NULL CHECK (due_source IN ('poll', 'callback')),
    leased_until {moment},
    lease_token text,
    review_reason text,
    review_opened_at {moment},
    review_closed_at {moment},
    CHECK ((failure_code IS NOT NULL) = (status = 'failed')),
    CHECK ((completed_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'reversed'))),
    CHECK (due_at IS NOT NULL OR review_opened_at IS NOT NULL OR completed_at IS NOT NULL)
) {strict};;
CREATE UNIQUE INDEX transactions_reference ON transactions (client_id, reference);;
CREATE UNIQUE INDEX transactions_idempotency_key ON transactions (client_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;;
CREATE UNIQUE INDEX transactions_confirmation ON transactions (session_id, confirmation)
    WHERE confirmation IS NOT NULL;;
CREATE INDEX transactions_newest ON transactions (client_id, id);;
CREATE INDEX transactions_newest_of_type ON transactions (client_id, type, id);;
CREATE INDEX transactions_newest_of_phone ON transactions (client_id, phone_number, id);;
CREATE INDEX transactions_due ON transactions (due_at) WHERE due_at IS NOT NULL;;
CREATE INDEX transactions_in_review ON transactions (review_opened_at)
    WHERE review_opened_at IS NOT NULL AND review_closed_at IS NULL;;
CREATE INDEX transactions_refunds ON transactions (refund_of) WHERE refund_of IS NOT NULL;;
CREATE TABLE transaction_events (
    transaction_id {id} NOT NULL REFERENCES transactions (id),
    sequence integer NOT NULL CHECK (sequence > 0),
    client_id {id} NOT NULL,
    status text NOT NULL,
    source text NOT NULL CHECK (source IN ('submit', 'callback', 'poll', 'operator')),
    detail text,
    created_at {moment} NOT NULL,
    PRIMARY KEY (transaction_id, sequence)
) {strict};;
CREATE TABLE fees (
    client_id {id} NOT NULL REFERENCES clients (id),
    type text NOT NULL CHECK (type IN ('collection', 'disbursement', 'transfer', 'refund')),
    fixed_cents bigint NOT NULL CHECK (fixed_cents >= 0),
    share_basis_points integer NOT NULL CHECK (share_basis_points BETWEEN 0 AND 10000),
    PRIMARY KEY (client_id, type)
) {strict}
"""

# What was promised is never edited, and a state that was called final only moves as a provider's late word or a refund
# allows: failed to succeeded, succeeded to reversed.
_POSTGRES_GUARDS = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;;
CREATE FUNCTION guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.client_id, NEW.type, NEW.amount_cents, NEW.fee_cents, NEW.reference, NEW.account, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.client_id, OLD.type, OLD.amount_cents, OLD.fee_cents, OLD.reference, OLD.account, OLD.created_at)
       OR (OLD.provider_reference IS NOT NULL AND NEW.provider_reference IS DISTINCT FROM OLD.provider_reference) THEN
        RAISE EXCEPTION 'what a transaction promised is never edited' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.status <> OLD.status AND (
        OLD.status = 'reversed'
        OR (OLD.status = 'succeeded' AND NEW.status <> 'reversed')
        OR (OLD.status = 'failed' AND NOT (NEW.status = 'succeeded' AND NEW.late))
        OR NEW.status = 'created') THEN
        RAISE EXCEPTION 'a final state stays final' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;;
CREATE TRIGGER transactions_guard BEFORE UPDATE ON transactions FOR EACH ROW EXECUTE FUNCTION guard_transaction();;
CREATE TRIGGER transactions_keep BEFORE DELETE ON transactions FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER transactions_keep_all BEFORE TRUNCATE ON transactions EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER transaction_events_keep BEFORE UPDATE OR DELETE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER transaction_events_keep_all BEFORE TRUNCATE ON transaction_events EXECUTE FUNCTION refuse_change()
"""
_SQLITE_GUARDS = """
CREATE TRIGGER transactions_promise BEFORE UPDATE ON transactions
WHEN NEW.id IS NOT OLD.id OR NEW.client_id IS NOT OLD.client_id OR NEW.type IS NOT OLD.type
    OR NEW.amount_cents IS NOT OLD.amount_cents OR NEW.fee_cents IS NOT OLD.fee_cents
    OR NEW.reference IS NOT OLD.reference OR NEW.account IS NOT OLD.account OR NEW.created_at IS NOT OLD.created_at
    OR (OLD.provider_reference IS NOT NULL AND NEW.provider_reference IS NOT OLD.provider_reference)
BEGIN SELECT RAISE(ABORT, 'what a transaction promised is never edited'); END;;
CREATE TRIGGER transactions_final BEFORE UPDATE OF status ON transactions
WHEN NEW.status <> OLD.status AND (
    OLD.status = 'reversed'
    OR (OLD.status = 'succeeded' AND NEW.status <> 'reversed')
    OR (OLD.status = 'failed' AND NOT (NEW.status = 'succeeded' AND NEW.late))
    OR NEW.status = 'created')
BEGIN SELECT RAISE(ABORT, 'a final state stays final'); END;;
CREATE TRIGGER transactions_keep BEFORE DELETE ON transactions
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never removed'); END;;
CREATE TRIGGER transaction_events_keep BEFORE DELETE ON transaction_events
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never removed'); END;;
CREATE TRIGGER transaction_events_unedited BEFORE UPDATE ON transaction_events
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never changed'); END
"""


def up(migrator, db):
    execute_all(db, _TABLES)
    execute_all(db, _POSTGRES_GUARDS if is_postgres() else _SQLITE_GUARDS)
