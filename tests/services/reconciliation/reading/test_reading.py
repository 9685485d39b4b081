"""Files as providers write them: each is read with its true signs, dates and amounts, or refused by its row."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.spreadsheets.workbooks import workbook
from ussd_server.providers.registry import PACKAGES
from ussd_server.providers.statement_format import DateOrder, Thousands
from ussd_server.services.reconciliation.reading.cell_values import read_amount
from ussd_server.services.reconciliation.reading.conventions import FileConventions
from ussd_server.services.reconciliation.reading.statement_lines import ProviderLine, StatementReader
from ussd_server.spreadsheets.dates import read_date
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.values import KAMPALA

FILES = Path(__file__).parent / "files"
FORMATS = {package.name: package.statement for package in PACKAGES if package.statement}
# Spreadsheets have no time zones.
EARLIER, LATER = datetime(2026, 5, 11, 9), datetime(2026, 11, 20, 9)  # noqa: DTZ001
HEADINGS = "Id,External id,Date,Status,Type,From,Amount,Currency"
LINE = "31000000001,,2026-11-20 09:05:10,Successful,Payment,256770000101,5000,UGX"


def lines_of(content: bytes | str, provider: str = "mtn", said: FileConventions | None = None) -> list[ProviderLine]:
    """The lines of a file."""
    file = io.BytesIO(content.encode() if isinstance(content, str) else content)
    return list(StatementReader(FORMATS[provider], "UGX", {}, said=said).lines(file))


def shillings(lines: Sequence[ProviderLine]) -> list[float]:
    """The amounts with their signs."""
    return [line.direction * line.amount_cents / 100 for line in lines]


def refusal(content: bytes | str, provider: str = "mtn", said: FileConventions | None = None) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises(SpreadsheetError) as refused:
        lines_of(content, provider, said)
    return str(refused.value)


def file(*lines: str, headings: str = HEADINGS) -> str:
    """A file of these lines below the headings."""
    return "".join(f"{line}\n" for line in (headings, *lines))


def with_cells(**cells: str) -> str:
    """The line with other cells, by their headings in lower case."""
    names = [name.lower().replace(" ", "_") for name in HEADINGS.split(",")]
    return ",".join(cells.get(name, cell) for name, cell in zip(names, LINE.split(","), strict=True))


@pytest.mark.parametrize(
    ("name", "provider", "amounts"),
    [
        ("airtel_customer.csv", "airtel", [5000, 30000, 2000]),
        ("airtel_user.csv", "airtel", [5000, -50, -90000]),
        ("mtn_signed.csv", "mtn", [5000, 30000, 4000, -90000]),
        ("mtn_agent.csv", "mtn", [30000, 10000, -7000, 50000, 2000]),
    ],
)
def test_the_exports_that_people_download_are_read(name: str, provider: str, amounts: list[float]) -> None:
    content = (FILES / name).read_bytes()
    lines = lines_of(content, provider)
    assert shillings(lines) == amounts
    assert {line.at.astimezone(KAMPALA).date().isoformat() for line in lines} == {"2026-11-20"}
    if name == "mtn_agent.csv":
        rows = [line.split(",") for line in content.decode().splitlines()]
        assert shillings(lines_of(workbook(rows), provider)) == amounts


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("20-NOV-2026  09:05:10", "2026-11-20 09:05:10"),
        ("20-nov-2026\r\n09:05:10", "2026-11-20 09:05:10"),
        ("20-NOV-26", "2026-11-20 00:00:00"),
        ("26 Nov 2026, 03:59", "2026-11-26 03:59:00"),
        ("26 September 2026 3:59:08 PM", "2026-09-26 15:59:08"),
        ("Nov 26, 2026 12:05 AM", "2026-11-26 00:05:00"),
        ("26/11/26", "2026-11-26 00:00:00"),
        ("26.11.2026 09:05 pm", "2026-11-26 21:05:00"),
        ("25-05-25 08:17 AM", "2025-05-25 08:17:00"),
        ("20261126035956", "2026-11-26 03:59:56"),
        ("2026/11/26 03:59 PM", "2026-11-26 15:59:00"),
        ("2026-11-26T00:59:00Z", "2026-11-26 03:59:00"),
    ],
)
def test_dates_are_read_in_the_forms_of_the_exports(text: str, local: str) -> None:
    date = read_date(text, KAMPALA)
    assert date is not None
    assert f"{(date.day_first or datetime.max.replace(tzinfo=UTC)).astimezone(KAMPALA):%Y-%m-%d %H:%M:%S}" == local
    assert not date.has_two_readings


@pytest.mark.parametrize(
    "text",
    [
        "20-NOV",
        "31-FEB-2026",
        "20/11-2026",
        "2026-11-20 13:05 PM",
        "20-11-2026 9",
        "20 Nov 202609:05",
        "45977.5",
        "now",
    ],
)
def test_what_is_no_date_for_certain_is_none(text: str) -> None:
    assert read_date(text, KAMPALA) is None


def test_only_a_date_with_one_reading_settles_day_and_month() -> None:
    early, late = with_cells(date="03/04/2026 10:00"), with_cells(date="20/11/2026 10:00")
    assert [line.at.month for line in lines_of(file(early, late))] == [4, 11]
    american = with_cells(date="11/20/2026 10:00")
    assert [line.at.month for line in lines_of(file(early, american))] == [3, 11]
    assert refusal(file(early, with_cells(date="20-NOV-2026 10:00"))) == (
        "Row 2, column C: the date 03/04/2026 10:00 is 3 April 2026 or 4 March 2026, and no date of the file shows "
        "which; say --dates dmy or --dates mdy."
    )
    for order, month in ((DateOrder.DAY_FIRST, 4), (DateOrder.MONTH_FIRST, 3)):
        assert [line.at.month for line in lines_of(file(early), said=FileConventions(order))] == [month]
    # Both readings are the same day.
    (line,) = lines_of(file(with_cells(date="11/11/2026")))
    assert line.at == datetime(2026, 11, 11, tzinfo=KAMPALA)
    assert "another order than in row 2" in refusal(file(late, american))
    said = FileConventions(DateOrder.MONTH_FIRST)
    assert (
        refusal(file(early, late), said=said)
        == "Row 3, column C: day and month stand in another order than --dates says."
    )


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("5000", 500_000),
        ("-5000", -500_000),
        ("\u22125000", -500_000),
        ("UGX -5,000.00", -500_000),
        ("-UGX 5,000.00", -500_000),
        ("(5,000.00)", -500_000),
        ("+5000", 500_000),
        ("0.90", 90),
        ("5 000", 500_000),
        ("1.234.567", 123_456_700),
    ],
)
def test_amounts_have_one_sign(text: str, cents: int) -> None:
    amount = read_amount(text)
    assert amount is not None
    assert (amount.cents, amount.doubtful) == (cents, None)


@pytest.mark.parametrize(
    "text",
    [
        "+-5000", "--5000", "-+5000", "(-5000)", "-(5000)", "5000-", "\u20135000", "5000 DR", "- -5000", "1,23", "0,90",
        "1,234,56", "1.234,56", "1,234.567.8", "5e3", "\uff15000", "5_000", "0,900", "5'000", "1.234.567.00",
    ],
)  # fmt: skip
def test_what_is_no_amount_for_certain_is_none(text: str) -> None:
    assert read_amount(text) is None


def test_one_separator_before_three_digits_is_settled_by_another_amount_only() -> None:
    def read(*amounts: str, said: FileConventions | None = None) -> list[float]:
        return shillings(lines_of(file(*(with_cells(amount=f'"{amount}"') for amount in amounts)), said=said))

    for amount in ("5,000", "5.000"):
        content = file(with_cells(), with_cells(amount=f'"{amount}"'))
        assert refusal(content).startswith(f"Row 3, column G: the amount {amount} has two readings")
    assert read("5,000", "1,234,567") == [5000, 1_234_567]
    assert read("5,000", "99.50") == [5000, 99.5]
    assert read("5.000", "1.234.567") == [5000, 1_234_567]
    assert read("5,000", said=FileConventions(thousands=Thousands.COMMA)) == [5000]
    assert read("5.000", said=FileConventions(thousands=Thousands.DOT)) == [5000]
    for content, row in ((("5,000", "1.234.567"), 2), (("5.000", "9,000.00"), 2), (("1,234,567", "1.234.567"), 3)):
        sentence = refusal(file(*(with_cells(amount=f'"{amount}"') for amount in content)))
        assert sentence.startswith(f"Row {row}, column G: the amount {content[row - 2]} separates thousands otherwise")
    # A total below the lines is an amount of the file too.
    total = 'Total,,,,,,"1,234,567",'
    assert shillings(lines_of(file(with_cells(amount='"5,000"'), total))) == [5000]


def test_a_balance_that_follows_settles_how_an_amount_is_read() -> None:
    headings = f"{HEADINGS},Balance"
    first, second = f"{with_cells()},105000", with_cells(amount='"30,000"', id="31000000002")
    assert shillings(lines_of(file(first, f"{second},135000", headings=headings))) == [5000, 30_000]
    assert shillings(lines_of(file(f"{second},135000", first, headings=headings))) == [30_000, 5000]
    assert "two readings" in refusal(file(first, f"{second},105030", headings=headings))


def test_a_column_with_a_minus_has_signs_for_every_line() -> None:
    kinds = ("Transfer", "Debit", "Cash out", "Batch transfer", "Refund", "Something new")
    rows = [with_cells(type=kind) for kind in kinds]
    assert shillings(lines_of(file(*rows, with_cells(amount="-90000")))) == [5000] * 6 + [-90_000]
    assert shillings(lines_of(file(*rows[:4]))) == [-5000] * 4
    assert shillings(lines_of(file(with_cells(amount="+5000", type="Something new")))) == [5000]
    assert "the plus says that the money came in" in refusal(file(with_cells(amount="+5000", type="Transfer")))


@pytest.mark.parametrize("kind", ["Withdrawal", "Salary Payment", ""])
def test_a_kind_that_is_not_known_is_never_guessed_without_signs(kind: str) -> None:
    sentence = refusal(file(LINE, with_cells(type=kind)))
    assert sentence.startswith("Row 3, column E: the type ")
    assert "and nothing else shows whether the money came in or went out; say --all-in or --our-number" in sentence


def test_a_cut_kind_is_read_only_where_every_kind_that_begins_so_says_the_same() -> None:
    headings = "Transaction ID,Transaction Date,Service Type,Transaction Amount"
    row = "144000000001,2026-11-20 09:05:10,{},5000"
    assert "is not known" in refusal(file(row.format("Merchant P"), headings=headings), "airtel")
    assert shillings(lines_of(file(row.format("Collecti"), headings=headings), "airtel")) == [5000]


def test_credits_and_debits_say_the_direction_of_the_amount_beside_them() -> None:
    headings = "Transaction ID,Transaction Date,Service Type,Transaction Amount,Credit,Debit"

    def read(cells: str) -> list[float]:
        content = file(f"144000000001,2026-11-20 09:05:10,Whatever,{cells}", headings=headings)
        return shillings(lines_of(content, "airtel"))

    assert read("5000,,5000") == [-5000]
    assert read("5000,5000,0") == [5000]
    assert read("5000,5000,-") == [5000]
    assert read("-5000,,5000") == [-5000]
    assert read(",,-5000") == [-5000]
    for cells, problem in (
        ("5000,5000,5000", "a credit and a debit"),
        ("5000,,4000", "another amount"),
        ("-5000,5000,", "another amount"),
        (",-5000,", "the sign of the credit"),
        ("5000,,", "the type 'Whatever' is not known"),
    ):
        with pytest.raises(SpreadsheetError, match=problem):
            read(cells)
    both = [f"14400000000{sign},2026-11-20 09:05:10,x,,,{sign}5000" for sign in ("", "-")]
    assert "the sign of the debit has two readings" in refusal(file(*both, headings=headings), "airtel")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ((LINE, with_cells(amount="30,000")), "Row 3: the row has 9 cells, and 8 headings."),
        ((LINE, with_cells(**{"from": "Okello, John"})), "Row 3: the row has 9 cells"),
        ((LINE, LINE.removesuffix(",UGX")), "Row 3: the row has 7 cells"),
        ((LINE, f"{LINE},"), "Row 3: the row has 9 cells, and row 2 8."),
        ((f"{LINE},", LINE), "Row 3: the row has 8 cells, and row 2 9."),
        ((LINE, LINE.replace(",", ";")), "Row 3: the row has no separator"),
        ((LINE, "31000000001"), "Row 3: the row has no separator"),
        ((LINE, with_cells(type='"Pay\nment"')), "Row 3, column E: the cell has more than one line"),
        ((LINE, f'"{LINE}', LINE, f'{LINE}"', LINE), "Row 3, column A: the cell has more than one line"),
        ((LINE, with_cells(type='"Pay"ment')), "Row 3: a quotation mark is opened and never closed, or stands within"),
        ((LINE, with_cells(type='"Payment')), "Row 3: a quotation mark"),
        ((LINE, with_cells(id='310"00000001')), "Row 3, column A: a quotation mark stands within the cell."),
        ((LINE, with_cells(date="")), "Row 3, column C: the date is missing."),
        ((LINE, with_cells(id="")), None),
        (("", LINE, HEADINGS, LINE, "Total,,,,,,10000,", "end of the file"), None),
        ((f"{LINE},,", f"{LINE},,"), None),
    ],
)
def test_a_row_whose_cells_may_have_moved_refuses_the_file(rows: Sequence[str], sentence: str | None) -> None:
    if sentence is None:
        assert shillings(lines_of(file(*rows))) == [5000, 5000]
    else:
        assert refusal(file(*rows)).startswith(sentence)


def test_a_last_line_that_may_be_cut_is_refused() -> None:
    headings = "Id,Date,Type,Amount"
    row = "31000000001,2026-11-20 09:05:10,Payment,9000"
    whole = file(row, row, headings=headings)
    assert shillings(lines_of(whole)) == [9000, 9000]
    for cut in range(1, len(row) + 1):
        refused = refusal(whole[:-cut])
        assert refused.startswith("Row 3"), refused
    # Only what is not read may be cut.
    assert shillings(lines_of(file(f"{row},a note", headings=f"{headings},Note")[:-3])) == [9000]


def test_a_line_above_the_headings_refuses_the_file() -> None:
    assert refusal(f"{LINE}\n{file(LINE)}") == "Row 1: the row is above the headings."
    assert "more than one line" in refusal(f'"ACME 2026\n",\n{file(LINE)}')
    assert "the heading Type is there twice" in refusal(file(f"{LINE},Fee", headings=f"{HEADINGS},type"))


def test_rows_of_a_workbook_may_end_early_but_not_late() -> None:
    row = LINE.split(",")
    assert shillings(lines_of(workbook([HEADINGS.split(","), row[:-1], row]))) == [5000, 5000]
    assert refusal(workbook([HEADINGS.split(","), row, [*row, "x"]])) == "Row 3: the row has 9 cells, and 8 headings."


@pytest.mark.parametrize(
    ("kind", "side", "amount"),
    [
        ("Transfer", "CR", 5000),
        ("Payment", "Debit", -5000),
        ("Wallet top-up", "Cr", 5000),
        ("Payment", "", 5000),
        ("Fee", "C", 5000),
    ],
)
def test_a_column_of_credit_and_debit_says_the_direction_before_the_type(kind: str, side: str, amount: float) -> None:
    line = with_cells(type=kind) + f",{side}"
    assert shillings(lines_of(file(line, headings=f"{HEADINGS},Dr/Cr"))) == [amount]


def test_a_sign_and_a_column_of_credit_and_debit_that_contradict_each_other_refuse_the_file() -> None:
    line = with_cells(amount="-5000") + ",CR"
    assert refusal(file(line, headings=f"{HEADINGS},Dr/Cr")) == (
        "Row 2, column I: the side 'CR' contradicts the amount."
    )


def test_the_transaction_type_of_airtel_goes_before_the_service() -> None:
    headings = "Transaction ID,Transaction Date,Service Type,Transaction Type,Transaction Amount"
    lines = lines_of(file("144000000011,2026-11-20,Merchant Payment,MP,5000", headings=headings), "airtel")
    assert shillings(lines) == [-5000]


@pytest.mark.parametrize("shortened", ["3.1E+10", "31000000001.0", '"31,000,000,001"', "########", "#N/A", "#REF!"])
def test_an_id_that_a_spreadsheet_changed_refuses_the_file(shortened: str) -> None:
    written = shortened.strip('"')
    assert refusal(file(with_cells(id=shortened))) == (
        f"Row 2, column A: a spreadsheet changed the number to {written}; use the file as it was downloaded."
    )


def test_an_id_of_more_digits_than_a_spreadsheet_keeps_refuses_the_file() -> None:
    content = workbook([["Id", "Date", "Type", "Amount"], [12345678901234567, "2026-11-20", "Payment", 5000]])
    assert refusal(content).startswith("Row 2, column A: a spreadsheet changed the number to 1.234567890123457E+16;")


def test_a_workbook_whose_dates_a_spreadsheet_may_have_exchanged_is_refused() -> None:
    rows = [["1", EARLIER, "Payment", 5000], ["2", "20/11/2026 10:00", "Payment", 5000]]
    assert refusal(workbook([["Id", "Date", "Type", "Amount"], *rows])) == (
        "Row 2, column B: the spreadsheet may have exchanged day and month of 2026-05-11 09:00:00, because row 3 has "
        "20/11/2026 10:00; use the file as it was downloaded."
    )


def test_a_workbook_with_dates_and_texts_of_days_after_the_twelfth_is_read() -> None:
    rows = [["1", LATER, "Payment", 5000], ["2", "20/11/2026 10:00", "Payment", 5000]]
    assert shillings(lines_of(workbook([["Id", "Date", "Type", "Amount"], *rows]))) == [5000, 5000]


def test_a_row_whose_cells_have_moved_is_refused_and_a_line_of_totals_passed_over() -> None:
    moved = "x,2026-11-20 09:05:10,,y,Payment,256770000101,5000,UGX"
    assert "its cells have moved" in refusal(file(LINE, moved))
    assert len(lines_of(file(LINE, "Total,of,,the page,,,5000,UGX"))) == 1
