"""Sessions whose steps change no index: when the worker looks at each next has a column that steps leave alone.

PostgreSQL writes a changed row beside the old one, without a word to any index, where its page has room.
"""

from ussd_server.models.base import is_postgres
from ussd_server.models.schema import execute_all

# Long ago, so that sessions under way, and those that an older program still begins, are looked at soon.
_COLUMN = """
ALTER TABLE ussd_sessions ADD COLUMN due_at {moment} NOT NULL DEFAULT '2000-01-01T00:00:00.000Z';;
DROP INDEX ussd_sessions_expiring;;
CREATE INDEX ussd_sessions_due ON ussd_sessions (due_at) WHERE status = 'active'
"""
# A conversation of usual length is kept as it is; compressing it at every step would cost more than writing it.
_POSTGRES_ROOM = "ALTER TABLE ussd_sessions SET (fillfactor = 50, toast_tuple_target = 4080)"


def up(migrator, db):
    execute_all(db, _COLUMN)
    if is_postgres():
        execute_all(db, _POSTGRES_ROOM)
