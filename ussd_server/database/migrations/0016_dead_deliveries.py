"""The deliveries of a webhook that were given up, by which the console lists them."""

from ussd_server.database.schema import execute_statements

_INDEX = """
CREATE INDEX deliveries_dead ON deliveries (webhook_id, event_id) WHERE status = 'dead';
"""


def up(migrator, db):
    execute_statements(db, _INDEX)
