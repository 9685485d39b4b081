"""Imports statements of providers: compares every line, and stores the differences for review."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO

import orjson
from peewee import IntegrityError, chunked

from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.database.columns import iso_milliseconds
from ussd_server.database.ids import is_id, new_id
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.messages.reconciliation.differences import MAY_DIFFER, ComparedLine, Verdict
from ussd_server.messages.reconciliation.statement_formats import StatementFormat
from ussd_server.messages.reconciliation.statements import (
    ListProviderStatements,
    ProviderStatementPage,
    ProviderStatementView,
    ReconcileStatement,
    Reconciliation,
)
from ussd_server.models.statements import ProviderStatement, insert_differences
from ussd_server.providers.registry import PACKAGES
from ussd_server.providers.statement_format import with_additions
from ussd_server.security.tokens import Tokens
from ussd_server.services.audit import write_audit_event
from ussd_server.services.pages import page_of
from ussd_server.services.reconciliation.matching import Matcher
from ussd_server.services.reconciliation.statement_lines import StatementReader
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.status import Code, ServiceError

_BATCH = 1000
_CHUNK_BYTES = 1024 * 1024
_IN_MEMORY_BYTES = 4 * 1024 * 1024
_LONGEST_NAME = 200
_FORMATS = {package.name: package.statement for package in PACKAGES if package.statement}


class ProviderStatementService:
    """Compares and lists statements, for operators only."""

    def __init__(
        self, clock: Clock, tokens: Tokens, headings: Path | None = None, currencies: Mapping[str, str] | None = None
    ) -> None:
        """`headings` is the operator's file of further headings; `currencies` names those that are not UGX."""
        self._clock = clock
        self._tokens = tokens
        self._headings = headings
        self._currencies = currencies or {}

    def reconcile(self, request: ReconcileStatement, context: RequestContext) -> Reconciliation:
        """Compare a statement with our transactions, and store its differences for review.

        A file that was imported before is compared again and stored not again. Raises INVALID_REQUEST for a provider
        without a statement format, and with one sentence for a file that cannot be read; nothing is stored then.
        """
        context.require_operator()
        known = self._format_of(request.provider)
        digest = _digest_of(request.source)
        reader = StatementReader(known, self._currencies.get(request.provider, "UGX"))
        matcher = Matcher(request.provider)
        found = _DifferencesFile()
        counts: Counter[Verdict] = Counter()
        try:
            for compared in _compared(request.source, reader, matcher):
                counts[compared.verdict] += 1
                request.on_line(compared)
                if compared.is_difference:
                    found.append(compared)
        except SpreadsheetError as error:
            raise ServiceError(Code.INVALID_REQUEST, str(error)) from None
        period, now = reader.period(), self._clock.now()
        statement = ProviderStatement(
            id=new_id(now),
            provider=request.provider,
            digest=digest,
            file_name=request.file_name[-_LONGEST_NAME:],
            first_at=period.first,
            last_at=period.last,
            counts=dict(counts),
            difference_count=found.count,
            ours_cents=matcher.ours_cents,
            theirs_cents=matcher.theirs_cents,
            imported_at=now,
        )
        is_repeat = not self._store(statement, found, context)
        return Reconciliation(_view(statement), is_repeat, found.read)

    def list(self, request: ListProviderStatements, context: RequestContext) -> ProviderStatementPage:
        """A page of imported statements, newest first. Raises INVALID_REQUEST for a cursor of another list."""
        context.require_operator()
        rows, cursor = page_of(
            ProviderStatement.select(), ProviderStatement, request.cursor, request.limit, self._tokens, may_lag=False
        )
        return ProviderStatementPage(tuple(map(_view, rows)), cursor)

    def show(self, statement_id: str, context: RequestContext) -> ProviderStatementView:
        """One imported statement. Raises NOT_FOUND."""
        context.require_operator()
        row = ProviderStatement.get_or_none(ProviderStatement.id == statement_id) if is_id(statement_id) else None
        if row is None:
            raise ServiceError(Code.NOT_FOUND, "Statement not found")
        return _view(row)

    def providers(self, context: RequestContext) -> tuple[str, ...]:
        """The names of the providers whose statements can be compared."""
        context.require_operator()
        return tuple(_FORMATS)

    def _format_of(self, provider: str) -> StatementFormat:
        known = _FORMATS.get(provider)
        if known is None:
            raise ServiceError(Code.INVALID_REQUEST, f"Statements of {provider[:40]!r} cannot be reconciled")
        try:
            return with_additions(known, provider, self._headings)
        except (ValueError, OSError) as error:
            raise ServiceError(Code.INVALID_REQUEST, f"USSD_STATEMENT_HEADINGS: {error}") from None

    def _store(self, statement: ProviderStatement, found: _DifferencesFile, context: RequestContext) -> bool:
        """Store a statement with its differences, all or nothing; return False when its file was imported before."""
        is_same_file = (ProviderStatement.provider == statement.provider) & (
            ProviderStatement.digest == statement.digest
        )
        known = ProviderStatement.select(ProviderStatement.id).where(is_same_file)
        if known.exists():
            statement.id = known.get().id
            return False
        try:
            with unit_of_work():
                statement.save(force_insert=True)
                for batch in chunked(found.read(), _BATCH):
                    insert_differences([_row(each, statement) for each in batch])
                write_audit_event(
                    "statement.imported", context, statement.imported_at, client_id=None, object_id=statement.id
                )
        except IntegrityError:
            # Another operator imported the same file at the same moment.
            if not known.exists():
                raise
            statement.id = known.get().id
            return False
        return True


