"""Approvals of payouts: each one kept, withdrawn when its giver is revoked; rules of approval; who invited a person."""

from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

# The triggers of 1.0.0, and beside them: an approval that is withdrawn makes its payout a draft again.
_JUDGED = """
    NEW.id, NEW.client_id, NEW.reference, NEW.description, NEW.request_digest, NEW.item_count,
    NEW.ready_count, NEW.invalid_count, NEW.total_amount_cents, NEW.created_by, NEW.people,
    NEW.created_at, NEW.send_at"""
_CHANGED = f"""({_JUDGED}) IS DISTINCT FROM ({_JUDGED.replace("NEW.", "OLD.")})
    OR (OLD.items_digest IS NOT NULL AND NEW.items_digest IS DISTINCT FROM OLD.items_digest)
    OR (OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS DISTINCT FROM OLD.cancelled_at)
    OR (OLD.completed_at IS NOT NULL AND NEW.completed_at IS DISTINCT FROM OLD.completed_at)
    OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
    OR (OLD.status <> 'draft' AND NEW.replaced_by IS DISTINCT FROM OLD.replaced_by)
    OR NEW.reservation_number < OLD.reservation_number
    OR (NOT (OLD.status IN ('approved', 'running') AND NEW.status = 'draft') AND (
        (OLD.approved_by IS NOT NULL AND NEW.approved_by IS DISTINCT FROM OLD.approved_by)
        OR (OLD.approved_at IS NOT NULL
            AND (NEW.approved_at, NEW.key_id) IS DISTINCT FROM (OLD.approved_at, OLD.key_id))
        OR (OLD.approved_at IS NOT NULL AND NEW.approved_fee_cents IS DISTINCT FROM OLD.approved_fee_cents)
        OR (OLD.reserved_at IS NOT NULL AND NEW.reserved_at IS DISTINCT FROM OLD.reserved_at)
        OR (OLD.needs_money_at IS NOT NULL AND NEW.needs_money_at IS DISTINCT FROM OLD.needs_money_at)
        OR ((OLD.reserved_at IS NOT NULL OR OLD.status NOT IN ('draft', 'approved'))
            AND NEW.total_fee_cents <> OLD.total_fee_cents)))"""
_MOVED_BACK = """NEW.status <> OLD.status AND NOT (
    (OLD.status = 'draft' AND NEW.status IN ('approved', 'cancelled'))
    OR (OLD.status = 'approved' AND NEW.status IN ('draft', 'running', 'completed', 'cancelled'))
    OR (OLD.status = 'running' AND NEW.status IN ('draft', 'completed', 'cancelled')))"""
_ITEM_CHANGED = """(fixed(NEW, payout_items)) IS DISTINCT FROM (fixed(OLD, payout_items))
    OR (OLD.transaction_id IS NOT NULL AND NEW.transaction_id IS NOT NULL
        AND (NEW.transaction_id, NEW.fee_cents) IS DISTINCT FROM (OLD.transaction_id, OLD.fee_cents))"""
_APPROVAL_CHANGED = """(fixed(NEW, payout_approvals)) IS DISTINCT FROM (fixed(OLD, payout_approvals))
    OR (OLD.withdrawn_at IS NOT NULL AND NEW.withdrawn_at IS DISTINCT FROM OLD.withdrawn_at)"""

