"""The form in which an operator says how a statement is read, and the preview that it shows."""

from __future__ import annotations

from typing import IO

from flask import request

from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.providers.statement_format import DateOrder, StatementField, Thousands
from ussd_server.services.reconciliation.messages import StatementReading
from ussd_server.services.reconciliation.reading.stated_direction import NOT_STATED, StatedDirection
from ussd_server.services.statement_layouts.messages import KeepLayout, PreviewStatement, StatementPreview
from ussd_server.status import Code, ServiceError

FIELDS = {
    StatementField.ID: "Their id",
    StatementField.REFERENCE: "Our reference",
    StatementField.DATE: "Date and time",
    StatementField.STATUS: "Status",
    StatementField.TYPE: "Kind of the line",
    StatementField.SENDER: "From",
    StatementField.RECEIVER: "To",
    StatementField.AMOUNT: "Amount",
    StatementField.CREDIT: "Money that came in",
    StatementField.DEBIT: "Money that went out",
    StatementField.FEE: "Fee",
    StatementField.TAX: "Tax",
    StatementField.BALANCE: "Balance afterwards",
    StatementField.CURRENCY: "Currency",
}
_MOST_COLUMNS = 256


def reading_in_form() -> StatementReading:
    """How the form says that the file is read. Raises INVALID_REQUEST for a field that is chosen twice."""
    dates, thousands = request.form.get("dates", ""), request.form.get("thousands", "")
    return StatementReading(
        DateOrder(dates) if dates in set(DateOrder) else None,
        Thousands(thousands) if thousands in set(Thousands) else None,
        _corrected_columns(),
        StatedDirection("all_in" in request.form, request.form.get("our_number", "").strip() or None),
    )


def preview_of(file: IO[bytes], account: str, reading: StatementReading, context: RequestContext) -> StatementPreview:
    """How the file is read; nothing is stored."""
    provider = services().provider_statements.provider_of(account, context)
    wanted = PreviewStatement(file, provider, reading)  # type: ignore[arg-type]
    return services().statement_layouts.preview(wanted, context)


def keep_corrections(file: IO[bytes], account: str, reading: StatementReading, context: RequestContext) -> None:
    """Keep the columns that the operator corrected and the direction that it stated, if there are any."""
    if reading.columns or reading.direction != NOT_STATED:
        by = context.caller.operator or ""
        provider = services().provider_statements.provider_of(account, context)
        wanted = KeepLayout(provider, file, reading.columns, by, reading.direction)  # type: ignore[arg-type]
        services().statement_layouts.keep(wanted, context)


def known_fields(preview: StatementPreview) -> list[str]:
    """The layout before the operator's corrections, which the form brings along."""
    fields = []
    for index, column in enumerate(preview.columns):
        is_same_table = request.form.get(f"heading-{index}") == column.heading
        fields.append(request.form.get(f"known-{index}", "") if is_same_table else column.field or "")
    return fields


def _corrected_columns() -> dict[str, str] | None:
    """Headings by field, None unless a column was given another field than the one that is known for it."""
    columns: dict[str, str] = {}
    is_corrected = False
    for index in range(_MOST_COLUMNS):
        heading, field = request.form.get(f"heading-{index}"), request.form.get(f"field-{index}", "")
        if heading is None:
            break
        is_corrected |= field != request.form.get(f"known-{index}", "")
        if field in columns:
            raise ServiceError(Code.INVALID_REQUEST, "Choose each field for one column only.")
        if field:
            columns[field] = heading
    return columns if is_corrected else None
