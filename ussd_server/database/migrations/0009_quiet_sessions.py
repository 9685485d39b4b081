"""Sessions whose steps change no index: when the worker looks at each next has a column that steps leave alone.

PostgreSQL writes a changed row beside the old one, without a word to any index, where its page has room.
"""

from ussd_server.database.schema import build_index, drop_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

# Long ago, so that sessions under way, and those that an older program still begins, are looked at soon.
_COLUMN = """
ALTER TABLE ussd_sessions ADD COLUMN {unless_there} due_at {moment} NOT NULL DEFAULT '2000-01-01T00:00:00.000Z'
"""
# A conversation of usual length is kept as it is; compressing it at every step would cost more than writing it.
_POSTGRES_ROOM = "ALTER TABLE ussd_sessions SET (fillfactor = 50, toast_tuple_target = 4080)"


def up(migrator, db):
    execute_all(db, _COLUMN.replace("{unless_there}", "IF NOT EXISTS" if is_postgres() else ""))
    build_index(db, "ussd_sessions_due", "ussd_sessions (due_at) WHERE status = 'active'")
    drop_index(db, "ussd_sessions_expiring")
    if is_postgres():
        execute_all(db, _POSTGRES_ROOM)
