"""An example, which changes nothing: a migration has this form, with the next number and a name for what it adds.

It only adds, so that the version before it serves callers beside the new one: columns that may be null, tables, and
indexes. It never changes once it was released.
"""

from ussd_server.database.schema import build_index, execute_statements
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

# One after the other, each with an empty line behind it: ALTER TABLE transactions ADD COLUMN IF NOT EXISTS ...
_STATEMENTS = ""
# By name: "transactions (column, id) WHERE column IS NOT NULL".
_INDEXES: dict[str, str] = {}


def up(migrator, db):
    execute_statements(db, _STATEMENTS)
    for name, definition in _INDEXES.items():
        build_index(db, name, definition)
