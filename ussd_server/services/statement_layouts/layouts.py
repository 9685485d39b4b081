"""Shows how statements are read, and keeps what operators say of their columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import BinaryIO

import orjson

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.statements import StatementLayout
from ussd_server.providers.statement_format import LineStatus, LineType, StatementField
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_name
from ussd_server.services.pages import find_by_id
from ussd_server.services.reconciliation.messages import StatementReading
from ussd_server.services.reconciliation.reading.running_balance import RunningBalance
from ussd_server.services.reconciliation.reading.statement_lines import ProviderLine, StatementReader
from ussd_server.services.reconciliation.reading.statement_rows import lacks_columns
from ussd_server.services.reconciliation.statements import FORMATS, ProviderStatementService
from ussd_server.services.runtime import Runtime
from ussd_server.services.statement_layouts.messages import (
    ColumnSource,
    ColumnView,
    KeepLayout,
    LayoutView,
    LineView,
    PreviewStatement,
    RemoveLayout,
    StatementPreview,
)
from ussd_server.spreadsheets.headings import LONGEST_HEADING, Headings, headings_key
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import view_of_row

_LINES_SHOWN = 20
_ROWS_SEARCHED = 100
_MOST_LAYOUTS = 200
_SANDBOX = "sandbox"


class LayoutService:
    """Reads statements for a preview, and keeps layouts; for operators only."""

    def __init__(self, runtime: Runtime, statements: ProviderStatementService) -> None:
        self._clock = runtime.clock
        self._statements = statements

    def preview(self, request: PreviewStatement, context: RequestContext) -> StatementPreview:
        """Read a whole file and store nothing.

        Raises INVALID_REQUEST for columns that no layout can have, for a file that is no table, and without a provider
        for a file whose headings fit none or several.
        """
        context.require_operator()
        _check_columns(request.reading.columns)
        provider = request.provider or self._provider_of(request)
        reader = self._statements.reader_of(provider, request.reading)
        lines: list[ProviderLine] = []
        sums, problem = {1: 0, -1: 0}, None
        balance = RunningBalance()
        try:
            for line in reader.lines(request.source):
                balance.follow(line)
                if len(lines) < _LINES_SHOWN:
                    lines.append(line)
                if line.status is LineStatus.SUCCEEDED:
                    sums[_direction(line)] += line.amount_cents
            period = reader.period()
        except SpreadsheetError as error:
            problem = str(error)
        return StatementPreview(
            provider,
            _columns_of(reader, request),
            tuple(map(_line_view, lines)),
            sums[1],
            sums[-1],
            None if problem else period.first,
            None if problem else period.last,
            None if problem else balance.first_break,
            problem,
        )

    def keep(self, request: KeepLayout, context: RequestContext) -> LayoutView:
        """Keep a layout, in place of another one for the same headings of this provider.

        Raises INVALID_REQUEST for columns that no layout can have, and for headings that the file does not have.
        """
        context.require_operator()
        by, now = require_name(request.by), self._clock.now()
        _check_columns(request.columns)
        reading = StatementReading(columns=request.columns, direction=request.direction)
        reader = self._statements.reader_of(request.provider, reading)
        headings = _headings_in(reader, request.source)
        if isinstance(headings, str):
            raise ServiceError(Code.INVALID_REQUEST, headings)
        row = StatementLayout(
            id=new_id(now),
            provider=request.provider,
            key=hashlib.sha256(orjson.dumps(headings_key(headings.cells))).hexdigest(),
            headings=list(headings.cells),
            columns=dict(request.columns or {field: headings.cells[at] for field, at in headings.columns.items()}),
            all_in=request.direction.all_in,
            our_number=request.direction.our_number,
            created_by=by,
            created_at=now,
        )
        of_provider = StatementLayout.provider == request.provider
        with unit_of_work():
            StatementLayout.delete().where(of_provider, StatementLayout.key == row.key).execute()
            if StatementLayout.select().where(of_provider).count() >= _MOST_LAYOUTS:
                raise ServiceError(Code.INVALID_REQUEST, f"There are {_MOST_LAYOUTS} layouts; remove one first")
            row.save(force_insert=True)
            write_audit_event("layout.kept", context, now, client_id=None, object_id=row.id, decided_by=by)
        return _layout_view(row)

    def list(self, context: RequestContext) -> tuple[LayoutView, ...]:
        """All layouts that are kept, by provider, the newest first."""
        context.require_operator()
        rows = StatementLayout.select().order_by(StatementLayout.provider, StatementLayout.id.desc())
        return tuple(map(_layout_view, rows))

    def remove(self, request: RemoveLayout, context: RequestContext) -> LayoutView:
        """Forget a layout. Raises NOT_FOUND."""
        context.require_operator()
        by = require_name(request.by)
        with unit_of_work():
            row = find_by_id(StatementLayout.select(), StatementLayout, request.layout_id, "Layout")
            row.delete_instance()
            now = self._clock.now()
            write_audit_event("layout.removed", context, now, client_id=None, object_id=row.id, decided_by=by)
        return _layout_view(row)

    def _provider_of(self, request: PreviewStatement) -> str:
        """The provider of which the file has most headings."""
        fits: dict[str, int] = {}
        for provider in FORMATS:
            headings = _headings_in(self._statements.reader_of(provider, request.reading), request.source)
            if isinstance(headings, Headings):
                fits[provider] = len(headings.columns)
        best = [provider for provider, count in fits.items() if count == max(fits.values())]
        if len(best) > 1 and _SANDBOX in best:
            best.remove(_SANDBOX)
        if len(best) != 1:
            fitting = f"fit {' and '.join(best)}" if best else "fit none"
            raise ServiceError(Code.INVALID_REQUEST, f"Name the provider: the headings of the file {fitting}")
        return best[0]


def _check_columns(columns: Mapping[str, str] | None) -> None:
    if columns is None:
        return
    for field in columns:
        if field not in set(StatementField):
            raise ServiceError(Code.INVALID_REQUEST, f"{field[:40]!r} is none of {', '.join(StatementField)}")
    if lacks_columns(columns):
        raise ServiceError(
            Code.INVALID_REQUEST, "A layout has an id or a reference, a date, and an amount, a credit or a debit"
        )
    if len(set(columns.values())) < len(columns):
        raise ServiceError(Code.INVALID_REQUEST, "A column holds one field only")


def _headings_in(reader: StatementReader, source: BinaryIO) -> Headings | str:
    """The headings that a reader finds in a file, or the sentence for a file without them."""
    try:
        next(reader.table.rows(source), None)
    except SpreadsheetError as error:
        # A row below the headings may be refused.
        return reader.table.headings if reader.table.headings.columns else str(error)
    return reader.table.headings


def _columns_of(reader: StatementReader, request: PreviewStatement) -> tuple[ColumnView, ...]:
    headings = reader.table.headings
    cells = headings.cells or _likely_headings(request.source)
    how = ColumnSource.SAID if request.reading.columns else ColumnSource.KNOWN
    if headings.is_by_layout:
        how = ColumnSource.KEPT
    fields = {column: StatementField(field) for field, column in headings.columns.items()}
    return tuple(
        ColumnView(cell[:LONGEST_HEADING], fields.get(index), how if index in fields else None)
        for index, cell in enumerate(cells)
    )


def _likely_headings(source: BinaryIO) -> Sequence[str]:
    """The first of the rows that fill the most cells; INVALID_REQUEST for a file that is no table."""
    rows = [row.cells for row in islice(read_rows(source), _ROWS_SEARCHED)]
    return max(rows, key=lambda cells: len(list(filter(None, cells))), default=())


def _direction(line: ProviderLine) -> int:
    # A reversal without a sign is taken for money that was given back.
    return line.direction or -1


def _line_view(line: ProviderLine) -> LineView:
    kind = line.type if line.type in (LineType.FEE, LineType.REVERSAL) else None
    return LineView(
        line.line,
        line.provider_id,
        line.at,
        _direction(line) * line.amount_cents,
        kind or (LineType.IN if _direction(line) > 0 else LineType.OUT),
        line.status,
    )


def _layout_view(row: StatementLayout) -> LayoutView:
    return view_of_row(LayoutView, row, layout_id=row.id, headings=tuple(row.headings))