class _DifferencesFile:
    """Differences in a temporary file, so that memory does not grow with them."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - read as long as the result lives
        self.count = 0

    def __del__(self) -> None:
        self._file.close()

    def append(self, compared: ComparedLine) -> None:
        self._file.write(orjson.dumps(asdict(compared)) + b"\n")
        self.count += 1

    def read(self) -> Iterator[ComparedLine]:
        """Yield them in their order."""
        position = 0
        while True:
            self._file.seek(position)
            line = self._file.readline()
            if not line:
                return
            position = self._file.tell()
            values = orjson.loads(line)
            yield ComparedLine(**(values | {"verdict": Verdict(values["verdict"])}))


def _digest_of(source: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _compared(source: BinaryIO, reader: StatementReader, matcher: Matcher) -> Iterator[ComparedLine]:
    """Yield the result of every line, and then of every transaction that the statement lacks."""
    for batch in chunked(reader.lines(source), _BATCH):
        yield from matcher.compare(batch)
        # A web process serves other requests meanwhile.
        time.sleep(0)
    yield from matcher.missing(reader.period())


def _row(compared: ComparedLine, statement: ProviderStatement) -> dict[str, object]:
    values = asdict(compared)
    del values["is_difference"]
    return values | {
        "id": new_id(statement.imported_at),
        "place_id": new_id(statement.imported_at),
        "key": _key_of(compared, statement.provider),
        "provider": statement.provider,
        "statement_id": statement.id,
        "ours": None if compared.ours is None else orjson.dumps(compared.ours).decode(),
        "theirs": None if compared.theirs is None else orjson.dumps(compared.theirs).decode(),
        "opened_at": iso_milliseconds(statement.imported_at),
    }


def _key_of(compared: ComparedLine, provider: str) -> str:
    """What makes two differences of two statements the same one. A line without names is known by its date."""
    names = [compared.provider_id, compared.reference, compared.transaction_id]
    if compared.verdict is Verdict.NOT_THEIRS:
        names = [compared.transaction_id]
    elif compared.provider_id is None and compared.reference is None:
        names = [compared.dated, compared.party, str(compared.line)]
    return hashlib.sha256(orjson.dumps([provider, compared.verdict, *names, compared.theirs])).hexdigest()


def _view(row: ProviderStatement) -> ProviderStatementView:
    lines = {Verdict(name): count for name, count in row.counts.items()}
    return ProviderStatementView(
        statement_id=row.id,
        provider=row.provider,
        file_name=row.file_name,
        first_at=row.first_at,
        last_at=row.last_at,
        lines=lines,
        # An earlier version did not count them.
        difference_count=sum(lines.get(verdict, 0) for verdict in MAY_DIFFER)
        if row.difference_count is None
        else row.difference_count,
        ours_cents=row.ours_cents,
        theirs_cents=row.theirs_cents,
        imported_at=row.imported_at,
    )
