"""Events for clients."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE events (
            id {id} PRIMARY KEY,
            client_id {id} NOT NULL REFERENCES clients (id),
            type text NOT NULL,
            object_id text NOT NULL,
            sequence integer NOT NULL CHECK (sequence > 0),
            payload text NOT NULL,
            created_at {moment} NOT NULL,
            is_pending {bool} NOT NULL DEFAULT true,
            UNIQUE (object_id, sequence)
        ) {strict};;
        CREATE INDEX events_newest ON events (client_id, id);;
        CREATE INDEX events_newest_of_type ON events (client_id, type, id);;
        CREATE INDEX events_pending ON events (id) WHERE is_pending
        """,
    )
