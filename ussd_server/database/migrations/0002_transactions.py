"""Transactions, their stories, and fees. A promise is never edited and a final state stays final, whoever writes."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

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
    review_note text,
    CHECK ((failure_code IS NOT NULL) = (status = 'failed')),
    CHECK ((completed_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'reversed'))),
    CHECK (due_at IS NOT NULL OR review_opened_at IS NOT NULL OR completed_at IS NOT NULL)
) {strict_by_key};;
CREATE UNIQUE INDEX transactions_reference ON transactions (client_id, reference);;
CREATE UNIQUE INDEX transactions_idempotency_key ON transactions (client_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;;
CREATE UNIQUE INDEX transactions_confirmation ON transactions (session_id, confirmation)
    WHERE confirmation IS NOT NULL;;
CREATE INDEX transactions_newest ON transactions (client_id, id);;
CREATE INDEX transactions_newest_of_type ON transactions (client_id, type, id);;
CREATE INDEX transactions_newest_of_status ON transactions (client_id, status, id);;
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
) {strict_by_key};;
CREATE TABLE fees (
    client_id {id} NOT NULL REFERENCES clients (id),
    type text NOT NULL CHECK (type IN ('collection', 'disbursement', 'transfer', 'refund')),
    fixed_cents bigint NOT NULL CHECK (fixed_cents >= 0),
    share_basis_points integer NOT NULL CHECK (share_basis_points BETWEEN 0 AND 10000),
    PRIMARY KEY (client_id, type)
) {strict_by_key}
"""

# What a transaction was recorded with: who, what, for whom, and every name that it can be found by.
_PROMISED = (
    "id", "client_id", "type", "phone_number", "to_phone_number", "amount_cents", "fee_cents", "currency", "account",
    "provider", "provider_reference", "reference", "idempotency_key", "request_digest", "session_id", "confirmation",
    "refund_of", "created_at",
)  # fmt: skip

# A state that was called final only moves as a provider's late word or a refund allows.
_FORBIDDEN_STEP = """NEW.status <> OLD.status AND NOT (
        (OLD.status IN ('created', 'submitted', 'pending', 'ambiguous') AND NEW.status NOT IN ('created', 'reversed')
            AND (NEW.status <> 'submitted' OR OLD.status = 'created'))
        OR (OLD.status = 'failed' AND NEW.status = 'succeeded' AND NEW.late)
        OR (OLD.status = 'succeeded' AND NEW.status = 'reversed'))"""

_GAP = """NEW.sequence > 1 AND NOT EXISTS (
        SELECT 1 FROM transaction_events
        WHERE transaction_id = NEW.transaction_id AND sequence = NEW.sequence - 1)"""

_POSTGRES_GUARDS = f"""
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;;
CREATE FUNCTION guard_new_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status <> 'created' THEN
        RAISE EXCEPTION 'a transaction begins as created' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;;
CREATE FUNCTION guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF {" OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in _PROMISED)} THEN
        RAISE EXCEPTION 'what a transaction promised is never edited' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF {_FORBIDDEN_STEP} THEN
        RAISE EXCEPTION 'a final state stays final' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;;
CREATE FUNCTION guard_story() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF {_GAP} THEN
        RAISE EXCEPTION 'a story has no gaps' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;;
CREATE TRIGGER transactions_begin BEFORE INSERT ON transactions FOR EACH ROW EXECUTE FUNCTION guard_new_transaction();;
CREATE TRIGGER transactions_guard BEFORE UPDATE ON transactions FOR EACH ROW EXECUTE FUNCTION guard_transaction();;
CREATE TRIGGER transactions_keep BEFORE DELETE ON transactions FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER transactions_keep_all BEFORE TRUNCATE ON transactions EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER transaction_events_follow BEFORE INSERT ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION guard_story();;
CREATE TRIGGER transaction_events_keep BEFORE UPDATE OR DELETE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER transaction_events_keep_all BEFORE TRUNCATE ON transaction_events EXECUTE FUNCTION refuse_change()
"""

# On SQLite, REPLACE removes the row in its way without asking any trigger for deletions. What would be in the way is
# therefore looked for before the insertion, and columns by which rows are unique cannot be edited at all.
_SQLITE_GUARDS = f"""
CREATE TRIGGER transactions_begin BEFORE INSERT ON transactions WHEN NEW.status <> 'created'
BEGIN SELECT RAISE(ABORT, 'a transaction begins as created'); END;;
CREATE TRIGGER transactions_unreplaced BEFORE INSERT ON transactions
WHEN EXISTS (SELECT 1 FROM transactions WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM transactions WHERE client_id = NEW.client_id AND reference = NEW.reference)
    OR EXISTS (SELECT 1 FROM transactions WHERE client_id = NEW.client_id AND idempotency_key = NEW.idempotency_key)
    OR EXISTS (SELECT 1 FROM transactions WHERE session_id = NEW.session_id AND confirmation = NEW.confirmation)
    OR EXISTS (SELECT 1 FROM transactions WHERE provider_reference = NEW.provider_reference)
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never replaced'); END;;
CREATE TRIGGER transactions_promise BEFORE UPDATE ON transactions
WHEN {" OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _PROMISED)}
BEGIN SELECT RAISE(ABORT, 'what a transaction promised is never edited'); END;;
CREATE TRIGGER transactions_final BEFORE UPDATE OF status ON transactions
WHEN {_FORBIDDEN_STEP}
BEGIN SELECT RAISE(ABORT, 'a final state stays final'); END;;
CREATE TRIGGER transactions_keep BEFORE DELETE ON transactions
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never removed'); END;;
CREATE TRIGGER transaction_events_follow BEFORE INSERT ON transaction_events WHEN {_GAP}
BEGIN SELECT RAISE(ABORT, 'a story has no gaps'); END;;
CREATE TRIGGER transaction_events_unreplaced BEFORE INSERT ON transaction_events
WHEN EXISTS (
    SELECT 1 FROM transaction_events WHERE transaction_id = NEW.transaction_id AND sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never replaced'); END;;
CREATE TRIGGER transaction_events_keep BEFORE DELETE ON transaction_events
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never removed'); END;;
CREATE TRIGGER transaction_events_unedited BEFORE UPDATE ON transaction_events
BEGIN SELECT RAISE(ABORT, 'rows of transaction_events are never changed'); END
"""


def up(migrator, db):
    execute_all(db, _TABLES)
    execute_all(db, _POSTGRES_GUARDS if is_postgres() else _SQLITE_GUARDS)
