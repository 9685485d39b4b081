"""Steps of sessions find their rows by key, also on a connection whose plans were made beside a small table."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres


def up(migrator, db):
    # A connection keeps a plan until the statistics of its tables change. In a table of one page, reading it whole is
    # the cheapest; thousands of sessions later each step still read all of them.
    if is_postgres():
        execute_all(db, "ALTER FUNCTION ussd_step(jsonb) SET enable_seqscan = off")
