"""Second factors of clients' people, whether a client requires them, and when a login last gave a code."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE user_factors (
            user_id {id} PRIMARY KEY REFERENCES users (id),
            factor_sealed {bytes} NOT NULL,
            last_step bigint NOT NULL,
            created_at {moment} NOT NULL
        ) {strict};;
        CREATE TABLE user_recovery_codes (
            user_id {id} NOT NULL REFERENCES users (id),
            code_digest text NOT NULL,
            used_at {moment},
            PRIMARY KEY (user_id, code_digest)
        ) {strict_by_key}
        """,
    )
    # Nullable and without a default: PostgreSQL changes no row, and code that does not know the columns writes on.
    unless_there = "IF NOT EXISTS" if is_postgres() else ""
    execute_all(
        db,
        f"""
        ALTER TABLE clients ADD COLUMN {unless_there} requires_second_factor {{bool}};;
        ALTER TABLE logins ADD COLUMN {unless_there} code_accepted_at {{moment}}
        """,
    )
