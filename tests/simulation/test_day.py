"""A small day: payments of clients and payers, closed against the provider's statement to the shilling."""

from __future__ import annotations

from tests.simulation.__main__ import day
from tests.simulation.report import written_day

# Its payers mistype, its till is silent once, and a worker is killed.
_SEED = 8
_PAYMENTS = 100


def test_a_small_day_is_explained_to_the_shilling() -> None:
    figures = day(_SEED, _PAYMENTS)
    assert figures["violations"] == []
    assert (figures["payments"], figures["of payers"]) == (_PAYMENTS, _PAYMENTS // 5)
    unexplained = ("shillings unexplained", "payments wrongly matched", "payments wrongly counted", "bridge lacks")
    assert [figures[name] for name in unexplained] == [0, 0, 0, 0]
    assert all(figures[name] for name in ("with a wrong code", "never reported by the till", "repeats", "faults: kill"))
    assert figures["statement"][0]["matched"] > _PAYMENTS / 2
    assert "| payments wrongly matched | 0 |" in written_day(figures)
