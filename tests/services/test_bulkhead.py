"""Places: all for one client, a fair share for each when several want them, or a fixed share."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from ussd_server.services.bulkhead import Bulkhead


@given(st.integers(1, 9), st.lists(st.sampled_from("abc")))
def test_places_are_never_more_than_there_are_and_differ_by_one_between_clients_that_want_more(
    total: int, arrivals: list[str]
) -> None:
    permits = Bulkhead(total)
    with ExitStack() as calls:
        taken = [(client, calls.enter_context(permits.permit(client))) for client in arrivals]
        held = {client: sum(permit.is_held for each, permit in taken if each == client) for client in set(arrivals)}
        assert sum(held.values()) == min(total, len(arrivals))
        for client, count in held.items():
            if count < arrivals.count(client):
                assert count >= max(held.values()) - 1, "who was refused or lost a permit has no less than the others"
    with ExitStack() as calls:
        assert all(calls.enter_context(permits.permit("d")).is_held for _ in range(total)), (
            "all permits were given back"
        )


def test_a_client_with_a_share_holds_no_more_while_places_are_free() -> None:
    permits = Bulkhead(4, 2)
    with ExitStack() as calls:
        given_to = [bool(calls.enter_context(permits.permit(client))) for client in "aaabbc"]
    assert given_to == [True, True, False, True, True, False]
    with permits.permit("c") as permit:
        assert permit.is_held


def test_a_client_takes_no_place_from_another_that_would_then_have_fewer() -> None:
    permits = Bulkhead(3)
    with ExitStack() as calls:
        taken = [calls.enter_context(permits.permit(client)) for client in "aabb"]
        assert [permit.is_held for permit in taken] == [True, True, True, False]
