"""The receipt that the payee's message shows, and the name under which a payment was sent where it has another form."""

from ussd_server.database.schema import build_index, execute_statements
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

_COLUMNS = """
ALTER TABLE transactions ADD COLUMN IF NOT EXISTS provider_receipt text; -- PostgreSQL

ALTER TABLE transactions ADD COLUMN IF NOT EXISTS sent_reference text; -- PostgreSQL

ALTER TABLE transactions ADD COLUMN provider_receipt text; -- SQLite

ALTER TABLE transactions ADD COLUMN sent_reference text; -- SQLite
"""


def up(migrator, db):
    execute_statements(db, _COLUMNS)
    build_index(
        db, "transactions_provider_receipt", "transactions (provider_receipt, id) WHERE provider_receipt IS NOT NULL"
    )
