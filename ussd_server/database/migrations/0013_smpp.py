"""Links to operators by SMPP, and the state of each bind as its process wrote it last."""

from ussd_server.database.schema import execute_statements

_TABLES = """
CREATE TABLE smpp_links (
    id uuid PRIMARY KEY REFERENCES channels (id),
    url text NOT NULL,
    system_id text NOT NULL,
    password_sealed bytea NOT NULL,
    dialect text NOT NULL,
    binds integer NOT NULL CHECK (binds BETWEEN 1 AND 16),
    submit_window integer NOT NULL CHECK (submit_window BETWEEN 1 AND 1000),
    authority text
);

CREATE TABLE smpp_binds (
    id text PRIMARY KEY,
    channel_id uuid NOT NULL REFERENCES channels (id),
    process text NOT NULL,
    number integer NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    counts text NOT NULL
);
"""


def up(migrator, db):
    execute_statements(db, _TABLES)
