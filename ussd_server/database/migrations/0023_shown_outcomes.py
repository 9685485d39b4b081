"""The payments whose outcome was shown on a later dial, so that each is shown once."""

from ussd_server.database.schema import execute_all

_TABLE = """
CREATE TABLE shown_outcomes (
    transaction_id {id} NOT NULL PRIMARY KEY REFERENCES transactions (id),
    session_id {id} NOT NULL,
    shown_at {moment} NOT NULL
) {strict_by_key};;
CREATE INDEX shown_outcomes_of_session ON shown_outcomes (session_id)
"""


def up(migrator, db):
    execute_all(db, _TABLE)
