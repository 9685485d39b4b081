"""The payment of which a receipt is the second one: Airtel gives a payment two."""

from ussd_server.database.schema import execute_statements

_COLUMN = """
ALTER TABLE receipt_claims ADD COLUMN second_of uuid; -- PostgreSQL

ALTER TABLE receipt_claims ADD COLUMN second_of text; -- SQLite
"""


def up(migrator, db):
    execute_statements(db, _COLUMN)
