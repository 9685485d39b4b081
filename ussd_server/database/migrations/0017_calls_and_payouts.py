"""The provider call behind a status change, the payout of a transaction, and indexes for finding transactions."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

_IF_MISSING = "IF NOT EXISTS " if is_postgres() else ""


def up(migrator, db):
    # Nullable and without a default: PostgreSQL changes no row, and code that does not know the columns writes on.
    execute_all(db, f"ALTER TABLE transaction_events ADD COLUMN {_IF_MISSING}provider_call text")
    execute_all(db, f"ALTER TABLE transactions ADD COLUMN {_IF_MISSING}payout_id {{id}}")
    build_index(db, "transactions_of_payout", "transactions (client_id, payout_id, id) WHERE payout_id IS NOT NULL")
    build_index(
        db,
        "transactions_provider_transaction_id",
        "transactions (provider_transaction_id, id) WHERE provider_transaction_id IS NOT NULL",
    )
    build_index(db, "transactions_request_id", "transactions (request_id, id) WHERE request_id IS NOT NULL")
