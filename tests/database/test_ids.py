"""Ids: made from the time, in the order in which they were made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from ussd_server.values import is_id, new_id, new_id_floor

MILLISECOND = timedelta(milliseconds=1)
moments = st.integers(1, 2**43).map(lambda number: datetime(1971, 1, 1, tzinfo=UTC) + number * MILLISECOND)


@given(moments)
def test_ids_made_in_one_millisecond_sort_in_the_order_in_which_they_were_made(moment: datetime) -> None:
    ids = [new_id(moment) for _ in range(20)]
    assert ids == sorted(ids)
    assert all(map(is_id, ids))


@given(moments)
@example(datetime(1971, 1, 31, 9, 32, 39, 126000, tzinfo=UTC))
def test_an_id_lies_between_the_smallest_of_its_millisecond_and_of_the_next(moment: datetime) -> None:
    assert new_id_floor(moment) <= new_id(moment) < new_id_floor(moment + MILLISECOND)


@given(moments, st.timedeltas(timedelta(seconds=-10), timedelta(seconds=10)))
def test_an_id_made_after_another_sorts_behind_it_whatever_the_clocks_say(moment: datetime, ahead: timedelta) -> None:
    other = new_id(moment + ahead)
    assert other < new_id(moment, after=other)
    assert is_id(new_id(moment, after=other))
