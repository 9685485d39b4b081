"""Small spreadsheets that would take much work or memory."""

from __future__ import annotations

import io
from collections.abc import Sequence
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED

import pytest

from tests.spreadsheets.workbooks import raw_workbook
from ussd_server.spreadsheets import headings
from ussd_server.spreadsheets.headings import heading_key
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError

DAMAGED = "The XLSX file is damaged or not a spreadsheet."


def refusal(content: bytes, bounds: FileBounds | None = None) -> str:
    with pytest.raises(SpreadsheetError) as refused:
        list(read_rows(io.BytesIO(content), bounds))
    return str(refused.value)


def styled(codes: Sequence[str], cell_styles: int = 1) -> bytes:
    formats = "".join(f'<numFmt numFmtId="{200 + n}" formatCode="{code}"/>' for n, code in enumerate(codes))
    cells = '<xf numFmtId="200"/>' * cell_styles
    styles = f"<styleSheet><numFmts>{formats}</numFmts><cellXfs>{cells}</cellXfs></styleSheet>"
    return raw_workbook(b"<row><c s='0'><v>1.5</v></c></row>", styles=styles)


@pytest.mark.parametrize("line_break", [b"\n", b"\r", b" \r\n", b",,\n"])
def test_thousands_of_empty_rows_are_refused(line_break: bytes) -> None:
    bounds = FileBounds(most_rows=10, most_columns=5, most_cell_characters=100)
    assert len(list(read_rows(io.BytesIO(b"a,b,c\n" + line_break * 9000 + b"1,2,3\n"), bounds))) == 2
    assert "more than 20,000 empty rows" in refusal(b"a,b,c\n" + line_break * 20_001, bounds)


def test_a_number_format_longer_than_any_is_refused_before_it_is_searched_for_a_date() -> None:
    assert refusal(styled(["[" * 60_000])) == DAMAGED


def test_more_number_formats_than_any_workbook_has_are_refused() -> None:
    assert refusal(styled(["0"] * 5000)) == DAMAGED


def test_a_number_format_is_judged_once_for_all_its_cell_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    monkeypatch.setattr("ussd_server.spreadsheets.xml_parts.is_date_format", lambda code: bool(judged.append(code)))
    content = styled(["yyyy-mm-dd"], cell_styles=1000)
    assert list(read_rows(io.BytesIO(content))) == [Row(1, ("1.5",))]
    assert judged == ["yyyy-mm-dd"]


def test_more_cell_styles_than_any_workbook_has_are_refused_before_they_fill_the_memory() -> None:
    assert refusal(styled(["yyyy-mm-dd"], cell_styles=70_000)) == DAMAGED


@pytest.mark.parametrize("compression", [ZIP_BZIP2, ZIP_LZMA])
def test_a_part_in_a_compression_that_no_spreadsheet_program_uses_is_refused(compression: int) -> None:
    assert refusal(raw_workbook(b"<row><c><v>1</v></c></row>", compression=compression)) == DAMAGED


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED])
def test_stored_and_deflated_parts_are_read(compression: int) -> None:
    content = raw_workbook(b"<row><c><v>1</v></c></row>", compression=compression)
    assert list(read_rows(io.BytesIO(content))) == [Row(1, ("1",))]


def test_a_text_that_many_cells_share_counts_in_each_of_them() -> None:
    content = raw_workbook(b"<row><c t='s'><v>0</v></c></row>", b"<sst><si><t>0123456789</t></si></sst>", repeat=11)
    assert len(list(read_rows(io.BytesIO(content), FileBounds(most_characters=110)))) == 11
    sentence = "Row 11: the file has more than 100 characters; divide it."
    assert refusal(content, FileBounds(most_characters=100)) == sentence


def test_two_cells_at_one_address_are_refused() -> None:
    content = raw_workbook(b"<row><c r='B1'><v>5000</v></c><c r='B1'><v>9000</v></c></row>")
    assert refusal(content) == "Row 1, column B: the row has this cell twice."


@pytest.mark.parametrize(
    ("cell", "seen"),
    [
        (b"<c t='inlineStr'><is><t>5</t><rPh><t>000</t></rPh></is></c>", "5"),
        (b"<c t='inlineStr'><is><t>5</t></is><v>000</v></c>", "5"),
        (b"<c><v>5</v><is><t>000</t></is></c>", "5"),
        (b"<c><v>5</v><extLst><ext><t>000</t></ext></extLst></c>", "5"),
    ],
)
def test_a_cell_is_what_spreadsheet_programs_show_of_it(cell: bytes, seen: str) -> None:
    assert list(read_rows(io.BytesIO(raw_workbook(b"<row>" + cell + b"</row>")))) == [Row(1, (seen,))]


def test_a_cell_with_two_values_is_refused() -> None:
    assert refusal(raw_workbook(b"<row><c><v>5</v><v>000</v></c></row>")) == DAMAGED


@pytest.mark.parametrize("number", ["5_000", "٥٠٠٠"])
def test_a_number_that_only_python_reads_is_refused(number: str) -> None:
    sentence = "Row 1, column A: the cell's number cannot be read."
    assert refusal(raw_workbook(f"<row><c><v>{number}</v></c></row>".encode())) == sentence


def test_the_number_of_a_shared_text_has_plain_digits() -> None:
    texts = b"<sst>" + b"<si><t>500</t></si>" * 11 + b"</sst>"
    sentence = "Row 1, column A: the cell's text is missing in the file."
    for number in ("1_0", "٥", "+5", " 5"):
        cell = f'<row><c t="s"><v>{number}</v></c></row>'.encode()
        assert refusal(raw_workbook(cell, texts)) == sentence


def test_a_cell_with_an_error_is_no_amount() -> None:
    cells = b'<row><c t="e"><v>5000</v></c><c t="e"><v>#N/A</v></c></row>'
    assert list(read_rows(io.BytesIO(raw_workbook(cells)))) == [Row(1, ("#5000", "#N/A"))]


def test_a_tag_longer_than_any_is_refused() -> None:
    assert refusal(raw_workbook(b"<c a='" + b" " * 200_000 + b"'/>")) == DAMAGED


def test_a_cell_longer_than_any_heading_is_not_compared_with_them() -> None:
    assert heading_key("Phone Number") == "phonenumber"
    assert heading_key("x" * (headings.LONGEST_HEADING + 1)) == ""
