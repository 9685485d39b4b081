"""The count of changes to keys that could not be told to every process through Redis."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE unseen_changes (
            id integer PRIMARY KEY CHECK (id = 1),
            number bigint NOT NULL
        ) {strict};;
        INSERT INTO unseen_changes (id, number) VALUES (1, 0)
        """,
    )
