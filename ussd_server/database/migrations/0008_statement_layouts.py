"""Layouts of statements that operators kept: what the columns hold, by the provider and the headings."""

from ussd_server.database.schema import execute_statements

_TABLE = """
CREATE TABLE statement_layouts (
    id uuid PRIMARY KEY,
    provider text NOT NULL,
    key text NOT NULL,
    headings text NOT NULL,
    columns text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (provider, key)
);
"""


def up(migrator, db):
    execute_statements(db, _TABLE)
