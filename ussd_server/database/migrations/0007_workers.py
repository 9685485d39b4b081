"""The pulses of the background workers."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE worker_pulses (
            id text PRIMARY KEY,
            started_at {moment} NOT NULL,
            seen_at {moment} NOT NULL,
            measures text NOT NULL
        ) {strict}
        """,
    )
