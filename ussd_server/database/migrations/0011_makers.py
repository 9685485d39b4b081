"""The operator who made a transaction or a payout, by the name that `--by` gave."""

from ussd_server.database.schema import execute_statements

_COLUMNS = """
ALTER TABLE transactions ADD COLUMN operator text;

ALTER TABLE payouts ADD COLUMN operator text;

ALTER TABLE payout_items ADD COLUMN metadata text;
"""


def up(migrator, db):
    execute_statements(db, _COLUMNS)
