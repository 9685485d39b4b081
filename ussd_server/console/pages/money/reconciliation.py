"""Reconciliation: statements of providers compared with our transactions, and their differences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from io import TextIOWrapper
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any

from flask import Response, flash, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import formats
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, fault_of
from ussd_server.console.links import link_to
from ussd_server.console.pages.money.statement_reading import (
    FIELDS,
    keep_corrections,
    known_fields,
    preview_of,
    reading_in_form,
)
from ussd_server.console.pages.service.proposals import covered_days, proposal_about, propose
from ussd_server.console.tables import ACCOUNT, Column, DataTable, TableFilter, pages, send_csv, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.providers.statement_format import LineStatus
from ussd_server.services.reconciliation.messages import (
    MAY_DIFFER,
    ComparedLine,
    DifferenceView,
    EndDifference,
    ListDifferences,
    ReconcileStatement,
    Reconciliation,
    Verdict,
)
from ussd_server.services.statement_layouts.messages import StatementPreview
from ussd_server.spreadsheets.delimited import line_writer
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day, written_amount
from ussd_server.wire import ListPage

_LARGEST_BYTES = 101 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_MOST_SHOWN = 50
_EVERY_LINE = "The file has every line of these days"

VERDICTS = {
    Verdict.MATCHED: "Matched",
    Verdict.AMOUNT_DIFFERS: "Amount differs",
    Verdict.STATUS_DIFFERS: "Status differs",
    Verdict.NOT_OURS: "Not ours",
    Verdict.NOT_THEIRS: "Not theirs",
    Verdict.REVERSAL: "Reversal",
    Verdict.FEE: "Fee",
}
_WHAT_TO_DO = marked(
    {
        Verdict.AMOUNT_DIFFERS: "The same payment with another amount, which moved nothing. Ask the provider, then end "
        "the review.",
        Verdict.STATUS_DIFFERS: "The same payment with another outcome. Conclude a success of theirs; "
        "ask the provider about a failure of theirs.",
        Verdict.NOT_OURS: "A payment that we do not know, which moved nothing. Ask the provider, then end the review.",
        Verdict.NOT_THEIRS: "We booked a success that the statement lacks. Look into the neighbouring statement, "
        "then ask the provider.",
        Verdict.REVERSAL: "A line that is in the statement twice. Ask the provider, then end the review.",
    }
)
_STATEMENT_COLUMNS = (
    Column("file_name", "File", link=lambda row: link_to("statement", row.statement_id)),
    ACCOUNT,
    Column("first_at", "From", "moment"),
    Column("last_at", "To", "moment"),
    Column("lines", "Lines", "number", is_minor=True, value=lambda row: sum(row.lines.values())),
    Column("differences", "Differences", "number", value=lambda row: row.difference_count),
    Column("sum_difference", "Ours less theirs", "money", value=lambda row: row.ours_cents - row.theirs_cents),
    Column("imported_at", "Compared", "moment"),
    Column("statement_id", "Id", "id", where="files"),
)
_DIFFERENCE_COLUMNS = (
    Column("line", "Line", "number", missing="none", is_minor=True),
    Column(
        "verdict",
        "Difference",
        "word",
        value=lambda each: VERDICTS[each.verdict],
        link=lambda each: link_to("difference", each.difference_id),
    ),
    Column("ours", "Ours", value=lambda each: side(each.ours), missing="nothing"),
    Column("theirs", "Theirs", value=lambda each: side(each.theirs), missing="nothing"),
    Column("provider_id", "Their id", "code"),
    Column("dated", "Dated", "word"),
    Column("reference", "Reference", "reference", where="files"),
    Column("party", "Party", where="files"),
    Column("transaction_id", "Transaction", "id", link=lambda each: link_to("transaction", each.transaction_id)),
    Column("review", "Review", "status", value=lambda each: review_of(each)),
    Column("difference_id", "Id", "id", where="files"),
)

_VERDICT = TableFilter("verdict", "Difference", {each.value: VERDICTS[each] for each in MAY_DIFFER}, read=Verdict)


@console.page("GET", "/operator/reconciliation", who="operator")
def list_reconciliations(context: RequestContext) -> Response:
    page = pages(services().provider_statements.list, ListPage(cursor=request.args.get("cursor")), context)
    table = DataTable(
        "Statements, newest first",
        _STATEMENT_COLUMNS,
        page,
        empty_title="No statement yet",
        empty_text="Download yesterday's statement from a provider and compare it with our books.",
    )
    return show_table("console/reconciliation/list.html", table)


@console.page("GET", "/operator/reconciliation/new", who="operator")
def new_reconciliation(context: RequestContext) -> str:
    """The form; where a file was refused, also how its columns are read, so that they can be corrected."""
    file, preview = request.files.get("file"), None
    if file is not None and file.filename:
        with suppress(ServiceError):
            preview = preview_of(file.stream, request.form.get("account", ""), reading_in_form(), context)
    return _form(context, preview=preview)


@console.page(
    "POST",
    "/operator/reconciliation/new",
    who="operator",
    form_on="new_reconciliation",
    max_body_bytes=_LARGEST_BYTES,
    streams_body=True,
)
def create_reconciliation(context: RequestContext) -> Any:
    """Show how a statement is read and compared, or import it; then show its result, or send every line as a file.

    Only an import stores anything, and what looks like the wrong file is stored once the operator confirms it.
    """
    file, account = request.files.get("file"), request.form.get("account", "")
    with ExitStack() as open_files:
        result_file = open_files.enter_context(TemporaryFile())
        text = TextIOWrapper(result_file, encoding="utf-8", newline="")
        try:
            if file is None or not file.filename:
                raise fault_of("file", "Choose a file.")
            covers = covered_days(may_lack=True)
            comparison = ReconcileStatement(
                account,
                file.filename,
                file.stream,  # type: ignore[arg-type]
                line_writer(text, ComparedLine),
                is_dry_run=request.form.get("result") == "try",
                is_confirmed=request.form.get("is_confirmed") == "yes",
                reading=reading_in_form(),
            )
            result = services().provider_statements.reconcile(comparison, context)
            if result.is_stored and not comparison.is_dry_run:
                keep_corrections(file.stream, account, comparison.reading, context)
        finally:
            text.detach()
        if comparison.is_dry_run or not result.is_stored:
            status = (
                200 if comparison.is_dry_run or "HX-Request" in request.headers else Code.INVALID_REQUEST.http_status
            )
            preview = preview_of(file.stream, account, comparison.reading, context)
            return Response(_form(context, tried=result, preview=preview), status=status)
        statement_id, answer = result.statement.statement_id, None
        if covers:
            # Two operators state what a file covers; this one proposes it.
            answer = propose("statement.cover", statement_id, context, _EVERY_LINE, **covers)
        if request.form.get("result") == "csv":
            # The file is sent after the view has returned.
            return send_csv(_parts(result_file, open_files.pop_all()), "reconciliation", account, comparison.file_name)
    if answer is not None:
        return answer
    if result.is_repeat:
        flash("This file was compared before. Nothing was stored again.", "warn")
    return redirect(url_for("console.show_reconciliation", statement_id=statement_id), 303)


@console.page("GET", "/operator/reconciliation/<statement_id>", who="operator", shows="statement")
def show_reconciliation(context: RequestContext, statement_id: str) -> Response:
    statement = services().provider_statements.show(statement_id, context)
    query = ListDifferences(statement_id, cursor=request.args.get("cursor"), verdict=_VERDICT.value)
    page = pages(services().differences.list, query, context)
    table = DataTable(
        gettext("Differences of %(file)s", file=statement.file_name),
        _DIFFERENCE_COLUMNS,
        page,
        (_VERDICT,),
        empty_title="The books agree",
        empty_text="Every line matches a transaction of ours.",
    )
    open_proposals = services().proposals.list_open(context)
    proposed = {each.action for each in open_proposals if each.object_id == statement_id}
    return show_table(
        "console/reconciliation/statement.html",
        table,
        seen=statement,
        days=sorted({kampala_day(statement.first_at), kampala_day(statement.last_at)}),
        verdicts=VERDICTS,
        proposed=proposed,
    )


@console.page("GET", "/operator/differences", who="operator")
def list_differences(context: RequestContext) -> Response:
    page = pages(services().differences.list, ListDifferences(cursor=request.args.get("cursor")), context)
    table = DataTable(
        "Open differences, newest first",
        (ACCOUNT, *_DIFFERENCE_COLUMNS),
        page,
        empty_title="No difference is open",
        empty_text="Differences that a comparison finds wait here.",
    )
    return show_table("console/reconciliation/differences.html", table)


@console.page("GET", "/operator/differences/<difference_id>", who="operator", shows="difference")
def show_difference(context: RequestContext, difference_id: str) -> str:
    each = services().differences.show(difference_id, context)
    return render_template(
        "console/reconciliation/difference.html",
        each=each,
        verdicts=VERDICTS,
        review=review_of(each),
        what_to_do=_WHAT_TO_DO[each.verdict] if review_of(each) == "open" else None,
        side=side,
        is_proposed=any(proposal_about(name, context) for name in (difference_id, each.transaction_id) if name),
        may_be_unmoved=each.transaction_id and services().releases.may_be_unmoved(each.transaction_id, context),
        may_conclude=review_of(each) == "open"
        and (each.verdict, each.theirs) == (Verdict.STATUS_DIFFERS, LineStatus.SUCCEEDED),
    )


@console.page("POST", "/operator/differences/<difference_id>/end", who="operator", form_on="show_difference")
def end_difference(context: RequestContext, difference_id: str) -> Any:
    """End the review of a difference that is explained. No money moves."""
    wanted = EndDifference(difference_id, request.form.get("reason", ""), context.caller.operator or "")
    services().differences.end(wanted, context)
    return done("The review of the difference has ended.", "show_difference", difference_id=difference_id)


def side(value: int | str | None) -> str | None:
    """The value of one side of a difference: a status, or an amount with its sign."""
    return written_amount(value) if isinstance(value, int) else value and formats.translated(value)


def review_of(each: DifferenceView) -> str:
    """The state of a review; `moved` for a difference that is a movement, and has none."""
    if each.movement_id is not None:
        return "moved"
    return "ended" if each.ended_at else "open"


def _form(context: RequestContext, tried: Reconciliation | None = None, preview: StatementPreview | None = None) -> str:
    return render_template(
        "console/reconciliation/new.html",
        account=request.values.get("account"),
        tried=tried,
        differences=list(islice(tried.differences(), _MOST_SHOWN)) if tried else (),
        verdicts=VERDICTS,
        side=side,
        accounts=services().provider_statements.accounts(context),
        preview=preview,
        layout=known_fields(preview) if preview else (),
        fields=FIELDS,
        chosen=request.form,
        # A part of the page is replaced then, so that the chosen file stays.
        keeps_file="HX-Request" in request.headers,
    )


def _parts(file: IO[bytes], open_files: ExitStack) -> Iterator[bytes]:
    with open_files:
        file.seek(0)
        while part := file.read(_CHUNK_BYTES):
            yield part
