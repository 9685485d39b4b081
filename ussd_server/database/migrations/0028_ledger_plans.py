"""Rules of the ledger find each row by its whole key, also by plans that were made while the tables were small."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# A connection keeps a plan until the statistics of its tables change. In a small table every index looks alike, so a
# condition on the client made PostgreSQL read all rows of the client for each transfer. Only the key may select rows;
# everything else is compared afterwards.
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


_RULES = f"""
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
                AND (NEW.kind = 'hold' OR (earlier.kind = 'hold' AND NOT EXISTS (
                    SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id))))
            THEN '{_SECOND_HOLD}'
        END INTO refusal;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
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
CREATE OR REPLACE FUNCTION ledger_reserve() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    refusal text;
    change record;
BEGIN
    SELECT min(CASE
        WHEN (
            SELECT {_OWN_ACCOUNTS.format("made")} FROM ledger_accounts
            WHERE id IN (made.debit_account_id, made.credit_account_id)) <> 2 THEN '{_FOREIGN_ACCOUNT}'
        {_cases("made")}
        WHEN made.hold_id IS NULL AND (
            SELECT 1 FROM ledger_transfers AS earlier
            WHERE earlier.transaction_id = made.transaction_id AND earlier.purpose = made.purpose
                AND earlier.id <> made.id LIMIT 1) IS NOT NULL THEN '{_SECOND_HOLD}'
        END) INTO refusal FROM fresh AS made WHERE kind IN ('hold', 'void');
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
"""

# Covers the foreign keys too: their look-ups are planned while these functions run.
_PLANS = ";;".join(
    f"ALTER FUNCTION {function}(jsonb) SET enable_seqscan = off" for function in ("transactions_record", "ledger_post")
)


def up(migrator, db):
    if is_postgres():
        execute_all(db, _RULES + _PLANS)
