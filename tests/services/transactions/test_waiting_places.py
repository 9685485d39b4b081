"""Waiting places: all for one client, and a fair share for each when several want them."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from ussd_server.services.transactions.waiting_places import WaitingPlaces


@given(st.integers(1, 9), st.lists(st.sampled_from("abc")))
def test_places_are_never_more_than_there_are_and_differ_by_one_between_clients_that_want_more(
    total: int, arrivals: list[str]
) -> None:
    places = WaitingPlaces(total)
    with ExitStack() as calls:
        taken = [(client, calls.enter_context(places.place(client))) for client in arrivals]
        held = {client: sum(place.is_held for each, place in taken if each == client) for client in set(arrivals)}
        assert sum(held.values()) == min(total, len(arrivals))
        for client, count in held.items():
            if count < arrivals.count(client):
                assert count >= max(held.values()) - 1, "who was refused or lost a place has no less than the others"
    with ExitStack() as calls:
        assert all(calls.enter_context(places.place("d")).is_held for _ in range(total)), "all places were given back"
