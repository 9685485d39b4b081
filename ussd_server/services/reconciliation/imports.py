"""Imports of statements: stores their differences in short transactions, and takes an import back.

An import is visible only after its last step, except what its lines moved, which is held at once. An import whose
process died is replaced when its file is imported again, which holds each line once.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import orjson
from peewee import chunked

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import DATABASE_ERRORS, advisory_lock, dialect, unit_of_work
from ussd_server.models.statements import (
    DayProof,
    DifferenceInStatement,
    ProviderStatement,
    StatementCoverage,
    StatementDay,
    StatementDifference,
    StatementState,
    insert_differences,
)
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.pages import find_by_id
from ussd_server.services.reconciliation.days.coverage import stated_row
from ussd_server.services.reconciliation.line_movements import hold_lines, hold_unknown_lines, moved_lines, take_back
from ussd_server.services.reconciliation.messages import ComparedLine, UndoImport, Verdict
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds, new_id

# Rows in one transaction. On SQLite, so many hold the write lock for some 20 ms.
_ROWS = 250
# Movements that may be known, in one transaction: each takes some ten queries.
_KNOWN_MOVEMENTS = 20
_LINE_TABLES = (StatementDay, StatementCoverage)
# The number of the advisory lock for changes of imports and reviews.
_LOCK = 7_256_256_168
# An import takes minutes at most. The process of an older one must have died.
_LONGEST_IMPORT = timedelta(days=1)
# How often an import waits for others, each time as long as the database waits for a lock: a minute in all.
_WAITS = 20
_BUSY_SECONDS = 10


class ImportsAreBusyError(ServiceError):
    """Other imports held their lock for longer than the database waits for one."""


def lock_imports() -> None:
    """Take the advisory lock for changes of imports and of their reviews, until the unit of work ends.

    SERVICE_UNAVAILABLE while other imports have it.
    """
    try:
        advisory_lock(_LOCK)
    except DATABASE_ERRORS as error:
        if not dialect().was_rolled_back(error):
            raise
        raise ImportsAreBusyError(
            Code.SERVICE_UNAVAILABLE,
            "Other statements are being imported at this moment; repeat it in a moment",
            retry_after_seconds=_BUSY_SECONDS,
        ) from None


def stored_id(account: str, digest: str) -> str | None:
    """The id of the stored statement with this file; None for a new file."""
    known = ProviderStatement.get_or_none(ProviderStatement.account == account, ProviderStatement.digest == digest)
    return known.id if known is not None and known.state == StatementState.STORED else None


class ImportedLines(NamedTuple):
    """A statement's stored lines, packed by day, and the days that they cover."""

    parts: Sequence[tuple[str, int, bytes]]
    coverages: Sequence[StatementCoverage]


def store(
    statement: ProviderStatement, lines: ImportedLines, differences: Iterator[ComparedLine], context: RequestContext
) -> bool:
    """Store a new statement; return False, with the stored one's id, when the file was stored before."""
    if not _begin(statement):
        return False
    rows = _rows(differences, statement)
    for batch in chunked(rows, _ROWS):
        with _short_unit_of_work():
            _require(statement, StatementState.IMPORTING)
            insert_differences(batch)
    _store_lines(statement, lines)
    _hold_lines(statement)
    with _short_unit_of_work():
        _require(statement, StatementState.IMPORTING)
        _set_state(statement, StatementState.STORED)
        write_audit_event("statement.imported", context, statement.imported_at, client_id=None, object_id=statement.id)
    return True


def state_coverage(
    statement: ProviderStatement, days: tuple[date, date], names: Sequence[str], context: RequestContext, now: datetime
) -> None:
    """Keep that a stored statement has every line of some days, as two operators state. INVALID_REQUEST once undone."""
    with unit_of_work():
        lock_imports()
        _require(statement, StatementState.STORED)
        stated_row(statement, days, names).save(force_insert=True)
        write_audit_event(
            "statement.covers",
            context,
            now,
            client_id=None,
            object_id=statement.id,
            reason=f"{days[0]} to {days[1]}",
            decided_by=", ".join(names),
        )


def add_missing(statement_id: str, account: str, missing: Iterable[ComparedLine], now: datetime) -> None:
    """Add payments of ours that a statement lacks on days that it covers to its differences, each once."""
    statement = ProviderStatement(id=statement_id, account=account, imported_at=now)
    for batch in chunked(missing, _ROWS):
        with _short_unit_of_work():
            known = StatementDifference.select(StatementDifference.transaction_id).join(
                DifferenceInStatement, on=(DifferenceInStatement.difference_id == StatementDifference.id)
            )
            known = known.where(
                DifferenceInStatement.statement_id == statement_id,
                StatementDifference.verdict == Verdict.NOT_THEIRS,
                StatementDifference.transaction_id.in_([each.transaction_id for each in batch]),
            )
            names = {row.transaction_id for row in known}
            new = [each for each in batch if each.transaction_id not in names]
            insert_differences(list(_rows(iter(new), statement)))


