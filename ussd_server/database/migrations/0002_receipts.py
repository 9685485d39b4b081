"""One claim for each receipt, and what becomes of money that two of our records have."""

from ussd_server.database.schema import build_index, execute_statements
from ussd_server.database.unit_of_work import is_postgres
from ussd_server.values import canonical_receipt

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

_TABLE = """
CREATE TABLE IF NOT EXISTS receipt_claims (
    issuer text NOT NULL,
    receipt text NOT NULL,
    transaction_id uuid UNIQUE REFERENCES transactions (id),
    incoming_id uuid UNIQUE REFERENCES incoming_payments (id),
    PRIMARY KEY (issuer, receipt)
); -- by key
"""

_TRIGGERS = """
CREATE OR REPLACE FUNCTION guard_receipt_claim() RETURNS trigger LANGUAGE plpgsql AS $$ -- PostgreSQL
BEGIN -- PostgreSQL
    RAISE EXCEPTION 'a claim of a receipt is never edited' -- PostgreSQL
        USING ERRCODE = 'integrity_constraint_violation'; -- PostgreSQL
END $$; -- PostgreSQL

DROP TRIGGER IF EXISTS receipt_claims_keep ON receipt_claims; -- PostgreSQL

CREATE TRIGGER receipt_claims_keep BEFORE DELETE ON receipt_claims -- PostgreSQL
    FOR EACH ROW EXECUTE FUNCTION refuse_change(); -- PostgreSQL

DROP TRIGGER IF EXISTS receipt_claims_keep_all ON receipt_claims; -- PostgreSQL

CREATE TRIGGER receipt_claims_keep_all BEFORE TRUNCATE ON receipt_claims EXECUTE FUNCTION refuse_change(); -- PostgreSQL

DROP TRIGGER IF EXISTS receipt_claims_lasting ON receipt_claims; -- PostgreSQL

CREATE TRIGGER receipt_claims_lasting BEFORE UPDATE ON receipt_claims -- PostgreSQL
    FOR EACH ROW WHEN ((NEW.issuer, NEW.receipt) IS DISTINCT FROM (OLD.issuer, OLD.receipt) -- PostgreSQL
        OR (OLD.incoming_id IS NOT NULL AND NEW.incoming_id IS DISTINCT FROM OLD.incoming_id) -- PostgreSQL
        OR (OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS NULL)) -- PostgreSQL
    EXECUTE FUNCTION guard_receipt_claim(); -- PostgreSQL

CREATE TRIGGER receipt_claims_keep BEFORE DELETE ON receipt_claims -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of receipt_claims are never removed'); END; -- SQLite

CREATE TRIGGER receipt_claims_unreplaced BEFORE INSERT ON receipt_claims -- SQLite
WHEN EXISTS (SELECT 1 FROM receipt_claims WHERE (issuer = NEW.issuer AND receipt = NEW.receipt) -- SQLite
    OR transaction_id = NEW.transaction_id OR incoming_id = NEW.incoming_id) -- SQLite
BEGIN SELECT RAISE(IGNORE); END; -- SQLite

CREATE TRIGGER receipt_claims_lasting BEFORE UPDATE ON receipt_claims -- SQLite
WHEN (NEW.issuer, NEW.receipt) IS NOT (OLD.issuer, OLD.receipt) -- SQLite
    OR (OLD.incoming_id IS NOT NULL AND NEW.incoming_id IS NOT OLD.incoming_id) -- SQLite
    OR (OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS NULL) -- SQLite
    OR EXISTS (SELECT 1 FROM receipt_claims WHERE (issuer, receipt) IS NOT (OLD.issuer, OLD.receipt) -- SQLite
        AND (transaction_id = NEW.transaction_id OR incoming_id = NEW.incoming_id)) -- SQLite
BEGIN SELECT RAISE(ABORT, 'a claim of a receipt is never edited'); END; -- SQLite
"""

_COLUMNS = {
    "transactions": ("same_money_as", "contested_id"),
    "incoming_payments": ("waits_for",),
}

# Each sum moves once, and back once.
_EACH_WAY = (
    "ledger_transfers (transaction_id, purpose, (CASE kind WHEN 'post' THEN 'move' ELSE kind END), "
    "(debit_account_id < credit_account_id))"
)

