"""How values look on pages, in CSV and in JSON."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from markupsafe import escape

from ussd_server import values
from ussd_server.console import charts, formats
from ussd_server.console.tables import cut_references

MOMENT = datetime(2026, 11, 20, 22, 15, 30, 123000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cents", "written", "shillings"),
    [
        (500_000, "UGX 5,000", 5000),
        (500_050, "UGX 5,000.50", 5000.5),
        (-100, "−UGX 1", -1),
        (0, "UGX 0", 0),
        (99_999_999_999_999, "UGX 999,999,999,999.99", 999_999_999_999.99),
    ],
)
def test_money_is_written_in_shillings(cents: int, written: str, shillings: float) -> None:
    assert str(formats.money(cents)) == f'<span class="money">{written}</span>'
    assert values.shillings(cents) == shillings


def test_moments_are_shown_in_kampala_with_utc_beside() -> None:
    assert str(formats.moment(MOMENT)) == (
        '<time datetime="2026-11-20T22:15:30.123Z" title="2026-11-20 22:15:30 UTC">21 Nov 2026, 01:15:30</time>'
    )
    assert "never" in formats.moment(None)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("owner@acme.example", "owner@acme.example"),
        ("to treasurer@savings.example", "to treasurer@<wbr>savings.<wbr>example"),
        ("settlement_terms.agreed", "settlement_<wbr>terms.<wbr>agreed"),
        ("<b>statement_1_of_november.csv", "&lt;b&gt;statement_1_<wbr>of_<wbr>november.<wbr>csv"),
    ],
)
def test_long_words_may_break_after_their_signs_only(text: str, written: str) -> None:
    assert formats.breakable(text) == written
    assert formats.breakable(escape(text)) == written


def test_charts_say_in_words_what_they_show_and_escape_their_labels() -> None:
    points = [("08:00", 3.0), ("<b>", 40.0), ("10:00", 0.0)]
    for chart in (charts.bars(points, "Payments & hours"), charts.lines(points, "Payments & hours")):
        assert 'role="img" aria-label="Payments &amp; hours"' in chart
        assert "&lt;b&gt;: 40" in chart
        assert "style=" not in chart
    assert charts.bars([], "nothing") == ""
    assert "NaN" not in charts.lines([("one", 0.0)], "zero")


def test_a_line_has_gaps_where_nothing_is_known_and_small_values_have_a_scale_of_their_own() -> None:
    chart = charts.lines([("a", 0.03), ("b", 0.041), ("c", None), ("d", 0.02)], "Seconds")
    assert chart.count("<polyline") == 2
    assert chart.count("<circle") == 3
    assert "b: 0.041" in chart
    assert ">0.06<" in chart


def test_long_references_of_a_list_are_cut_where_they_are_alike() -> None:
    sessions = [f"01a2290b-{middle}-7048-80d0-8b0fcf3f2ea0/deposit_confirm#1" for middle in ("e837", "f111")]
    dated = [f"school-fees-of-term-3-2026-{number}" for number in (101, 102)]
    cuts = cut_references([*sessions, *dated, "order-7"])
    assert [cuts[each][1] for each in sessions] == ["b-e837-7048-80", "b-f111-7048-80"]
    assert [cuts[each][1] for each in dated] == ["erm-3-2026-101", "erm-3-2026-102"]
    assert all("".join(parts) == each for each, parts in cuts.items())
    assert "order-7" not in cuts
    assert cut_references([]) == {}
