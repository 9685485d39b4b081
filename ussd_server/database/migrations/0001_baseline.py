"""The schema of version 1.0.0: the tables, and the functions and triggers of each database."""

from ussd_server.database.schema import SCHEMA, execute_statements
from ussd_server.database.unit_of_work import is_postgres


def up(migrator, db):
    for folder in ("tables", "postgres" if is_postgres() else "sqlite"):
        for path in sorted((SCHEMA / folder).glob("*.sql"), key=_order):
            execute_statements(db, path.read_text(encoding="utf-8"))


def _order(path):
    # The rules come first: the triggers of the ledger use their functions.
    return path.stem != "rules", path.stem
