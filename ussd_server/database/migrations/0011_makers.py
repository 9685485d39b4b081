"""Who made what: the operator of a transaction or a payout by the name that `--by` gave, the person of a request.

Rows of payouts keep further columns of their file.
"""

from ussd_server.database.schema import execute_statements

_COLUMNS = """
ALTER TABLE transactions ADD COLUMN operator text;

ALTER TABLE payouts ADD COLUMN operator text;

ALTER TABLE payout_items ADD COLUMN metadata text;

ALTER TABLE api_requests ADD COLUMN user_id uuid;
"""


def up(migrator, db):
    execute_statements(db, _COLUMNS)
