"""Pages of a client's sessions of one status read those sessions only."""

from ussd_server.database.schema import build_index
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    # There is none of a service code: a connection that was opened beside a small table would read it for each dial.
    build_index(db, "ussd_sessions_of_status", "ussd_sessions (client_id, status, id)")
