"""Digests of payouts and of past days, rules that keep what was judged, and the binding of every idempotency key."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

_JUDGED_ITEM = (
    "payout_id", "line", "phone_number", "amount_cents", "provider", "reference", "description", "name", "is_ready",
    "problems",
)  # fmt: skip
_JUDGED_PAYOUT = (
    "id", "client_id", "reference", "description", "request_digest", "item_count", "ready_count", "invalid_count",
    "total_amount_cents", "created_by", "people", "created_at",
)  # fmt: skip
# Set once.
_KEPT_ONCE_SET = ("items_digest", "approved_by", "approved_at", "cancelled_at", "completed_at")

_EDITED_ITEM = f"""{" OR ".join(f"NEW.{name} {{differs}} OLD.{name}" for name in _JUDGED_ITEM)}
    OR (OLD.transaction_id IS NOT NULL
        AND (NEW.transaction_id {{differs}} OLD.transaction_id OR NEW.fee_cents {{differs}} OLD.fee_cents))"""
_EDITED_PAYOUT = f"""{" OR ".join(f"NEW.{name} {{differs}} OLD.{name}" for name in _JUDGED_PAYOUT)}
    OR {" OR ".join(f"(OLD.{name} IS NOT NULL AND NEW.{name} {{differs}} OLD.{name})" for name in _KEPT_ONCE_SET)}
    OR (OLD.status <> 'draft' AND NEW.total_fee_cents <> OLD.total_fee_cents)"""
_FORBIDDEN_STEP = """NEW.status <> OLD.status AND NOT (
        (OLD.status = 'draft' AND NEW.status IN ('approved', 'cancelled'))
        OR (OLD.status = 'approved' AND NEW.status IN ('running', 'completed', 'cancelled'))
        OR (OLD.status = 'running' AND NEW.status IN ('completed', 'cancelled')))"""

_TABLE = """
CREATE TABLE history_digests (
    id {id} PRIMARY KEY,
    day text NOT NULL,
    first_day text NOT NULL,
    clients text NOT NULL,
    digest text NOT NULL
) {strict_by_key};;
"""

_POSTGRES_RULES = f"""
CREATE FUNCTION guard_payout_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was judged of a payout is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;;
CREATE FUNCTION guard_payout_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the status of a payout never goes back' USING ERRCODE = 'integrity_constraint_violation';
END $$;;
CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items
    FOR EACH ROW WHEN ({_EDITED_ITEM.format(differs="IS DISTINCT FROM")}) EXECUTE FUNCTION guard_payout_item();;
CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN ({_EDITED_PAYOUT.format(differs="IS DISTINCT FROM")}) EXECUTE FUNCTION guard_payout_item();;
CREATE TRIGGER payouts_status BEFORE UPDATE ON payouts
    FOR EACH ROW WHEN ({_FORBIDDEN_STEP}) EXECUTE FUNCTION guard_payout_status();;
CREATE TRIGGER payout_items_keep BEFORE DELETE ON payout_items FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER payout_items_keep_all BEFORE TRUNCATE ON payout_items EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER payouts_keep BEFORE DELETE ON payouts FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER payouts_keep_all BEFORE TRUNCATE ON payouts EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER history_digests_keep BEFORE DELETE ON history_digests
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER history_digests_unedited BEFORE UPDATE ON history_digests
    FOR EACH ROW WHEN (NEW.clients <> OLD.clients) EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER history_digests_keep_all BEFORE TRUNCATE ON history_digests EXECUTE FUNCTION refuse_change();;
"""

# REPLACE removes the row in its way without asking any trigger for deletions.
_SQLITE_RULES = f"""
CREATE TRIGGER payout_items_judged BEFORE UPDATE ON payout_items WHEN {_EDITED_ITEM.format(differs="IS NOT")}
BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END;;
CREATE TRIGGER payouts_judged BEFORE UPDATE ON payouts WHEN {_EDITED_PAYOUT.format(differs="IS NOT")}
BEGIN SELECT RAISE(ABORT, 'what was judged of a payout is never edited'); END;;
CREATE TRIGGER payouts_status BEFORE UPDATE OF status ON payouts WHEN {_FORBIDDEN_STEP}
BEGIN SELECT RAISE(ABORT, 'the status of a payout never goes back'); END;;
CREATE TRIGGER payout_items_keep BEFORE DELETE ON payout_items
BEGIN SELECT RAISE(ABORT, 'rows of payout_items are never removed'); END;;
CREATE TRIGGER payout_items_unreplaced BEFORE INSERT ON payout_items
WHEN EXISTS (SELECT 1 FROM payout_items WHERE payout_id = NEW.payout_id AND line = NEW.line)
BEGIN SELECT RAISE(ABORT, 'rows of payout_items are never replaced'); END;;
CREATE TRIGGER payouts_keep BEFORE DELETE ON payouts
BEGIN SELECT RAISE(ABORT, 'rows of payouts are never removed'); END;;
CREATE TRIGGER payouts_unreplaced BEFORE INSERT ON payouts
WHEN EXISTS (SELECT 1 FROM payouts WHERE id = NEW.id OR (client_id = NEW.client_id AND reference = NEW.reference))
BEGIN SELECT RAISE(ABORT, 'rows of payouts are never replaced'); END;;
CREATE TRIGGER history_digests_keep BEFORE DELETE ON history_digests
BEGIN SELECT RAISE(ABORT, 'rows of history_digests are never removed'); END;;
CREATE TRIGGER history_digests_unedited BEFORE UPDATE ON history_digests WHEN NEW.clients <> OLD.clients
BEGIN SELECT RAISE(ABORT, 'rows of history_digests are never changed'); END;;
"""

# Transactions that are older than the table of bindings.
_BINDINGS = """
INSERT INTO idempotency_keys (client_id, key, transaction_id, created_at)
SELECT client_id, idempotency_key, id, created_at FROM transactions AS named
WHERE idempotency_key IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM idempotency_keys WHERE client_id = named.client_id AND key = named.idempotency_key)
"""


def up(migrator, db):
    # Nullable: the version before makes and approves payouts without them.
    for column in ("items_digest", "draft_digest", "approval_digest"):
        execute_all(db, f"ALTER TABLE payouts ADD COLUMN {column} text")
    execute_all(db, _TABLE + (_POSTGRES_RULES if is_postgres() else _SQLITE_RULES) + _BINDINGS)
