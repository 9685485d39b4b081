"""Which providers operators have switched off, the float with each, and the names of subscribers that they told."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE provider_switches (
            provider text PRIMARY KEY,
            is_off {bool} NOT NULL,
            reason text NOT NULL,
            changed_at {moment} NOT NULL
        ) {strict};;
        CREATE TABLE provider_floats (
            provider text PRIMARY KEY,
            amount_cents bigint,
            read_at {moment},
            asked_at {moment} NOT NULL
        ) {strict};;
        CREATE TABLE subscriber_names (
            provider text NOT NULL,
            phone_number text NOT NULL,
            name text,
            asked_at {moment} NOT NULL,
            PRIMARY KEY (provider, phone_number)
        ) {strict_by_key};;
        CREATE INDEX subscriber_names_oldest ON subscriber_names (asked_at)
        """,
    )
