"""Values that every part of the service reads and writes alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from ussd_server.services.operator_names import is_same_person
from ussd_server.values import (
    canonical_receipt,
    cents_of,
    iso_milliseconds,
    moment_of,
    national_number,
    phone_number,
    shillings,
)


@pytest.mark.parametrize("typed", ["+256772123456", "256772123456", "0772123456"])
def test_a_phone_number_has_one_form_inside(typed: str) -> None:
    assert phone_number(typed) == "+256772123456"
    assert national_number("+256772123456") == "772123456"


@pytest.mark.parametrize("typed", [
    "", "772123456", "+0772123456", "++256772123456", "0072123456", "07721234567", "+25677212345", "+254772123456",
    "0772 123456", "0772123456\n", "٠٧٧٢١٢٣٤٥٦",
])  # fmt: skip
def test_what_is_no_phone_number_is_not_made_one(typed: str) -> None:
    assert phone_number(typed) is None


@pytest.mark.parametrize(("amount", "cents"), [
    (5000, 500_000), ("5000", 500_000), ("99.5", 9950), (Decimal("99.50"), 9950), ("0.01", 1),
    ("999999.99", 99_999_999),
])  # fmt: skip
def test_an_amount_is_read_to_the_cent(amount: object, cents: int) -> None:
    assert cents_of(amount) == cents


@pytest.mark.parametrize(
    "amount",
    [
        0,
        -1,
        "0",
        "1000000",
        "1.234",
        "5,000",
        "-5",
        "",
        None,
        True,
        1.5,
        "1e3",
        Decimal("1e999999"),
        Decimal("1e-999999"),
        Decimal("1." + "0" * 30 + "1"),
    ],
)
def test_no_other_amount_is_read(amount: object) -> None:
    assert cents_of(amount) is None


def test_a_moment_is_written_in_utc_and_read_with_its_offset() -> None:
    moment = datetime(2026, 11, 20, 8, 15, 30, 123_999, UTC)
    assert iso_milliseconds(moment) == iso_milliseconds(moment.astimezone(timezone(timedelta(hours=3))))
    assert iso_milliseconds(moment) == "2026-11-20T08:15:30.123Z"
    assert moment_of("2026-11-20T11:15:30+03:00") == datetime(2026, 11, 20, 8, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "2026-11-20", "2026-11-20T08:15:30", "0001-01-01T00:00:00+23:00", "soon"])
def test_a_text_without_an_offset_is_no_moment(text: str) -> None:
    assert moment_of(text) is None


def test_shillings_show_no_more_decimals_than_they_need() -> None:
    assert [str(shillings(cents)) for cents in (500_000, 500_050, 1, 10, 0, 99_999_999)] == [
        "5000", "5000.5", "0.01", "0.1", "0", "999999.99",
    ]  # fmt: skip


@pytest.mark.parametrize("character", ["\u034f", "\u17b4", "\u180b", "\u2800", "\ufe0f", "\U000e0100"])
def test_the_same_characters_are_invisible_in_numbers_receipts_and_names(character: str) -> None:
    assert phone_number(f"07701{character}23456") == "+256770123456"
    assert canonical_receipt(f"A{character}B") == "AB"
    assert is_same_person(f"Ann{character} Ox", "Ann Ox")
