"""Migrations: numbered steps from an empty database to the present schema, run by one process at a time."""
