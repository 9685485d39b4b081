"""Statements of providers name how many of their lines went to review: lists of them count no other rows."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres


def up(migrator, db):
    # A process of the version before leaves it null.
    unless_there = "IF NOT EXISTS" if is_postgres() else ""
    execute_all(
        db,
        f"""
        ALTER TABLE provider_statements ADD COLUMN {unless_there} difference_count integer;;
        UPDATE provider_statements SET difference_count = (
            SELECT count(*) FROM differences_in_statements WHERE statement_id = provider_statements.id)
        """,
    )