# A payer's payment gives back the money that counts for the collection of a client: one more move, the other way.
_OF_THE_LEDGER = """
DROP INDEX ledger_transfers_effects; -- SQLite

DROP INDEX CONCURRENTLY IF EXISTS ledger_transfers_effects; -- PostgreSQL

DROP TRIGGER ledger_transfers_rules; -- SQLite

CREATE TRIGGER ledger_transfers_rules BEFORE INSERT ON ledger_transfers BEGIN -- SQLite
    SELECT RAISE(ABORT, 'rows of ledger_transfers are never replaced') WHERE EXISTS ( -- SQLite
        SELECT 1 FROM ledger_transfers -- SQLite
        WHERE id = NEW.id OR position = NEW.position OR hold_id = NEW.hold_id -- SQLite
            OR (transaction_id = NEW.transaction_id AND purpose = NEW.purpose -- SQLite
                AND (debit_account_id, credit_account_id) IS NOT (NEW.credit_account_id, NEW.debit_account_id) -- SQLite
                AND (kind = NEW.kind OR (kind IN ('move', 'post') AND NEW.kind IN ('move', 'post'))))); -- SQLite
    SELECT RAISE(ABORT, 'both accounts of a transfer belong to its client') WHERE ( -- SQLite
        SELECT count(*) FROM ledger_accounts -- SQLite
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND client_id = NEW.client_id) <> 2; -- SQLite
    SELECT RAISE(ABORT, 'a transfer moves what its transaction promised') WHERE NOT EXISTS ( -- SQLite
        SELECT 1 FROM transactions WHERE id = NEW.transaction_id AND client_id = NEW.client_id -- SQLite
            AND NEW.amount_cents = CASE NEW.purpose WHEN 'amount' THEN amount_cents ELSE fee_cents END); -- SQLite
    SELECT RAISE(ABORT, 'a post or void repeats its hold') WHERE NEW.hold_id IS NOT NULL AND NOT EXISTS ( -- SQLite
        SELECT 1 FROM ledger_transfers AS held WHERE held.id = NEW.hold_id AND held.kind = 'hold' -- SQLite
            AND held.transaction_id = NEW.transaction_id AND held.purpose = NEW.purpose -- SQLite
            AND held.debit_account_id = NEW.debit_account_id -- SQLite
            AND held.credit_account_id = NEW.credit_account_id -- SQLite
            AND held.amount_cents = NEW.amount_cents); -- SQLite
    SELECT RAISE(ABORT, 'a hold comes first and is ended before anything else moves') -- SQLite
        WHERE NEW.hold_id IS NULL AND EXISTS ( -- SQLite
        SELECT 1 FROM ledger_transfers AS earlier -- SQLite
        WHERE earlier.transaction_id = NEW.transaction_id AND earlier.purpose = NEW.purpose -- SQLite
            AND earlier.id <> NEW.id -- SQLite
            AND (NEW.kind = 'hold' OR (earlier.kind = 'hold' AND NOT EXISTS ( -- SQLite
                SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id)))); -- SQLite
END; -- SQLite
"""

# A success that its own notice had reported first: until now such a notice stayed held, and was left out of the list.
_REPORTED_BEFORE = """
UPDATE incoming_payments SET status = 'booked', transaction_id = ({requested})
WHERE status = 'held' AND EXISTS ({requested})
"""
_REQUESTED = """
    SELECT id FROM transactions AS paid
    WHERE paid.provider_transaction_id = incoming_payments.provider_transaction_id
        AND paid.provider = incoming_payments.provider AND paid.amount_cents = incoming_payments.amount_cents
        AND paid.type = 'collection' AND paid.status IN ('succeeded', 'reversed')
        AND NOT EXISTS (SELECT 1 FROM incoming_payments AS other WHERE other.transaction_id = paid.id)
    ORDER BY id LIMIT 1"""
_ROWS_AT_ONCE = 500
_FIRST = "00000000-0000-0000-0000-000000000000"
_PAID = """SELECT id, CASE type WHEN 'settlement' THEN 'bank' ELSE provider END, provider_transaction_id
FROM transactions WHERE id > {mark} AND provider_transaction_id IS NOT NULL
    AND type IN ('collection', 'refund', 'settlement') AND status IN ('succeeded', 'reversed')
ORDER BY id LIMIT {mark}"""
_CAME = "SELECT id, provider, provider_transaction_id FROM incoming_payments WHERE id > {mark} ORDER BY id LIMIT {mark}"
_CLAIM = "INSERT INTO receipt_claims (issuer, receipt, transaction_id) VALUES {rows} ON CONFLICT DO NOTHING"
_KNOW = """INSERT INTO receipt_claims (issuer, receipt, incoming_id) VALUES {rows}
ON CONFLICT (issuer, receipt) DO UPDATE SET incoming_id = excluded.incoming_id
WHERE receipt_claims.incoming_id IS NULL"""


def up(migrator, db):
    for table, columns in _COLUMNS.items():
        for column in columns:
            _add_column(db, table, column)
    execute_statements(db, _TABLE)
    db.execute_sql(_REPORTED_BEFORE.format(requested=_REQUESTED))
    _fill(db, _PAID, _CLAIM)
    _fill(db, _CAME, _KNOW)
    execute_statements(db, _TRIGGERS)
    build_index(db, "transactions_contested", "transactions (contested_id) WHERE contested_id IS NOT NULL")
    build_index(db, "incoming_payments_waiting", "incoming_payments (waits_for) WHERE waits_for IS NOT NULL")
    build_index(db, "ledger_transfers_effects_each_way", _EACH_WAY, is_unique=True)
    execute_statements(db, _OF_THE_LEDGER)


def _add_column(db, table, column):
    # Nullable and without a default: PostgreSQL changes no row.
    if is_postgres():
        db.execute_sql(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} uuid")
    else:
        db.execute_sql(f"ALTER TABLE {table} ADD COLUMN {column} text")


def _fill(db, query, claim):
    """Claim the receipts of all rows of a query; of two rows with one receipt the earlier has the claim."""
    mark = "%s" if is_postgres() else "?"
    low = _FIRST
    while rows := db.execute_sql(query.format(mark=mark), (low, _ROWS_AT_ONCE)).fetchall():
        claims = {}
        for row, issuer, written in rows:
            if issuer and (receipt := canonical_receipt(written)):
                claims.setdefault((issuer, receipt), str(row))
        if claims:
            values = [value for (issuer, receipt), row in claims.items() for value in (issuer, receipt, row)]
            places = ", ".join([f"({mark}, {mark}, {mark})"] * len(claims))
            db.execute_sql(claim.format(rows=places), values)
        low = str(rows[-1][0])
