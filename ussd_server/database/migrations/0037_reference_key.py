"""The check value of the key from which names of payments at providers are derived."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE IF NOT EXISTS reference_key (
            id integer PRIMARY KEY CHECK (id = 1),
            check_value text NOT NULL
        ) {strict}
        """,
    )
