"""The reason that an operator gives, in the audit trail."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres


def up(migrator, db):
    if_missing = "IF NOT EXISTS " if is_postgres() else ""
    # Nullable and without a default: PostgreSQL changes no row, and code that does not know the column writes on.
    execute_all(db, f"ALTER TABLE audit_events ADD COLUMN {if_missing}reason text")
