"""Payouts: the payout whose rows a copy pays, and the key for whose daily limit the rows count."""

from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

_COLUMNS = """
ALTER TABLE payouts ADD COLUMN copied_from uuid;

ALTER TABLE payouts ADD COLUMN counted_key_id uuid;

CREATE INDEX payouts_copies ON payouts (copied_from) WHERE copied_from IS NOT NULL;

UPDATE payouts SET counted_key_id = key_id WHERE key_id IS NOT NULL AND status IN ('approved', 'running');
"""
_EDITED = """NEW.copied_from {differs} OLD.copied_from
    OR (OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL
        AND NEW.counted_key_id {differs} OLD.counted_key_id)"""


def up(migrator, db):
    execute_statements(db, _COLUMNS)
    if is_postgres():
        action = f"WHEN ({_EDITED.format(differs='IS DISTINCT FROM')}) EXECUTE FUNCTION refuse_change()"
    else:
        edited = _EDITED.format(differs="IS NOT")
        action = f"WHEN {edited} BEGIN SELECT RAISE(ABORT, 'what a payout copies and counts for is never edited'); END"
    db.execute_sql(f"CREATE TRIGGER payouts_bound BEFORE UPDATE ON payouts FOR EACH ROW {action}")
