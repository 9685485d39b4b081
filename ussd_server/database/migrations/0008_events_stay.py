"""What clients were told stays as it was told; events of transactions stay for ever, as their stories do."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# Everything but the mark that its deliveries are still to be made.
_TOLD = "id, client_id, type, object_id, sequence, payload, created_at"
_STAYS = "OLD.type LIKE 'transaction.%'"

_POSTGRES_RULES = f"""
CREATE TRIGGER events_unedited BEFORE UPDATE OF {_TOLD} ON events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER events_keep BEFORE DELETE ON events
    FOR EACH ROW WHEN ({_STAYS}) EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER events_keep_all BEFORE TRUNCATE ON events EXECUTE FUNCTION refuse_change()
"""
# REPLACE removes the row in its way without asking any trigger for deletions.
_SQLITE_RULES = f"""
CREATE TRIGGER events_unreplaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
    OR EXISTS (SELECT 1 FROM events WHERE object_id = NEW.object_id AND sequence = NEW.sequence)
BEGIN SELECT RAISE(ABORT, 'rows of events are never replaced'); END;;
CREATE TRIGGER events_unedited BEFORE UPDATE OF {_TOLD} ON events
BEGIN SELECT RAISE(ABORT, 'rows of events are never changed'); END;;
CREATE TRIGGER events_keep BEFORE DELETE ON events WHEN {_STAYS}
BEGIN SELECT RAISE(ABORT, 'rows of events are never removed'); END
"""


def up(migrator, db):
    execute_all(db, _POSTGRES_RULES if is_postgres() else _SQLITE_RULES)
