"""Audit events name the key, the money and who decided; an index finds what one request made or changed."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    if_missing = "IF NOT EXISTS " if is_postgres() else ""
    # Nullable and without a default: code that does not know the columns writes on.
    for column in ("key_id {id}", "amount_cents bigint", "phone_number text", "decided_by text"):
        execute_all(db, f"ALTER TABLE audit_events ADD COLUMN {if_missing}{column}")
    build_index(db, "audit_events_of_request", "audit_events (request_id, client_id, id)")
