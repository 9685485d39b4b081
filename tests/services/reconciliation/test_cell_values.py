"""Cells of statements: a text that is too long for an amount or a date is not matched."""

from __future__ import annotations

import pytest

from ussd_server.services.reconciliation.cell_values import read_amount, read_date


@pytest.mark.parametrize(
    ("read", "before", "after"),
    [
        (read_amount, "-", "5"),
        (read_amount, "5", "UGX"),
        (read_date, "2026-11-20", "10:00"),
    ],
)
def test_a_long_run_of_spaces_is_not_divided_among_the_parts(read, before, after) -> None:  # type: ignore[no-untyped-def]
    assert read(f"{before}{' ' * 40}{after}") is not None
    # A run of 32,000 spaces took half a minute.
    assert read(f"{before}{' ' * 32_000}{after}") is None
