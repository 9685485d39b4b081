"""The call that recorded a transaction, under whose id its whole story can be found in the logs."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    # Nullable and without a default: PostgreSQL changes no row, and code that does not know the column writes on.
    execute_all(db, "ALTER TABLE transactions ADD COLUMN request_id text")
