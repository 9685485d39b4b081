"""How far the service's time is ahead of the database's, and which workers' leases were taken over."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE service_clock (
            id integer PRIMARY KEY CHECK (id = 1),
            ahead_ms bigint NOT NULL,
            decided_at {moment} NOT NULL,
            last_seen_at {moment}
        ) {strict};;
        INSERT INTO service_clock (id, ahead_ms, decided_at) VALUES (1, 0, '2026-01-01T00:00:00.000Z');;
        ALTER TABLE worker_pulses ADD COLUMN is_taken_over {bool} NOT NULL DEFAULT FALSE
        """,
    )
