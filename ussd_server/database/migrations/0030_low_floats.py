"""Since when a float is low, and an index for the history of what concerns no client, such as providers."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    if_missing = "IF NOT EXISTS " if is_postgres() else ""
    # Nullable and without a default: code that does not know the column writes on.
    execute_all(db, f"ALTER TABLE provider_floats ADD COLUMN {if_missing}low_since {{moment}}")
    # Logins that failed under unknown addresses have no client either; they have no object.
    condition = "client_id IS NULL AND object_id IS NOT NULL"
    build_index(db, "audit_events_without_client", f"audit_events (object_id, id) WHERE {condition}")
