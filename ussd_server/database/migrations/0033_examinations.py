"""The last results of the doctor and of the check, and what operators did, newest first."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE IF NOT EXISTS examinations (
            kind text PRIMARY KEY CHECK (kind IN ('doctor', 'check')),
            ended_at {moment} NOT NULL,
            machine text NOT NULL,
            operator text,
            result text NOT NULL
        ) {strict}
        """,
    )
    build_index(db, "audit_events_of_operators", "audit_events (id) WHERE actor = 'operator' OR client_id IS NULL")
    build_index(db, "audit_events_of_operator", "audit_events (operator, id) WHERE operator IS NOT NULL")
