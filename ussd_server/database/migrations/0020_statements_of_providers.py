"""Statements of providers that were imported, their differences from our transactions, and the reviews of these."""

from ussd_server.database.schema import execute_all

_TABLES = """
CREATE TABLE provider_statements (
    id {id} PRIMARY KEY,
    provider text NOT NULL,
    digest text NOT NULL,
    file_name text NOT NULL,
    first_at {moment} NOT NULL,
    last_at {moment} NOT NULL,
    counts text NOT NULL,
    ours_cents bigint NOT NULL,
    theirs_cents bigint NOT NULL,
    imported_at {moment} NOT NULL,
    UNIQUE (provider, digest)
) {strict};;
CREATE TABLE statement_differences (
    id {id} PRIMARY KEY,
    key text NOT NULL UNIQUE,
    provider text NOT NULL,
    statement_id {id} NOT NULL REFERENCES provider_statements (id),
    line integer,
    verdict text NOT NULL
        CHECK (verdict IN ('amount_differs', 'status_differs', 'not_ours', 'not_theirs', 'reversal')),
    provider_id text,
    reference text,
    transaction_id {id} REFERENCES transactions (id),
    ours text,
    theirs text,
    dated text,
    party text,
    opened_at {moment} NOT NULL,
    ended_at {moment},
    ended_by text,
    reason text,
    CHECK ((ended_at IS NOT NULL) = (reason IS NOT NULL) AND (ended_at IS NOT NULL) = (ended_by IS NOT NULL))
) {strict};;
CREATE INDEX statement_differences_open ON statement_differences (id) WHERE ended_at IS NULL;;
CREATE TABLE differences_in_statements (
    id {id} PRIMARY KEY,
    statement_id {id} NOT NULL REFERENCES provider_statements (id),
    line integer,
    difference_id {id} NOT NULL REFERENCES statement_differences (id)
) {strict};;
CREATE INDEX differences_in_statements_in_order ON differences_in_statements (statement_id, id)
"""


def up(migrator, db):
    execute_all(db, _TABLES)
