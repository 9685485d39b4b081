"""Statements of providers are imported in many short transactions, and an import can be undone: they have a state."""

from ussd_server.database.schema import build_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    # A process of the version before stores a statement in one transaction.
    unless_there = "IF NOT EXISTS" if is_postgres() else ""
    execute_all(
        db,
        f"""
        ALTER TABLE provider_statements ADD COLUMN {unless_there} state text NOT NULL DEFAULT 'stored'
            CHECK (state IN ('importing', 'stored', 'removed'))
        """,
    )
    build_index(db, "provider_statements_unstored", "provider_statements (id) WHERE state <> 'stored'")
    build_index(db, "differences_in_statements_of_difference", "differences_in_statements (difference_id)")
