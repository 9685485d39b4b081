"""Imports statements of providers: compares every line, and stores the differences for review."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO

import orjson
from peewee import chunked

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.statements import ProviderStatement, StatementCoverage, StatementLayout, StatementState
from ussd_server.models.transactions import Transaction
from ussd_server.providers.registry import PACKAGES
from ussd_server.providers.statement_format import LineStatus, with_additions
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.movements import decide_again, learn_receipt
from ussd_server.services.operator_names import require_two_names
from ussd_server.services.pages import page_of
from ussd_server.services.processing.outcomes import open_review
from ussd_server.services.providers.accounts import known_accounts, provider_of
from ussd_server.services.reconciliation import imports, messages
from ussd_server.services.reconciliation.comparing.matches import Match
from ussd_server.services.reconciliation.comparing.matching import Matcher
from ussd_server.services.reconciliation.days import coverage
from ussd_server.services.reconciliation.days.lines import DayLine, PackedDays, pairs_told
from ussd_server.services.reconciliation.imports import ImportedLines
from ussd_server.services.reconciliation.reading.conventions import FileConventions
from ussd_server.services.reconciliation.reading.running_balance import RunningBalance
from ussd_server.services.reconciliation.reading.stated_direction import StatedDirection
from ussd_server.services.reconciliation.reading.statement_lines import Period, StatementReader
from ussd_server.services.reconciliation.reading.statement_rows import Layouts
from ussd_server.services.runtime import Runtime
from ussd_server.spreadsheets.headings import headings_key
from ussd_server.status import Code, ServiceError
from ussd_server.threads import with_pauses
from ussd_server.values import counted, new_id, written_amount
from ussd_server.wire import ListPage, Page, view_of_row

_BATCH = 1000
_CHUNK_BYTES = 1024 * 1024
_IN_MEMORY_BYTES = 4 * 1024 * 1024
# More differences, or more than half of the lines, are probably the wrong file.
_MOST_DIFFERENCES = 1000
_LONGEST_NAME = 200
_AS_IT_IS = messages.StatementReading()
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
FORMATS = {package.name: package.statement for package in PACKAGES if package.statement}


class ProviderStatementService:
    """Compares and lists statements, for operators only."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens, self._providers = runtime.clock, runtime.tokens, runtime.providers
        self._headings = runtime.settings.statement_headings
        self._currencies = {access.kind: access.currency for access in runtime.settings.providers.values()}

    def reconcile(self, request: messages.ReconcileStatement, context: RequestContext) -> messages.Reconciliation:
        """Compare a statement with our transactions, and store its differences for review.

        A file that was imported before is compared again and stored not again. Nothing is stored for a dry run, and
        for a statement with a doubt that the request does not confirm. Raises INVALID_REQUEST for a provider without a
        statement format, and with one sentence for a file that cannot be read, or that names payments of another
        account; nothing is stored then.
        """
        context.require_operator()
        now = self._clock.now()
        names: tuple[str, ...] = ()
        if request.covers is not None:
            coverage.require_statable(request.covers, now)
            names = require_two_names(request.by, request.second)
        provider = self.provider_of(request.account, context)
        reader = self.reader_of(provider, request.reading)
        matcher = Matcher(request.account, provider, reader.dates, pairs_told)
        comparison = _Comparison(request, reader, matcher)
        digest = _digest_of(request.source)
        comparison.run()
        known_id = imports.stored_id(request.account, digest)
        statement = comparison.statement(known_id or new_id(now), digest, now)
        doubt = None if known_id else comparison.doubt(statement.file_name)
        is_repeat = is_stored = known_id is not None
        if not request.is_dry_run and (doubt is None or request.is_confirmed):
            lines = ImportedLines(comparison.days.parts(), comparison.coverages(statement))
            is_repeat = not imports.store(statement, lines, comparison.differences(), context)
            is_stored = True
            self._write_receipts(comparison.receipts, now)
            if request.covers is not None:
                imports.state_coverage(statement, request.covers, names, context, now)
                missing = (each for each in comparison.differences() if each.verdict is messages.Verdict.NOT_THEIRS)
                imports.add_missing(statement.id, statement.account, missing, now)
        return messages.Reconciliation(
            _view(statement), is_stored, is_repeat, comparison.balance.first_break, doubt, comparison.differences
        )

    def _write_receipts(self, receipts: Mapping[str, str], now: datetime) -> None:
        """Give payments of ours the receipts that a statement tells first, or open reviews where other money has them.

        What is held beside such a payment is decided anew: it is the payment's money, or it is other money.
        """
        for transaction_id, receipt in receipts.items():
            with unit_of_work():
                row = lock_row(Transaction, transaction_id)
                if (conflict := learn_receipt(row, receipt, WayIn.STATEMENT, now)) is not None:
                    open_review(row, conflict, now)
                    row.save()
                else:
                    decide_again(transaction_id)

    def cover(self, request: messages.CoverDays, context: RequestContext) -> messages.ProviderStatementView:
        """Keep what two operators state: that a stored statement has every line of some days.

        Raises NOT_FOUND, and INVALID_REQUEST for days that are not over or without a line of the statement, and unless
        two different people are named.
        """
        names = require_two_names(request.by, request.second)
        days = request.first, request.last
        view = self.require_coverable(request.statement_id, days, context)
        statement = imports.stored_statement(request.statement_id)
        imports.state_coverage(statement, days, names, context, self._clock.now())
        return view

    def require_coverable(
        self, statement_id: str, days: tuple[date, date], context: RequestContext
    ) -> messages.ProviderStatementView:
        """A stored statement that can be said to cover some days. Raises as `cover`."""
        context.require_operator()
        coverage.require_statable(days, self._clock.now())
        statement = imports.stored_statement(statement_id)
        coverage.period_with(Period(statement.first_at, statement.last_at), days)
        return _view(statement)

    def undo(self, request: messages.UndoImport, context: RequestContext) -> messages.ProviderStatementView:
        """Take an import back. Raises NOT_FOUND, and INVALID_REQUEST once the review of a difference has ended."""
        return _view(imports.undo(request, context, self._clock.now()))

    def clean(self) -> int:
        """Remove some rows of imports that were undone or never ended; return their number, 0 when none is left."""
        return imports.clean(self._clock.now())

    def list(self, request: ListPage, context: RequestContext) -> Page[messages.ProviderStatementView]:
        """A page of imported statements, newest first. Raises INVALID_REQUEST for a cursor of another list."""
        context.require_operator()
        stored = ProviderStatement.select().where(ProviderStatement.state == StatementState.STORED)
        return page_of(stored, ProviderStatement, request, self._tokens, lambda rows: map(_view, rows))

    def show(self, statement_id: str, context: RequestContext) -> messages.ProviderStatementView:
        """One imported statement. Raises NOT_FOUND."""
        context.require_operator()
        return _view(imports.stored_statement(statement_id))

    def accounts(self, context: RequestContext) -> tuple[str, ...]:
        """The names of the accounts whose statements can be compared."""
        context.require_operator()
        return tuple(account for account, provider in known_accounts(self._providers).items() if provider in FORMATS)

    def provider_of(self, account: str, context: RequestContext) -> str:
        """The provider at which an account is. INVALID_REQUEST for one that there never was."""
        context.require_operator()
        return provider_of(account, self._providers)

    def reader_of(self, provider: str, reading: messages.StatementReading = _AS_IT_IS) -> StatementReader:
        """A reader for a statement of a provider. INVALID_REQUEST for one whose statements have no known form."""
        known = FORMATS.get(provider)
        if known is None:
            raise ServiceError(Code.INVALID_REQUEST, f"Statements of {provider!r} cannot be reconciled")
        try:
            known = with_additions(known, provider, self._headings)
        except (ValueError, OSError) as error:
            raise ServiceError(Code.INVALID_REQUEST, f"USSD_STATEMENT_HEADINGS: {error}") from None
        if problem := reading.direction.problem:
            raise ServiceError(Code.INVALID_REQUEST, problem)
        said = FileConventions(reading.dates, reading.thousands)
        currency = self._currencies.get(provider, "UGX")
        layouts, directions = _layouts_of(provider)
        return StatementReader(known, currency, layouts, reading.columns, said, reading.direction, directions)


