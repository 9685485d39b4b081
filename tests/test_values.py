"""Amounts and moments are written alike everywhere."""

from __future__ import annotations

from ussd_server.values import shillings


def test_shillings_show_no_more_decimals_than_they_need() -> None:
    assert [str(shillings(cents)) for cents in (500_000, 500_050, 1, 10, 0, 99_999_999)] == [
        "5000", "5000.5", "0.01", "0.1", "0", "999999.99",
    ]  # fmt: skip