def _store_lines(statement: ProviderStatement, lines: ImportedLines) -> None:
    for day, count, packed in lines.parts:
        with _short_unit_of_work():
            _require(statement, StatementState.IMPORTING)
            StatementDay.insert(
                id=new_id(statement.imported_at),
                statement_id=statement.id,
                day=day,
                line_count=count,
                lines=packed,
            ).execute()
    with _short_unit_of_work():
        _require(statement, StatementState.IMPORTING)
        for coverage in lines.coverages:
            coverage.statement_id = statement.id
            coverage.save(force_insert=True)


def _hold_lines(statement: ProviderStatement) -> None:
    """Hold what lines moved that belongs to nothing: first what nothing here knows, many at once, then the others."""
    for hold, most in ((hold_unknown_lines, _ROWS), (hold_lines, _KNOWN_MOVEMENTS)):
        after = None
        while lines := moved_lines(statement, after, most):
            with _short_unit_of_work():
                _require(statement, StatementState.IMPORTING)
                hold(lines, statement.imported_at)
            after = lines[-1].id


def undo(request: UndoImport, context: RequestContext, now: datetime) -> ProviderStatement:
    """Undo an import: removes its statement, and the differences and held movements that nothing else tells of.

    Raises NOT_FOUND, and INVALID_REQUEST when the review of a difference has ended since the import, by a reason
    or by concluding its payment, while movements that it alone told of are used, and unless two different people are
    named.
    """
    context.require_operator()
    names = require_two_people(request.by, request.second, request.reason)
    with unit_of_work():
        lock_imports()
        statement = stored_statement(request.statement_id)
        ended = (
            StatementDifference.select()
            .join(DifferenceInStatement, on=(DifferenceInStatement.difference_id == StatementDifference.id))
            .where(
                DifferenceInStatement.statement_id == statement.id,
                StatementDifference.ended_at >= statement.imported_at,
            )
        )
        if count := ended.count():
            raise ServiceError(
                Code.INVALID_REQUEST,
                f"The import stays: the reviews of {count:,} of its differences have ended"
                if count > 1
                else "The import stays: the review of one of its differences has ended",
            )
        if (closed := _closed_with(statement.id)) is not None:
            raise ServiceError(Code.INVALID_REQUEST, f"The import stays: {closed} was closed with it")
        _remove(statement, now)
        write_audit_event(
            "statement.undone",
            context,
            now,
            client_id=None,
            object_id=statement.id,
            reason=request.reason.strip(),
            decided_by=", ".join(names),
        )
    return statement


def _closed_with(statement_id: str) -> str | None:
    """The first day that was closed with a statement."""
    proven = DayProof.select(DayProof.day).where(DayProof.statements.cast("text").contains(statement_id))
    return min((row.day for row in proven), default=None)


def lasting_movements(movement_ids: Collection[str]) -> set[str]:
    """Those of some movements of which a statement told that cannot be undone, because a day was closed with it."""
    places: Any = (
        DifferenceInStatement.select(DifferenceInStatement.statement_id, StatementDifference.movement_id)
        .join(StatementDifference, on=(StatementDifference.id == DifferenceInStatement.difference_id))
        .where(StatementDifference.movement_id.in_(list(movement_ids)))
        .tuples()
    )
    return {movement_id for statement_id, movement_id in places if _closed_with(statement_id) is not None}


def clean(now: datetime) -> int:
    """Remove some rows of imports that were undone or lost their process; return their number, 0 at the end."""
    lost_before = now - _LONGEST_IMPORT
    for statement in ProviderStatement.select().where(ProviderStatement.state != StatementState.STORED):
        is_importing = statement.state == StatementState.IMPORTING
        if statement.imported_at >= lost_before if is_importing else not _has_rows(statement.id):
            continue
        with _short_unit_of_work():
            if is_importing:
                _require(statement, StatementState.IMPORTING)
                _remove(statement, now)
            if removed := _remove_some(statement.id):
                return removed
    return 0


def _begin(statement: ProviderStatement) -> bool:
    is_same_file = (ProviderStatement.account == statement.account) & (ProviderStatement.digest == statement.digest)
    with _short_unit_of_work():
        known = ProviderStatement.get_or_none(is_same_file)
        if known is not None and known.state == StatementState.STORED:
            statement.id = known.id
            return False
        if known is not None:
            _remove(known, statement.imported_at)
        # Not the id of an import of this file that was undone since the comparison.
        statement.id = new_id(statement.imported_at)
        statement.state = StatementState.IMPORTING
        statement.save(force_insert=True)
    return True