_TABLES = """
ALTER TABLE payouts ADD COLUMN reservation_number integer NOT NULL DEFAULT 1 CHECK (reservation_number > 0);

ALTER TABLE payouts ADD COLUMN approved_fee_cents bigint CHECK (approved_fee_cents >= 0);

ALTER TABLE payouts ADD COLUMN withdrawn_at timestamptz;

ALTER TABLE payouts ADD COLUMN withdrawal_reason text;

ALTER TABLE payouts ADD COLUMN revoked_at timestamptz CHECK (revoked_at IS NULL OR status = 'cancelled');

ALTER TABLE payouts ADD COLUMN cancel_note text;

ALTER TABLE users ADD COLUMN invited_by text;

-- People who read the secret of a key count as people behind it, unless the operator ends that for a client.
UPDATE clients SET counts_readers = true;

DROP INDEX payouts_reference;

CREATE UNIQUE INDEX payouts_reference ON payouts (client_id, reference)
    WHERE replaced_by IS NULL AND revoked_at IS NULL;

-- Lists and the search find revoked drafts by their reference, too.
CREATE INDEX payouts_named ON payouts (client_id, reference) WHERE replaced_by IS NULL;

CREATE INDEX payouts_open ON payouts (client_id) WHERE status IN ('draft', 'approved', 'running');

CREATE INDEX deleted_api_keys_id ON deleted_api_keys (id);

CREATE TABLE payout_approvals (
    id uuid PRIMARY KEY, -- fixed
    payout_id uuid NOT NULL REFERENCES payouts (id), -- fixed
    made_by uuid NOT NULL, -- fixed
    people text NOT NULL, -- fixed
    key_id uuid, -- fixed
    operators text, -- fixed
    note text, -- fixed
    total_fee_cents bigint CHECK (total_fee_cents >= 0), -- fixed
    created_at timestamptz NOT NULL, -- fixed
    withdrawn_at timestamptz,
    digest text NOT NULL
); -- by key
CREATE INDEX payout_approvals_of_payout ON payout_approvals (payout_id, id);
CREATE INDEX payout_approvals_standing ON payout_approvals (made_by) WHERE withdrawn_at IS NULL;

CREATE TABLE approval_rules (
    client_id uuid PRIMARY KEY REFERENCES clients (id),
    rules text NOT NULL,
    proposed text,
    proposed_by uuid,
    updated_at timestamptz NOT NULL,
    digest text NOT NULL,
    CHECK ((proposed IS NULL) = (proposed_by IS NULL))
); -- by key
"""

_POSTGRES = f"""
DROP TRIGGER payouts_judged ON payouts;

CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN ({_CHANGED}) EXECUTE FUNCTION guard_payout_item();

DROP TRIGGER payouts_status ON payouts;

CREATE TRIGGER payouts_status BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN ({_MOVED_BACK}) EXECUTE FUNCTION guard_payout_status();

DROP TRIGGER payout_items_judged ON payout_items;

CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items
    FOR EACH ROW WHEN ({_ITEM_CHANGED}) EXECUTE FUNCTION guard_payout_item();

CREATE TRIGGER payout_approvals_keep BEFORE DELETE ON payout_approvals
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_approvals_keep_all BEFORE TRUNCATE ON payout_approvals EXECUTE FUNCTION refuse_change();

CREATE TRIGGER payout_approvals_given BEFORE UPDATE ON payout_approvals
    FOR EACH ROW WHEN ({_APPROVAL_CHANGED}) EXECUTE FUNCTION refuse_change();

CREATE TRIGGER approval_rules_keep BEFORE DELETE ON approval_rules
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER approval_rules_keep_all BEFORE TRUNCATE ON approval_rules EXECUTE FUNCTION refuse_change();
"""

_EDITED = "BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END"
_SQLITE = f"""
DROP TRIGGER payouts_unreplaced;

CREATE TRIGGER payouts_unreplaced BEFORE INSERT ON payouts
WHEN EXISTS (SELECT 1 FROM payouts WHERE id = NEW.id
    OR (client_id = NEW.client_id AND reference = NEW.reference AND replaced_by IS NULL AND revoked_at IS NULL))
BEGIN SELECT RAISE(ABORT, 'rows of payouts are never replaced'); END;

DROP TRIGGER payouts_judged;

CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts WHEN {_CHANGED}
{_EDITED};

DROP TRIGGER payouts_status;

CREATE TRIGGER payouts_status BEFORE UPDATE OF status ON payouts WHEN {_MOVED_BACK}
BEGIN SELECT RAISE(ABORT, 'the status of a payout never goes back'); END;

DROP TRIGGER payout_items_judged;

CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items WHEN {_ITEM_CHANGED}
{_EDITED};

CREATE TRIGGER payout_approvals_keep BEFORE DELETE ON payout_approvals
BEGIN SELECT RAISE(ABORT, 'rows of payout_approvals are never removed'); END;

CREATE TRIGGER payout_approvals_unreplaced BEFORE INSERT ON payout_approvals
WHEN EXISTS (SELECT 1 FROM payout_approvals WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'rows of payout_approvals are never replaced'); END;

CREATE TRIGGER payout_approvals_given BEFORE UPDATE ON payout_approvals WHEN {_APPROVAL_CHANGED}
BEGIN SELECT RAISE(ABORT, 'rows of payout_approvals are never changed'); END;

CREATE TRIGGER approval_rules_keep BEFORE DELETE ON approval_rules
BEGIN SELECT RAISE(ABORT, 'rows of approval_rules are never removed'); END;
""".replace("IS DISTINCT FROM", "IS NOT")


def up(migrator, db):
    execute_statements(db, _TABLES)
    execute_statements(db, _POSTGRES if is_postgres() else _SQLITE)
