"""Files that are damaged in any way end in a result or in one sentence, never in an error of ours."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.services.reconciliation.statement_files import MTN, csv_file, reconcile
from tests.spreadsheets.workbooks import raw_workbook, workbook
from ussd_server.bootstrap import Services
from ussd_server.cli import main
from ussd_server.services.reconciliation.reading.cell_values import read_amount
from ussd_server.spreadsheets.dates import read_date
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA

LINE = ["1", "", "2026-11-20 14:03:12", "Successful", "Payment", "FRI:256772123456/MSISDN", "", "5,000", "UGX", "", ""]
ROWS = [[str(number), *LINE[1:]] for number in range(3)]
TEXT = csv_file(ROWS)
BOOK = workbook([list(MTN), *ROWS])
EVIL = (
    b"\x00", b"\xff\xfe", b'"', b"\r", b",,", b"1e999", b"-", b"99999999999999999999", b"31/12/9999",
    b"01/01/0001 00:00", b"0000-00-00", b"+25:99", b"=1+1", b"_xD800_", b"_x0000_", b"&#0;", b'r="A0"',
    b'r="99999999999"', b'r="A4294967297"', b"</row>", b"<c/>", "\u202e\u0130\u00b2".encode(), b"(",
    b"00000000-0000-0000-0000-000000000000",
)  # fmt: skip
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
BOUNDED = settings(
    max_examples=2 * settings.default.max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.one_of(st.sampled_from(EVIL), st.binary(max_size=6))),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """The content with some bytes replaced."""
    for place, length, written in edits:
        at = int(place * len(content))
        content = content[:at] + written + content[at + length :]
    return content


def damaged_book(part: str, edits: list[tuple[float, int, bytes]]) -> bytes:
    """The workbook with one of its parts damaged."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(BOOK)) as book, zipfile.ZipFile(made, "w") as other:
        for name in book.namelist():
            content = book.read(name)
            other.writestr(name, damaged(content, edits) if name == part else content)
    return made.getvalue()


def compare(services: Services, content: bytes) -> None:
    for provider in ("mtn", "airtel"):
        refusal = None
        try:
            result = reconcile(services, content, provider)
        except ServiceError as refused:
            refusal = refused
        if refusal is None:
            assert len(list(result.differences())) == result.statement.difference_count
        else:
            assert (refusal.code, "\n" in refusal.message) == (Code.INVALID_REQUEST, False)


@ON_SQLITE
@BOUNDED
@given(EDITS)
def test_a_damaged_text_file_ends_in_a_result_or_a_sentence(
    services: Services, edits: list[tuple[float, int, bytes]]
) -> None:
    compare(services, damaged(TEXT, edits))
    compare(services, damaged(TEXT.decode().encode("utf-16"), edits))


@ON_SQLITE
@BOUNDED
@given(st.sampled_from(zipfile.ZipFile(io.BytesIO(BOOK)).namelist()), EDITS)
def test_a_damaged_workbook_ends_in_a_result_or_a_sentence(
    services: Services, part: str, edits: list[tuple[float, int, bytes]]
) -> None:
    compare(services, damaged_book(part, edits))
    compare(services, damaged(BOOK, edits))


CELLS = (
    "", "-", "\u00b2", "\u0661", "1" * 15, "1" * 16, "1" * 5000, "-0", "+0.00", "1,234,567.89", "9" * 15 + ".99", "(5)",
    "31/12/9999", "01/01/0001", "1999-12-31", "2100-01-01", "2099-12-31 23:59:59", "2000-01-01 00:00",
    "2026-11-20T14:03:12Z", "2026-11-20 14:03 +24:00", "2026-11-20 24:00", "Successful", "Failed", "Pending",
    "Reversal", "Fee", "UGX", "a" * 32_000, "00000000-0000-7000-8000-000000000000", "\u0130" * 40,
)  # fmt: skip


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
@settings(BOUNDED, max_examples=settings.default.max_examples)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10), st.sampled_from(CELLS)), min_size=1, max_size=6))
def test_any_cells_end_in_a_result_or_a_sentence(services: Services, cells: list[tuple[int, int, str]]) -> None:
    rows = [list(LINE) for _ in range(4)]
    for row, column, text in cells:
        rows[row][column] = text
    compare(services, csv_file(rows))


@pytest.mark.parametrize("line", ["99999999999", "4294967297", "0", "-1", "9" * 4000])
def test_a_row_number_out_of_bounds_ends_in_a_result_or_a_sentence(services: Services, line: str) -> None:
    texts = "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in LINE)
    headings = "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in MTN)
    compare(services, raw_workbook(f'<row r="1">{headings}</row><row r="{line}">{texts}</row>'.encode()))


@ON_SQLITE
def test_the_command_ends_with_2_and_one_sentence_for_a_file_of_bytes(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(services.settings.data_dir))
    monkeypatch.setenv("USSD_DATABASE_URL", services.settings.database_url)
    monkeypatch.setenv("USSD_REDIS_URL", services.settings.redis_url)
    file = tmp_path / "day.csv"
    for content in (
        b"\x00",
        b"PK\x03\x04",
        BOOK[:-40],
        b"\xff\xfe\x00",
        b"," * 2000,
        b'"' * 2000,
        TEXT.replace(b"2026", b"9999"),
    ):
        file.write_bytes(content)
        ended = CliRunner().invoke(main, ["reconcile", "mtn", str(file)])
        assert (ended.exit_code, ended.output.count("\n")) == (2, 1), ended.output
        assert ended.output.startswith("Error: day.csv: ")


@pytest.mark.parametrize(
    ("read", "before", "after"),
    [
        (read_amount, "-", "5"),
        (read_amount, "5", "UGX"),
        (lambda text: read_date(text, KAMPALA), "2026-11-20", "10:00"),
    ],
)
def test_a_long_run_of_spaces_is_not_divided_among_the_parts(read, before, after) -> None:  # type: ignore[no-untyped-def]
    assert read(f"{before}{' ' * 40}{after}") is not None
    # A run of 32,000 spaces took half a minute.
    assert read(f"{before}{' ' * 32_000}{after}") is None
