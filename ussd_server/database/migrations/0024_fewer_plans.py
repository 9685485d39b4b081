"""Payments and steps of sessions with fewer queries planned and started in the database."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# Does what it did since the ledger began, with the same refusals, in half of the queries: starting a query takes longer
# than its look-ups. Accounts are locked in a query of their own, so that what a transfer waited for is visible to the
# checks.
_LEDGER_APPLY = """
CREATE OR REPLACE FUNCTION ledger_apply() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own_accounts bigint;
    refusal text;
BEGIN
    -- Always in the order of the ids, so that two transfers between the same accounts cannot wait for each other.
    SELECT count(*) INTO own_accounts
        FROM (
            SELECT client_id FROM ledger_accounts WHERE id IN (NEW.debit_account_id, NEW.credit_account_id)
            ORDER BY id FOR NO KEY UPDATE
        ) AS locked
        WHERE client_id = NEW.client_id;
    SELECT CASE
        WHEN own_accounts <> 2 THEN 'both accounts of a transfer belong to its client'
        WHEN NOT EXISTS (
            SELECT 1 FROM transactions WHERE id = NEW.transaction_id AND client_id = NEW.client_id
                AND NEW.amount_cents = CASE NEW.purpose WHEN 'amount' THEN amount_cents ELSE fee_cents END)
            THEN 'a transfer moves what its transaction promised'
        WHEN NEW.hold_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM ledger_transfers AS held WHERE held.id = NEW.hold_id AND held.kind = 'hold'
                AND held.transaction_id = NEW.transaction_id AND held.purpose = NEW.purpose
                AND held.debit_account_id = NEW.debit_account_id AND held.credit_account_id = NEW.credit_account_id
                AND held.amount_cents = NEW.amount_cents)
            THEN 'a post or void repeats its hold'
        WHEN NEW.hold_id IS NULL AND EXISTS (
            SELECT 1 FROM ledger_transfers AS earlier
            WHERE earlier.transaction_id = NEW.transaction_id AND earlier.purpose = NEW.purpose AND earlier.id <> NEW.id
                AND (NEW.kind = 'hold' OR (earlier.kind = 'hold' AND NOT EXISTS (
                    SELECT 1 FROM ledger_transfers WHERE hold_id = earlier.id))))
            THEN 'a hold comes first and is ended before anything else moves'
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
"""

# These functions and the triggers below them find rows by whole keys, so no value would change a plan. PostgreSQL would
# plan some of their queries again for each row.
_PLANS = ";;".join(
    f"ALTER FUNCTION {function}(jsonb) SET plan_cache_mode = force_generic_plan"
    for function in ("transactions_record", "ledger_post", "ussd_step")
)


def up(migrator, db):
    if is_postgres():
        execute_all(db, _LEDGER_APPLY + _PLANS)
