"""An index of settlements, which are few among all transactions."""

from ussd_server.database.schema import build_index
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    build_index(db, "transactions_settlements", "transactions (status, id) WHERE type = 'settlement'")
