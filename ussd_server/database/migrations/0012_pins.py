"""PINs of subscribers: the argon2 hash, encrypted, with the wrong tries and locks of a number."""

from ussd_server.database.schema import execute_statements

_TABLE = """
CREATE TABLE subscriber_pins (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    phone_number text NOT NULL,
    pin_sealed bytea,
    wrong_tries integer NOT NULL,
    last_step text,
    locked_at timestamptz,
    locked_until timestamptz,
    changed_at timestamptz NOT NULL,
    UNIQUE (client_id, phone_number)
);
"""


def up(migrator, db):
    execute_statements(db, _TABLE)
