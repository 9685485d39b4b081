"""Operators who sign in, their second factors and logins, decisions that take two of them, and who acted why."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE operators (
            id {id} PRIMARY KEY,
            email text NOT NULL UNIQUE,
            password_hash text NOT NULL,
            factor_sealed {bytes} NOT NULL,
            last_step bigint NOT NULL,
            is_active {bool} NOT NULL,
            created_at {moment} NOT NULL,
            updated_at {moment} NOT NULL
        ) {strict};;
        CREATE TABLE recovery_codes (
            operator_id {id} NOT NULL REFERENCES operators (id),
            code_digest text NOT NULL,
            used_at {moment},
            PRIMARY KEY (operator_id, code_digest)
        ) {strict_by_key};;
        CREATE TABLE operator_logins (
            id {id} PRIMARY KEY,
            operator_id {id} NOT NULL REFERENCES operators (id),
            address text NOT NULL,
            created_at {moment} NOT NULL,
            expires_at {moment} NOT NULL,
            ended_at {moment},
            end_reason text
        ) {strict};;
        CREATE INDEX operator_logins_open ON operator_logins (operator_id) WHERE ended_at IS NULL;;
        CREATE TABLE proposals (
            id {id} PRIMARY KEY,
            action text NOT NULL,
            object_id text NOT NULL,
            parameters text NOT NULL,
            reason text NOT NULL,
            proposed_by text NOT NULL,
            created_at {moment} NOT NULL,
            expires_at {moment} NOT NULL,
            decided_by text,
            decided_at {moment},
            outcome text
        ) {strict};;
        CREATE INDEX proposals_open ON proposals (id) WHERE decided_at IS NULL;;
        CREATE UNIQUE INDEX proposals_one_open ON proposals (action, object_id) WHERE decided_at IS NULL
        """,
    )
    # Nullable and without a default: PostgreSQL changes no row, and code that does not know the columns writes on.
    for column in ("operator", "reason"):
        execute_all(db, f"ALTER TABLE audit_events ADD COLUMN {column} text")
