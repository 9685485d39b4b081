"""Mails that wait to be sent or were sent, what people switched off, and since when a provider is away."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    if_missing = "IF NOT EXISTS " if is_postgres() else ""
    execute_all(
        db,
        """
        CREATE TABLE IF NOT EXISTS mails (
            id {id} PRIMARY KEY,
            kind text NOT NULL,
            client_id {id},
            person_id {id},
            recipient text NOT NULL,
            parameters text NOT NULL,
            occasion text,
            status text NOT NULL CHECK (status IN ('waiting', 'sent', 'failed')),
            attempts integer NOT NULL,
            give_up_at {moment} NOT NULL,
            due_at {moment},
            lease_token text,
            trouble text,
            answer_code integer,
            created_at {moment} NOT NULL,
            attempted_at {moment},
            completed_at {moment}
        ) {strict};;
        CREATE INDEX IF NOT EXISTS mails_due ON mails (due_at) WHERE due_at IS NOT NULL;;
        CREATE INDEX IF NOT EXISTS mails_of_client ON mails (client_id, id);;
        CREATE INDEX IF NOT EXISTS mails_of_status ON mails (status, id);;
        CREATE INDEX IF NOT EXISTS mails_of_person ON mails (person_id, id) WHERE person_id IS NOT NULL;;
        CREATE UNIQUE INDEX IF NOT EXISTS mails_once ON mails (occasion, recipient) WHERE occasion IS NOT NULL;;
        CREATE TABLE IF NOT EXISTS unwanted_mails (
            person_id {id} NOT NULL,
            kind text NOT NULL,
            PRIMARY KEY (person_id, kind)
        ) {strict_by_key}
        """,
    )
    # Nullable and without a default: code that does not know the column writes on.
    execute_all(db, f"ALTER TABLE provider_floats ADD COLUMN {if_missing}away_since {{moment}}")
    build_index(db, "api_keys_expiring", "api_keys (expires_at) WHERE expires_at IS NOT NULL")
