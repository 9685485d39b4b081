"""Statements of providers that were imported, and their differences from our transactions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import orjson
from peewee import SQL, BlobField, BooleanField, CompositeKey, IntegerField, TextField, fn

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, Table
from ussd_server.database.unit_of_work import dialect, run_query


class StatementState(StrEnum):
    IMPORTING = "importing"
    STORED = "stored"
    REMOVED = "removed"


class ProviderStatement(Table):
    """A statement that was imported; `digest` is the SHA-256 of its file. `counts` has the lines by verdict.

    `state` is `importing` until all differences are there, `stored` then, and `removed` for an import that was undone
    or never ended; only the differences of stored statements count. `difference_count` are the lines that went to
    review.
    """

    id = IdField(primary_key=True)
    account = TextField()
    digest = TextField()
    file_name = TextField()
    first_at = MomentField()
    last_at = MomentField()
    counts = JsonField()
    difference_count = IntegerField()
    ours_cents = CentsField()
    theirs_cents = CentsField()
    imported_at = MomentField()
    state = TextField(default=StatementState.STORED)


class StatementDifference(Table):
    """A difference, once however many statements have it, and its review.

    `key` is the digest by which two statements have the same difference. `statement_id` and `line` are of the first
    statement. `ours` and `theirs` are statuses or signed cents. `moved_cents` is what the line moved, 0 for nothing;
    where that belongs to nothing, `movement_id` is the movement, and there is no review. An open review has no
    `ended_at`.
    """

    id = IdField(primary_key=True)
    key = TextField()
    account = TextField()
    statement_id = IdField()
    line = IntegerField(null=True)
    verdict = TextField()
    provider_id = TextField(null=True)
    reference = TextField(null=True)
    transaction_id = IdField(null=True)
    movement_id = IdField(null=True)
    moved_cents = CentsField()
    ours = JsonField(null=True)
    theirs = JsonField(null=True)
    dated = TextField(null=True)
    party = TextField(null=True)
    opened_at = MomentField()
    ended_at = MomentField(null=True)
    ended_by = TextField(null=True)
    reason = TextField(null=True)


class DifferenceInStatement(Table):
    """Names a difference of a statement; the ids are in the order of the statement's differences.

    `at` is the date of the line, or when a transaction without a line became final.
    """

    id = IdField(primary_key=True)
    statement_id = IdField()
    line = IntegerField(null=True)
    difference_id = IdField()
    at = MomentField()

    class Meta:
        table_name = "differences_in_statements"


class CoverageKind(StrEnum):
    """The evidence that a statement has every line between two moments."""

    BALANCE = "balance"
    LINES = "lines"
    STATED = "stated"


class StatementCoverage(Table):
    """What a statement covers: a run of lines whose balances follow, its lines without balances, or what was stated.

    `first_at` and `last_at` are the dates of the first and the last line of the run or the statement, which titles may
    extend, or the ends of the days that operators stated. A run has the balances before and after it; `stated_by` are
    the two operators.
    """

    id = IdField(primary_key=True)
    statement_id = IdField()
    account = TextField()
    kind = TextField()
    first_at = MomentField()
    last_at = MomentField()
    opening_cents = CentsField(null=True)
    closing_cents = CentsField(null=True)
    stated_by = TextField(null=True)


class StatementDay(Table):
    """Lines of a statement on a day in Kampala, packed; a day of many lines has several rows, in order of their ids."""

    id = IdField(primary_key=True)
    statement_id = IdField()
    day = TextField()
    line_count = IntegerField()
    lines = BlobField()


class ClosedDay(Table):
    """A day in Kampala that an operator has closed for an account. `bridge` has the steps from ours to theirs.

    `statement_id` is the newest statement that covers the day, null for a day whose statement was empty.
    `confirmed_by` is the second operator, where the bridge took two.
    """

    account = TextField()
    day = TextField()
    statement_id = IdField(null=True)
    ours_cents = CentsField()
    theirs_cents = CentsField()
    bridge = JsonField()
    closed_by = TextField()
    closed_at = MomentField()
    confirmed_by = TextField(null=True)

    class Meta:
        primary_key = CompositeKey("account", "day")


class DayProof(Table):
    """What a closed day was computed from, and the digest of this and of the closed day under a master key.

    `statements` are the ids of those that cover the day. `first_at` and `last_at` are the ends of what they cover, None
    for a day whose statement was empty. `content` is the digest of the day's payments, lines and differences.
    """

    id = IdField(primary_key=True)
    account = TextField()
    day = TextField()
    statements = JsonField()
    first_at = MomentField(null=True)
    last_at = MomentField(null=True)
    content = TextField()
    digest = TextField()


class StatementLayout(Table):
    """What the columns of a provider's statements with these headings hold; `key` is the digest of the headings.

    `columns` are headings by field. `headings` are all of the table, in their order. `all_in` and `our_number` are what
    lines without a type mean (`StatedDirection`).
    """

    id = IdField(primary_key=True)
    provider = TextField()
    key = TextField()
    headings = JsonField()
    columns = JsonField()
    all_in = BooleanField()
    our_number = TextField(null=True)
    created_by = TextField()
    created_at = MomentField()


def is_in_stored_statement() -> Any:
    """The condition on `StatementDifference` that it belongs to an import that is finished and was not undone."""
    places = (
        DifferenceInStatement.select(SQL("1"))
        .join(ProviderStatement, on=(ProviderStatement.id == DifferenceInStatement.statement_id))
        .where(
            DifferenceInStatement.difference_id == StatementDifference.id,
            ProviderStatement.state == StatementState.STORED,
        )
    )
    return fn.EXISTS(places)


def insert_differences(rows: Sequence[dict[str, Any]]) -> None:
    """Write differences of one statement; those that are known stay as they are.

    A difference that only an unfinished or removed statement has becomes one of this statement.

    The rows have every column of `StatementDifference` that an open one needs, converted for the database, and
    `place_id`, the id of its `DifferenceInStatement`. Call inside a unit of work.
    """
    document = orjson.dumps(rows).decode()
    table = StatementDifference._meta.table_name
    insert = f"INSERT INTO {table} ({', '.join(_COLUMNS)}) {dialect().rows_of(table, _COLUMNS)} WHERE true"
    run_query(f"{insert} ON CONFLICT (key) DO NOTHING", rows=document)
    places = dialect().json_rows(_PLACES)
    for statement in (_TAKE_OVER, _NAME):
        run_query(statement.format(found=places), rows=document)


_COLUMNS = (
    "id", "key", "account", "statement_id", "line", "verdict", "provider_id", "reference", "transaction_id",
    "moved_cents", "ours", "theirs", "dated", "party", "opened_at",
)  # fmt: skip
_TAKE_OVER = """UPDATE statement_differences AS known SET statement_id = found.statement_id, line = found.line
    FROM {found} WHERE known.key = found.key AND known.statement_id <> found.statement_id
    AND known.statement_id IN (SELECT id FROM provider_statements WHERE state <> 'stored')"""
_PLACES = {"place_id": "uuid", "statement_id": "uuid", "line": "integer", "key": "text", "at": "timestamptz"}
_NAME = """INSERT INTO differences_in_statements (id, statement_id, line, difference_id, at)
    SELECT found.place_id, found.statement_id, found.line, known.id, found.at
    FROM {found} JOIN statement_differences AS known ON known.key = found.key"""