def stored_statement(statement_id: str) -> ProviderStatement:
    """A statement whose import has ended and was not undone. Raises NOT_FOUND."""
    stored = ProviderStatement.select().where(ProviderStatement.state == StatementState.STORED)
    return find_by_id(stored, ProviderStatement, statement_id, "Statement")


@contextmanager
def _short_unit_of_work() -> Iterator[None]:
    """A unit of work of an import; afterwards, on SQLite, other writers get as much time as it took.

    SERVICE_UNAVAILABLE once it has waited a minute for other imports. The same file can come again then.
    """
    for waits_left in reversed(range(_WAITS)):
        try:
            with unit_of_work():
                began = time.monotonic()
                lock_imports()
                yield
            break
        except ImportsAreBusyError:
            if not waits_left:
                raise
    dialect().let_others_write(time.monotonic() - began)


def _require(statement: ProviderStatement, state: StatementState) -> None:
    is_mine = (ProviderStatement.id == statement.id) & (ProviderStatement.state == state)
    if not ProviderStatement.select().where(is_mine).exists():
        raise ServiceError(
            Code.INVALID_REQUEST,
            "The same file was imported at the same moment; compare it again",
        )


def _set_state(statement: ProviderStatement, state: StatementState) -> None:
    ProviderStatement.update(state=state).where(ProviderStatement.id == statement.id).execute()
    statement.state = state


def _remove(statement: ProviderStatement, now: datetime) -> None:
    """Hide an import; its row stays for the audit trail, under a digest that lets the file come again."""
    was_stored = statement.state == StatementState.STORED
    ProviderStatement.update(digest=f"{statement.digest} {statement.id}").where(
        ProviderStatement.id == statement.id
    ).execute()
    _set_state(statement, StatementState.REMOVED)
    take_back(statement, now, was_stored=was_stored)


def _has_rows(statement_id: str) -> bool:
    tables = (DifferenceInStatement, *_LINE_TABLES)
    return any(table.select().where(table.statement_id == statement_id).exists() for table in tables)


def _remove_some(statement_id: str) -> int:
    """Remove some places of a removed statement, and the differences that have no other place; its lines at the end.

    Those whose movement stays remain, so that the line is not held again if it comes again.
    """
    places = DifferenceInStatement.select().where(DifferenceInStatement.statement_id == statement_id)
    rows = list(places.order_by(DifferenceInStatement.id).limit(_ROWS))
    ids = {row.difference_id for row in rows}
    DifferenceInStatement.delete().where(DifferenceInStatement.id.in_([row.id for row in rows])).execute()
    others = DifferenceInStatement.select().where(DifferenceInStatement.difference_id.in_(ids))
    remaining = {row.difference_id: row for row in others.order_by(DifferenceInStatement.id.desc())}
    for row in remaining.values():
        StatementDifference.update(statement_id=row.statement_id, line=row.line).where(
            StatementDifference.id == row.difference_id, StatementDifference.statement_id == statement_id
        ).execute()
    StatementDifference.delete().where(
        StatementDifference.id.in_(ids - remaining.keys()), StatementDifference.movement_id.is_null()
    ).execute()
    return len(rows) or sum(
        table.delete().where(table.statement_id == statement_id).execute() for table in _LINE_TABLES
    )


def _rows(differences: Iterator[ComparedLine], statement: ProviderStatement) -> Iterator[dict[str, object]]:
    occurrences: Counter[bytes] = Counter()
    for compared in differences:
        names = _names_of(compared, statement.account)
        short = hashlib.blake2b(names, digest_size=8).digest()
        # A line that is there twice is two differences.
        occurrences[short] += 1
        key = names + str(occurrences[short]).encode()
        values = asdict(compared)
        del values["is_difference"]
        yield values | {
            "id": new_id(statement.imported_at),
            "place_id": new_id(statement.imported_at),
            "key": hashlib.sha256(key).hexdigest(),
            "account": statement.account,
            "statement_id": statement.id,
            "ours": None if compared.ours is None else orjson.dumps(compared.ours).decode(),
            "theirs": None if compared.theirs is None else orjson.dumps(compared.theirs).decode(),
            "opened_at": iso_milliseconds(statement.imported_at),
            "at": None if compared.at is None else iso_milliseconds(compared.at),
        }


def _names_of(compared: ComparedLine, account: str) -> bytes:
    """The key by which differences of two statements are the same. It contains the date for a line without names."""
    names = [compared.provider_id, compared.reference, compared.transaction_id]
    if compared.verdict is Verdict.NOT_THEIRS:
        names = [compared.transaction_id]
    elif compared.provider_id is None and compared.reference is None:
        names = [compared.dated, compared.party]
    return orjson.dumps([account, compared.verdict, *names, compared.theirs, bool(compared.moved_cents)])
