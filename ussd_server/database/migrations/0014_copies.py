"""Copies of payouts name the payout whose rows they pay; that never changes."""

from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

_COLUMN = """
ALTER TABLE payouts ADD COLUMN copied_from uuid;

CREATE INDEX payouts_copies ON payouts (copied_from) WHERE copied_from IS NOT NULL;
"""


def up(migrator, db):
    execute_statements(db, _COLUMN)
    changed = "NEW.copied_from {} OLD.copied_from"
    if is_postgres():
        action = f"WHEN ({changed.format('IS DISTINCT FROM')}) EXECUTE FUNCTION refuse_change()"
    else:
        action = f"WHEN {changed.format('IS NOT')} BEGIN SELECT RAISE(ABORT, 'copied_from is never changed'); END"
    db.execute_sql(f"CREATE TRIGGER payouts_copied BEFORE UPDATE ON payouts FOR EACH ROW {action}")