class _ResultsFile:
    """Results in a temporary file, so that memory does not grow with their number."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - read as long as the result lives
        self.count = 0

    def __del__(self) -> None:
        self._file.close()

    def append(self, match: Match) -> None:
        self._file.write(orjson.dumps(match) + b"\n")
        self.count += 1

    def read(self) -> Iterator[Match]:
        """Yield the results in their order; several readers may read at once."""
        position = 0
        while True:
            self._file.seek(position)
            line = self._file.readline()
            if not line:
                return
            position = self._file.tell()
            values = orjson.loads(line)
            compared, unmoved = values.pop("compared"), values.pop("unmoved")
            read = {"verdict": messages.Verdict(compared["verdict"]), "at": _moment(compared["at"])}
            at = _moment(values.pop("at"))
            yield Match(
                messages.ComparedLine(**(compared | read)),
                None if unmoved is None else LineStatus(unmoved),
                at=at,
                **values,
            )


def _digest_of(source: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _layouts_of(provider: str) -> tuple[Layouts, Mapping[tuple[str, ...], StatedDirection]]:
    """The layouts that operators kept for a provider, and what they said of the direction, by headings."""
    kept = StatementLayout.select().where(StatementLayout.provider == provider)
    rows = {headings_key(row.headings): row for row in kept}
    layouts = {key: {field: (heading,) for field, heading in row.columns.items()} for key, row in rows.items()}
    return layouts, {key: StatedDirection(row.all_in, row.our_number) for key, row in rows.items()}


class _Comparison:
    """Compares one file, and takes from its lines what they say of days and of the running balance."""

    def __init__(self, request: messages.ReconcileStatement, reader: StatementReader, matcher: Matcher) -> None:
        self._request, self._reader, self._matcher = request, reader, matcher
        self.balance, self.days = RunningBalance(), PackedDays()
        self._first, self._last = _LATEST, _EARLIEST
        self._counts: Counter[messages.Verdict] = Counter()
        self._differences, self._differing_lines = _ResultsFile(), 0

    def run(self) -> None:
        """Compare the file. Raises INVALID_REQUEST in a sentence for one that cannot be read, or of another account."""
        for compared in self._results():
            self._counts[compared.verdict] += 1
            self._request.on_line(compared)
            if compared.is_difference:
                self._differences.append(Match(compared))
                self._differing_lines += compared.line is not None
        self._matcher.others.refuse()

    def differences(self) -> Iterator[messages.ComparedLine]:
        """Yield the differences, in the order of the file."""
        return (match.compared for match in self._differences.read())

    @property
    def receipts(self) -> Mapping[str, str]:
        """The receipts of payments of ours that the statement tells first, by the payment."""
        return self._matcher.receipts

    def statement(self, statement_id: str, digest: str, now: datetime) -> ProviderStatement:
        """The row of the compared file, which is not stored."""
        period = self._reader.period()
        return ProviderStatement(
            id=statement_id,
            account=self._request.account,
            digest=digest,
            file_name=self._request.file_name[-_LONGEST_NAME:],
            first_at=period.first,
            last_at=period.last,
            counts=dict(self._counts),
            difference_count=self._differences.count,
            ours_cents=self._matcher.ours_cents,
            theirs_cents=self._matcher.theirs_cents,
            imported_at=now,
        )

    def doubt(self, file_name: str) -> str | None:
        """Why the file is probably the wrong one, or incomplete; None for a file without such signs."""
        doubts = []
        count, line_count = self._differences.count, self._reader.count
        if count > _MOST_DIFFERENCES or self._differing_lines * 2 > line_count:
            doubts.append(
                f"{file_name} looks like the wrong file: {counted(count, 'difference')} in "
                f"{counted(line_count, 'line')}."
            )
        if self.balance.first_break is not None:
            doubts.append(_sentence_of_break(self.balance.first_break))
        return " ".join(doubts) or None

    def _results(self) -> Iterator[messages.ComparedLine]:
        """Yield the result of every line, and then of every transaction that the statement lacks."""
        matches = _ResultsFile()
        for lines in chunked(self._reader.lines(self._request.source), _BATCH):
            for line, match in zip(lines, self._matcher.compare(lines), strict=True):
                self.balance.follow(line)
                matches.append(match)
            self._request.on_progress(self._reader.count)
        self._matcher.end()
        period = self._reader.proven_period()
        yield from map(self._decided, with_pauses(matches.read()))
        if self._request.covers is not None:
            period = coverage.period_with(period, self._request.covers)
        yield from self._matcher.missing(period)

    def coverages(self, statement: ProviderStatement) -> list[StatementCoverage]:
        """The days that the statement covers. Call after the last result."""
        stated = self._reader.stated
        # What is not over when the file is imported cannot be in it.
        last = min(stated.last or self._last, statement.imported_at)
        ends = min(stated.first or self._first, self._first), max(last, self._last)
        return coverage.coverage_rows(statement, self.balance.runs(), ends)

    def _decided(self, match: Match) -> messages.ComparedLine:
        at = match.at
        assert at is not None, "every line has a date"
        compared = replace(self._matcher.decide(match), at=at)
        self._first, self._last = min(at, self._first), max(at, self._last)
        self.days.append(
            DayLine(
                bytes.fromhex(match.receipt),
                compared.transaction_id or "",
                compared.moved_cents,
                at,
                compared.verdict,
                compared.is_difference,
            )
        )
        return compared


def _moment(written: str | None) -> datetime | None:
    return None if written is None else datetime.fromisoformat(written)


def _sentence_of_break(broken: messages.BalanceBreak) -> str:
    found, expected = written_amount(broken.found_cents), written_amount(broken.expected_cents)
    return (
        f"The running balance of line {broken.line} is {found}, and {expected} would follow from the line beside it: a "
        "line is missing, or has another amount or sign."
    )


def _view(row: ProviderStatement) -> messages.ProviderStatementView:
    lines = {messages.Verdict(name): count for name, count in row.counts.items()}
    return view_of_row(messages.ProviderStatementView, row, statement_id=row.id, lines=lines)
