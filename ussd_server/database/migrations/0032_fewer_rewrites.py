"""Fewer rewrites of rows with all of their indexes: a queue of events for the relay, and room for changes."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

_TABLE = "CREATE TABLE pending_events (event_id {id} PRIMARY KEY) {strict_by_key};;"

# An earlier version marks its events in their rows (`is_pending`); the relay queues those itself.
_POSTGRES_RULES = """
CREATE FUNCTION queue_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pending_events (event_id) VALUES (NEW.id);
    RETURN NULL;
END $$;;
CREATE TRIGGER events_queue AFTER INSERT ON events FOR EACH ROW WHEN (NOT NEW.is_pending) EXECUTE FUNCTION queue_event()
"""
_SQLITE_RULES = """
CREATE TRIGGER events_queue AFTER INSERT ON events WHEN NOT NEW.is_pending
BEGIN INSERT INTO pending_events (event_id) VALUES (NEW.id); END
"""


# A change of columns without an index stays in its page, beside the row's earlier version, if the page has room.
_ROOM = ";;ALTER TABLE transactions SET (fillfactor = 60)"


def up(migrator, db):
    execute_all(db, _TABLE + (_POSTGRES_RULES + _ROOM if is_postgres() else _SQLITE_RULES))
