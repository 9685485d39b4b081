"""Reading tables from files of every kind that people upload."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils import get_column_letter

from tests.spreadsheets.workbooks import raw_workbook, workbook
from ussd_server.spreadsheets import reader
from ussd_server.spreadsheets.delimited import csv_parts, neutralised
from ussd_server.spreadsheets.headings import find_columns
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError, column_letters

SEEN_AT = datetime(2026, 11, 20, 14, 3, 12)  # noqa: DTZ001 - spreadsheets have no time zones
TABLE = (("Id", "From", "Amount"), ("23503452", "José, Kampala", "1,234,567.00"), ("23503453", "", "UGX 5,000"))


def read(content: bytes, bounds: FileBounds | None = None) -> list[Row]:
    return list(read_rows(io.BytesIO(content), bounds))


def written(delimiter: str) -> str:
    return "".join(delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in row) + "\r\n" for row in TABLE)


def refusal(content: bytes, bounds: FileBounds | None = None) -> str:
    with pytest.raises(SpreadsheetError) as refused:
        read(content, bounds)
    return str(refused.value)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_csv_in_every_encoding_and_with_every_delimiter_gives_the_same_rows(delimiter: str, encoding: str) -> None:
    titles = f"Account holder: ACME, Ltd\r\nPeriod{delimiter}1 to 2\r\n\r\n"
    rows = read((titles + written(delimiter)).encode(encoding))
    assert [(row.line, row.cells) for row in rows[-3:]] == [(line, cells) for line, cells in enumerate(TABLE, 4)]


def test_the_first_line_of_excel_that_names_the_separator_is_followed() -> None:
    assert read(b"sep=;\r\na,b;c\r\n") == [Row(2, ("a,b", "c"))]


def test_a_cell_over_several_lines_keeps_the_line_numbers_of_the_file() -> None:
    rows = read(b'Id,Note\n1,"two\nlines"\n\n2,x\n')
    assert [row.line for row in rows] == [1, 2, 5]
    assert rows[1].cells == ("1", "two\nlines")


def test_a_reader_that_is_given_up_leaves_the_file_to_its_owner() -> None:
    file = io.BytesIO(b"Id\n1\n")
    rows = read_rows(file)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert not file.closed
    rows = read_rows(file)
    next(rows)
    file.close()
    rows.close()  # type: ignore[attr-defined]


def test_a_workbook_gives_texts_as_people_see_them() -> None:
    def change(book: object, sheet: object) -> None:
        sheet["F4"].number_format = "dd/mm/yyyy hh:mm"  # type: ignore[index]
        sheet.merge_cells("A1:C1")  # type: ignore[attr-defined]

    values = (256772123456, 2.5e11, 99.5, True, "  José ", SEEN_AT, "=SUM(A1:A9)", -500)
    content = workbook([("Statement",), (), ("Id", "Id2"), values], change)
    rows = read(content)
    assert rows[0] == Row(1, ("Statement",))
    assert rows[1] == Row(3, ("Id", "Id2"))
    assert rows[2] == Row(
        4,
        ("256772123456", "250000000000", "99.5", "TRUE", "José", "2026-11-20 14:03:12", "=SUM(A1:A9)", "-500"),
    )


def test_the_first_visible_sheet_is_read() -> None:
    def change(book: object, sheet: object) -> None:
        book.create_sheet("Payments").append(("second",))  # type: ignore[attr-defined]
        sheet.sheet_state = "hidden"  # type: ignore[attr-defined]

    assert read(workbook([("first",)], change)) == [Row(1, ("second",))]


def test_formulas_are_text_and_cells_without_places_or_styles_are_read() -> None:
    sheet = (
        b"<row><c><f>1+1</f><v>2</v></c><c t='inlineStr'><is><t>in</t><t>line</t></is></c>"
        b"<c t='str'><v>kept</v></c></row>"
        b"<row r='9'><c r='C9' t='s'><v>0</v></c></row>"
    )
    shared = b"<sst><si><r><t>two </t></r><r><t>parts</t></r><rPh><t>hint</t></rPh></si></sst>"
    assert read(raw_workbook(sheet, shared)) == [Row(1, ("=1+1", "inline", "kept")), Row(9, ("", "", "two parts"))]


OLE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(5000)
PASSWORD = OLE + "EncryptedPackage".encode("utf-16-le")
DOCTYPE = b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]><sst><si><t>&a;</t></si></sst>"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The file is empty."),
        (b" \r\n\r\n", "The file is empty."),
        (b"Id,Name\n1,Jos\xe9\n", "Row 2, column B: the text is neither UTF-8 nor UTF-16; save the file as CSV UTF-8."),
        ("Id,Name\n1,x".encode("utf-16")[:-1], "Row 2: the text is not UTF-16 to its end; is the file whole?"),
        (b"Id,Name\n1,a\x00b\n", "Row 2, column B: the cell holds bytes that are no text."),
        (b'Id,Name\n1,"open\n' + 70_000 * b"2,x\n", "Row 2: a quotation mark is opened and never closed"),
        (b"a," * 300, "Row 1: the row has more than 256 columns."),
        (b"a" * 40_000, "Row 1, column A: the cell is too long."),
        (b"a" * 2_000_000, "Row 1: the line is longer than 200,000 characters."),
        (b"<html><table>", "The file is a web page"),
        (b"%PDF-1.7", "The file is a PDF document"),
        (OLE, "The file has the old Excel format; save it as XLSX or CSV."),
        (PASSWORD, "The file has a password; save it without one."),
        (b"PK\x03\x04rest", "The XLSX file is damaged or not a spreadsheet."),
        (workbook([TABLE[0]])[:-900], "The XLSX file is damaged or not a spreadsheet."),
        (raw_workbook(b"<row><c t='s'><v>7</v></c></row>"), "Row 1, column A: the cell's text is missing in the file."),
        (raw_workbook(b"<row><c><v>many</v></c></row>"), "Row 1, column A: the cell's number cannot be read."),
        (raw_workbook(b"<row><c r='XFD1'><v>1</v></c></row>"), "Row 1: the row has more than 256 columns."),
        (
            raw_workbook(b"<row><c r='" + b"A" * 60_000 + b"1'/></row>"),
            "Row 1: a cell has an address that no sheet has.",
        ),
        (raw_workbook(b"<row><c r='A" + b"1" * 4000 + b"'/></row>"), "Row 1: a cell has an address that no sheet has."),
        (raw_workbook(b"<row><c r='a1'/></row>"), "Row 1: a cell has an address that no sheet has."),
        (raw_workbook(b"<row r='" + b"1" * 4000 + b"'/>"), "The row after row 0 has no number of its own."),
        (raw_workbook(b"<row r='0'/>"), "The row after row 0 has no number of its own."),
        (raw_workbook(b"<row r='3'/><row r='3'/>"), "The row after row 3 has no number of its own."),
        (raw_workbook(b"<row></c></row>"), "The XLSX file is damaged or not a spreadsheet."),
        (raw_workbook(b"<row/>", DOCTYPE), "The XLSX file is damaged or not a spreadsheet."),
        (raw_workbook(b"<a>", repeat=1000), "The XLSX file is damaged or not a spreadsheet."),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(content: bytes, sentence: str) -> None:
    assert refusal(content).startswith(sentence)


def test_the_bounds_of_a_file_are_kept() -> None:
    assert refusal(b"x\n" * 11, FileBounds(most_rows=10)) == "Row 11: the file has more than 10 rows."
    assert refusal(workbook([("x",)] * 11), FileBounds(most_rows=10)) == "Row 11: the file has more than 10 rows."
    assert refusal(bytes(1024 * 1024 + 1), FileBounds(most_bytes=1024 * 1024)) == "The file is larger than 1 MB."


SMALL = 15 * 1024 * 1024
BOMBS: dict[str, Callable[[], bytes]] = {
    "beyond the bound": lambda: raw_workbook(b"<row/>" * 10_000, repeat=400),
    "one row of many cells": lambda: raw_workbook(b"<c><v>1</v></c>" * 1000, repeat=SMALL // 15_000),
    "one long text": lambda: raw_workbook(b"x" * 10_000, repeat=SMALL // 10_000),
    "one long cell": lambda: raw_workbook(b"<row><c><v>" + b"1" * SMALL),
    "one long tag": lambda: raw_workbook(b"<c r='" + b"1" * SMALL),
}


@pytest.mark.parametrize("element", [b"<c/>", b"<row/>", b"<x/>", b"<row><c/></row>"])
def test_a_small_file_of_millions_of_elements_is_given_up_at_the_bound(element: bytes) -> None:
    bounds = FileBounds(most_elements=10_000)
    in_the_sheet = raw_workbook(element, repeat=1_000_000)
    in_the_texts = raw_workbook(b"<row/>", b"<sst>" + element * 1_000_000 + b"</sst>")
    for content in (in_the_sheet, in_the_texts):
        assert len(content) < 100_000
        assert "more than 10,000 elements" in refusal(content, bounds)


def test_a_directory_of_many_parts_is_refused_before_it_is_read() -> None:
    written_parts = io.BytesIO()
    with ZipFile(written_parts, "w") as parts:
        for number in range(2000):
            parts.writestr(str(number), b"")
    assert refusal(written_parts.getvalue()) == "The XLSX file is damaged or not a spreadsheet."


def test_rows_are_read_some_hundreds_at_a_time_in_a_native_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def in_native_thread(work: Callable[..., Any], rows: Iterator[Row], pool: str) -> Any:
        done = work(rows)
        lengths.append(len(done[0]))
        return done

    monkeypatch.setattr(reader, "in_native_thread", in_native_thread)
    for content in (workbook([["a"]] * 600), b"a,b\n" * 600):
        lengths.clear()
        assert len(read(content)) == sum(lengths) == 600
        assert max(lengths) < 500


def test_the_rows_before_one_that_cannot_be_read_are_read() -> None:
    rows = read_rows(io.BytesIO(b"a,b\n" * 300 + b'"a\n'))
    assert [next(rows).line for _ in range(300)] == list(range(1, 301))
    with pytest.raises(SpreadsheetError):
        next(rows)


@pytest.mark.parametrize("name", BOMBS)
def test_a_zip_bomb_is_refused_before_it_fills_the_memory(name: str) -> None:
    content = BOMBS[name]()
    assert len(content) < 500_000
    tracemalloc.start()
    try:
        if name != "one long text":
            refusal(content, FileBounds(most_unpacked_bytes=20 * 1024 * 1024))
        else:
            assert read(content) == []
        assert tracemalloc.get_traced_memory()[1] < 10 * 1024 * 1024
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=2000) | st.text(max_size=500).map(str.encode))
def test_any_bytes_are_rows_or_one_refusal(content: bytes) -> None:
    try:
        rows = read(content)
    except SpreadsheetError:
        pass
    else:
        assert all(any(row.cells) for row in rows)


SOUND = workbook(TABLE)


@given(st.integers(0, len(SOUND) - 1), st.integers(1, 255))
def test_a_workbook_with_a_broken_byte_is_rows_or_one_refusal(place: int, change: int) -> None:
    content = bytearray(SOUND)
    content[place] ^= change
    try:
        read(bytes(content))
    except SpreadsheetError:
        pass


HEADINGS = {"id": ("Id", "Transaction ID"), "amount": ("Amount",), "credit": ("Credit",), "sender": ("From",)}
REQUIRED = (("id",), ("amount", "credit"))


def columns(*rows: tuple[str, ...]) -> dict[str, int]:
    return find_columns((Row(line, cells) for line, cells in enumerate(rows, 1)), HEADINGS, REQUIRED).columns


def test_headings_are_found_below_titles_and_over_two_rows() -> None:
    assert columns(("ACME",), ("TRANSACTION_ID", "", "Credit "), ("1",)) == {"id": 0, "credit": 2}
    assert columns(("Id", "Parties", ""), ("", "From", "Amount")) == {"id": 0, "sender": 1, "amount": 2}
    assert columns(("Transaction ID", "Amount", "Id", "From", "From")) == {"id": 2, "amount": 1, "sender": 3}
    with pytest.raises(SpreadsheetError, match=r"^Row 1, column C: the heading amount is there twice\.$"):
        columns(("Id", "Amount", "amount"))


def test_missing_headings_are_named_with_the_row_that_has_the_others() -> None:
    with pytest.raises(SpreadsheetError, match=r"^Row 2: the headings lack Amount or Credit\.$"):
        columns(("ACME",), ("Id", "From"), ("1", "2"))
    with pytest.raises(SpreadsheetError, match=r"^No row has the headings Id, Amount or Credit\.$"):
        columns(("ACME",))


def test_columns_are_named_as_spreadsheet_programs_name_them() -> None:
    assert [column_letters(index) for index in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    assert all(column_letters(index) == get_column_letter(index + 1) for index in range(18_278))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t'=1"),
        ("＝1+1", "'＝1+1"),
        (" =1+1", "' =1+1"),
        ("\xa0@SUM(A1)", "'\xa0@SUM(A1)"),
        ("+256772123456", "+256772123456"),
        ("-99.50", "-99.50"),
        (-500, "-500"),
        (None, ""),
        ("plain", "plain"),
        ("a;=1+1", "a;'=1+1"),
        ("a, @SUM(A1)", "a, '@SUM(A1)"),
        ("a\t+cmd", "a\t'+cmd"),
        ("a\n=1", "a\n'=1"),
        ('a;"=1+1', "a;\"'=1+1"),
        ("a;-2+3;=1", "a;'-2+3;'=1"),
        ("a, +256772123456;-5", "a, +256772123456;-5"),
        ("a=b; c - d", "a=b; c - d"),
    ],
)
def test_what_looks_like_a_formula_becomes_text(value: object, cell: str) -> None:
    assert neutralised(value) == cell


def test_the_headings_of_a_file_hold_no_formula_either() -> None:
    assert b"".join(csv_parts(("name", "=1+1"), [("a", "b")])) == b"name,'=1+1\r\na,b\r\n"
