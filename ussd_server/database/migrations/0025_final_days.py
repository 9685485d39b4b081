"""Indexes for the daily report: payments by the moment at which they became final, and late successes."""

from ussd_server.database.schema import build_index
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    final = "transactions (client_id, completed_at) WHERE completed_at IS NOT NULL"
    build_index(db, "transactions_final", final)
    build_index(db, "transactions_late", "transactions (client_id, completed_at) WHERE late")
