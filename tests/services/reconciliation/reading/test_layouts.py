"""Layouts by hand: how a file is read is shown before anything is stored, and what operators say of it is kept."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.services.reconciliation.statement_files import reconcile
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.statements import ProviderStatement, StatementLayout
from ussd_server.services.reconciliation.messages import StatementReading
from ussd_server.services.statement_layouts.messages import (
    KeepLayout,
    PreviewStatement,
    RemoveLayout,
    StatementPreview,
)
from ussd_server.status import Code, ServiceError

FILES = Path(__file__).parent / "files"
FOREIGN = (
    b"Statement of ACME\n"
    b"Receipt;When;What;Sum;Left\n"
    b"77001;20-NOV-26 09:05;Sale;5000;105000\n"
    b"77002;20-NOV-26 09:06;Rent;-90000;15000\n"
)
COLUMNS = {"id": "Receipt", "date": "When", "amount": "Sum", "balance": "Left"}


def preview(
    services: Services, content: bytes, provider: str | None = None, columns: dict[str, str] | None = None
) -> StatementPreview:
    request = PreviewStatement(io.BytesIO(content), provider, StatementReading(columns=columns))
    return services.statement_layouts.preview(request, operator())


def keep(services: Services, columns: dict[str, str], content: bytes = FOREIGN) -> str:
    request = KeepLayout("mtn", io.BytesIO(content), columns, "Ann")
    return services.statement_layouts.keep(request, operator()).layout_id


def test_a_preview_shows_columns_lines_sums_and_period_and_stores_nothing(services: Services) -> None:
    shown = preview(services, (FILES / "airtel_user.csv").read_bytes())
    assert shown.provider == "airtel"
    read = {each.heading: each.field for each in shown.columns if each.how == "known"}
    assert (read["Transaction Type"], read["Transaction Amount"], read["Post Balance"]) == ("type", "amount", "balance")
    assert next(each for each in shown.columns if each.heading == "Record No").field is None
    assert [(line.line, line.amount_cents, line.kind, line.status) for line in shown.lines] == [
        (7, 500_000, "in", "succeeded"),
        (8, -5_000, "fee", "succeeded"),
        (9, -9_000_000, "out", "succeeded"),
    ]
    assert (shown.in_cents, shown.out_cents, shown.problem) == (500_000, 9_005_000, None)
    assert ProviderStatement.select().count() == 0


def test_a_file_that_no_table_knows_is_shown_with_its_headings(services: Services) -> None:
    with pytest.raises(ServiceError, match="Name the provider: the headings of the file fit none"):
        preview(services, FOREIGN)
    shown = preview(services, FOREIGN, "mtn")
    assert [(each.heading, each.field) for each in shown.columns] == [
        (heading, None) for heading in ("Receipt", "When", "What", "Sum", "Left")
    ]
    assert shown.problem == "No row has the headings Id or External id, Date, Amount or Credit or Debit."
    said = preview(services, FOREIGN, "mtn", COLUMNS)
    assert (said.in_cents, said.out_cents, said.problem) == (500_000, 9_000_000, None)
    assert [each.how for each in said.columns] == ["said", "said", None, "said", "said"]
    assert StatementLayout.select().count() == 0


def test_a_kept_layout_reads_files_with_the_same_headings(services: Services) -> None:
    with pytest.raises(ServiceError, match="No row has the headings"):
        reconcile(services, FOREIGN, "mtn")
    layout_id = keep(services, COLUMNS)
    assert reconcile(services, FOREIGN, "mtn").statement.theirs_cents == 500_000 - 9_000_000
    shown = preview(services, FOREIGN)
    assert (shown.provider, {each.how for each in shown.columns}) == ("mtn", {"kept", None})
    other = FOREIGN.replace(b"Left", b"Remaining")
    with pytest.raises(ServiceError, match="No row has the headings"):
        reconcile(services, other, "mtn")
    # Another layout for these headings takes its place.
    second = keep(services, {field: COLUMNS[field] for field in ("id", "date", "amount")})
    (kept,) = services.statement_layouts.list(operator())
    assert (kept.layout_id, kept.created_by, kept.headings[0]) == (second, "Ann", "Receipt")
    with pytest.raises(ServiceError) as refused:
        services.statement_layouts.remove(RemoveLayout(layout_id, "Ann"), operator())
    assert refused.value.code is Code.NOT_FOUND
    services.statement_layouts.remove(RemoveLayout(second, "Ben"), operator())
    assert services.statement_layouts.list(operator()) == ()
    events = [(event.action, event.decided_by) for event in AuditEvent.select() if event.action.startswith("layout")]
    assert events == [("layout.kept", "Ann"), ("layout.kept", "Ann"), ("layout.removed", "Ben")]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_layout_that_cannot_read_its_file_is_refused(services: Services) -> None:
    for columns, problem in (
        (COLUMNS | {"colour": "What"}, "'colour' is none of id, reference"),
        ({"id": "Receipt", "amount": "Sum"}, "A layout has an id or a reference, a date"),
        (COLUMNS | {"credit": "Sum"}, "A column holds one field only"),
        (COLUMNS | {"fee": "Charge"}, "the headings lack Charge"),
    ):
        with pytest.raises(ServiceError, match=problem):
            keep(services, columns)
    with pytest.raises(ServiceError, match="the heading Sum is there twice"):
        keep(services, COLUMNS, FOREIGN.replace(b"What", b"Sum"))
    with pytest.raises(ServiceError, match="PDF"):
        preview(services, b"%PDF-1.7", "mtn")
    assert StatementLayout.select().count() == 0
