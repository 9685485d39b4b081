"""Names at providers: a row of a payout that was cancelled unsent gives its own to the row of the next approval."""

import re

from ussd_server.database.fixed_columns import with_lists
from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

_NAME = re.compile(r"(?:NEW|OLD)\.provider_reference,\s+")
_FIXED = {row: _NAME.sub("", with_lists(f"fixed({row}, transactions)")) for row in ("NEW", "OLD")}
_IS_RELEASED = """OLD.status = 'failed' AND OLD.failure_code = 'CANCELLED' AND OLD.asked_at IS NULL
    AND OLD.payout_id IS NOT NULL AND NEW.provider_reference IS NOT NULL"""

_POSTGRES = f"""
CREATE OR REPLACE FUNCTION guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF ({_FIXED["NEW"]}) IS DISTINCT FROM ({_FIXED["OLD"]})
        OR (NEW.provider_reference IS DISTINCT FROM OLD.provider_reference AND NOT ({_IS_RELEASED})) THEN
        RAISE EXCEPTION 'what a transaction promised is never edited' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.status <> OLD.status AND NOT (
        (OLD.status IN ('created', 'submitted', 'pending', 'ambiguous') AND NEW.status NOT IN ('created', 'reversed')
            AND (NEW.status <> 'submitted' OR OLD.status = 'created'))
        OR (OLD.status = 'failed' AND NEW.status = 'succeeded' AND NEW.late)
        OR (OLD.status = 'succeeded' AND NEW.status = 'reversed')) THEN
        RAISE EXCEPTION 'a final state stays final' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
"""

# REPLACE would remove the row that has the name already.
_SQLITE = f"""
DROP TRIGGER transactions_promise;

CREATE TRIGGER transactions_promise BEFORE UPDATE ON transactions
WHEN ({_FIXED["NEW"]}) IS NOT ({_FIXED["OLD"]})
    OR (NEW.provider_reference IS NOT OLD.provider_reference AND NOT ({_IS_RELEASED}
        AND NOT EXISTS (SELECT 1 FROM transactions WHERE provider_reference = NEW.provider_reference)))
BEGIN SELECT RAISE(ABORT, 'what a transaction promised is never edited'); END;
"""


def up(migrator, db):
    execute_statements(db, _POSTGRES if is_postgres() else _SQLITE)
