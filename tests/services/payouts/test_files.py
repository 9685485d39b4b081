"""Files of payouts: everything that people upload is read, or refused with one sentence that names the place."""

from __future__ import annotations

from io import BytesIO

import pytest
from openpyxl import Workbook

from ussd_server.services.payouts.drafts import rows
from ussd_server.services.payouts.drafts.rows import read_file
from ussd_server.status import Code, ServiceError

HEADINGS = "phone_number,amount,reference\n"
SHORTENED = (
    "phone_number: The spreadsheet shortened the number to 2.56772E+11; "
    "format the column as text, enter the number again and save."
)


@pytest.mark.parametrize(
    "file",
    [
        f"{HEADINGS}+256772123456,5000,a\n".encode(),
        f"{HEADINGS}+256772123456,5000,a\r\n\r\n".encode("utf-8-sig"),
        f"{HEADINGS}0772123456,5000.00,a".encode("utf-16"),
        b"Phone;Amount;Ref\n0772 123-456;5,000;a\n",
        b'MSISDN\tAmount\tReference\n(0772) 123456\t"5,000"\ta\n',
        b'phone_number,amount,reference\n"\'+256772123456","5,000",a\n',
        b"Salaries of November,,\n,,\nphone number,amount,reference,branch\n256772123456,5000,a,Gulu\n",
        b"reference,amount,phone_number\na,5000,772123456\n",
        b"reference,amount,phone_number,currency\na,5000,00256772123456,ugx\n",
    ],
)
def test_a_file_is_read_as_people_write_it(file: bytes) -> None:
    (row,) = read_file(file)
    assert (row.phone_number, row.amount_cents, row.reference, row.problems) == ("+256772123456", 500_000, "a", [])


def test_a_workbook_is_read_and_its_formulas_are_not_evaluated() -> None:
    workbook = Workbook()
    workbook.active.append(["phone_number", "amount", "reference", "description"])
    workbook.active.append([256772123456, 5000, "a", "=1+1"])
    workbook.active.append(["0772123456", "=SUM(B2)", "b", None])
    file = BytesIO()
    workbook.save(file)
    first, second = read_file(file.getvalue())
    assert (first.phone_number, first.amount_cents, first.description) == ("+256772123456", 500_000, "=1+1")
    assert second.problems == ["amount: Holds a formula; enter its value."]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("2.56772E+11,5,a", SHORTENED),
        ("077212345,5,a", "phone_number: Must be +256 followed by nine digits."),
        ("٠٧٧٢١٢٣٤٥٦,5,a", "phone_number: Must be +256 followed by nine digits."),
        ("=A1,5,a", "phone_number: Holds a formula; enter its value."),
        *(
            (f'0772123456,"{amount}",a', "amount: Has a comma before its decimals; write 5000 or 5000.50.")
            for amount in ("1,50", "450.000,00", "1 450 000,5")
        ),
        ('0772123456,"1,0000",a', "amount: Must be greater than 0 and less than 1000000, with at most two decimals."),
        ("0772123456,UGX 5000,a", "amount: Must be a number alone, such as 5000."),
        ("0772123456,5000/=,a", "amount: Must be a number alone, such as 5000."),
        ("0772123456,=A1*2,a", "amount: Holds a formula; enter its value."),
        ("0772123456,,a", "amount: Missing."),
        ("0772123456,-5,a", "amount: Must be greater than 0 and less than 1000000, with at most two decimals."),
        (",10000,Total", "phone_number: Missing."),
        ("772123456.0,5,a", "phone_number: Has decimals; format the column as text, enter the number again and save."),
        (
            "0772123456,5,000,a",
            "The row has a cell that has no heading; perhaps an amount has a comma without quotation marks.",
        ),
        ("0772123456,5,", "reference: Missing."),
        ('0772123456,5,"a\nb"', "reference: Must not contain line breaks or control characters."),
        (f"0772123456,5,{'a' * 65}", "reference: Must be text of at most 64 characters."),
    ],
)
def test_a_cell_that_cannot_be_makes_its_row_invalid(cells: str, problem: str) -> None:
    (row,) = read_file(f"{HEADINGS}{cells}\n".encode())
    assert row.problems == [problem]
    assert not row.is_ready


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (b"", "The file is empty."),
        (HEADINGS.encode(), "The file has no row below its headings."),
        (b"phone_number,amount\n1,2\n", "Row 1: the headings lack reference."),
        (b"phone_number,amount,reference,Amount\n1,2,3,4\n", "Row 1, column D: the heading Amount is there twice."),
        (b"1,2,3\n4,5,6\n", "No row has the headings phone_number, amount, reference."),
        (HEADINGS.encode() + b"0772123456,5,caf\xe9\n", "Row 2, column C: the text is neither UTF-8 nor UTF-16"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 99, "The file has the old Excel format"),
        (b"%PDF-1.7", "The file is a PDF document"),
        (b"PK\x03\x04nonsense", "The XLSX file is damaged"),
        ((HEADINGS + "0772123456,5,a\n" * 5001).encode(), "The file has more than 5,000 rows; divide it."),
        ((HEADINGS + "0772123456,5,a\n" * 60_000).encode(), "The file has more than 5,000 rows; divide it."),
        (b"x" * (2 * 1024 * 1024 + 1), "The file is larger than 2 MB."),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_one_sentence(file: bytes, sentence: str) -> None:
    with pytest.raises(ServiceError) as refused:
        read_file(file)
    assert refused.value.code is Code.INVALID_REQUEST
    assert refused.value.message.startswith(sentence)


@pytest.mark.parametrize(
    ("cells", "whole"),
    [
        ("0772123456,500,000,r1", "500,000"),
        ("0772123456,12,500.50,r1", "12,500.50"),
        ("0772123456,500,000,r1,", "500,000"),
    ],
)
def test_a_row_whose_cells_look_like_a_cut_amount_is_invalid(cells: str, whole: str) -> None:
    (row,) = read_file(f"phone_number,amount,reference,name,description\n{cells}\n".encode())
    assert row.problems == [
        f"amount: {whole.replace(',', ' and ')} side by side look like {whole}, cut at its comma; "
        "put it in quotation marks, or write .00 behind a small amount."
    ]


@pytest.mark.parametrize(
    "cells",
    [
        "0772123456,500,101",
        "0772123456,500,101,",
        "0772123456,5000,101,Sarah",
        "0772123456,500.00,101,Sarah",
        "0772123456,500,0101,Sarah",
        "0772123456,500,E01,Sarah",
        '0772123456,"500,000",101,Sarah',
    ],
)
def test_a_reference_of_three_digits_is_no_part_of_an_amount(cells: str) -> None:
    (row,) = read_file(f"phone_number,amount,reference,name\n{cells}\n".encode())
    assert row.problems == []


def test_a_row_of_many_short_cells_is_judged_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    judge = rows.row_of
    monkeypatch.setattr(rows, "row_of", lambda line, cells: judged.append(line) or judge(line, cells))
    headings = ",".join(["phone_number", "amount", *(f"column {place}" for place in range(60)), "reference"])
    assert len(read_file(f"{headings}\n0772123456,1,{'222,' * 60}a\n".encode())) == 1
    assert len(judged) == 2
