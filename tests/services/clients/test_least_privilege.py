"""No chain of keys, links, roles and rotations gives a permission that its start was not given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import ModuleType

import pytest

from tests.conftest import MovableClock
from tests.support.example_client import OPERATOR
from tests.support.intruder import OWNER, Intruder
from ussd_server.bootstrap import Services
from ussd_server.context import APPROVE
from ussd_server.services.clients import api_keys, people
from ussd_server.services.clients.keys import reader
from ussd_server.services.roles import GIVES_SCOPES, PAGE_PERMISSIONS

# Who may do what is decided by the program, so that one database is enough.
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)]

STEPS = 60
SEEDS = 8
GIVEN = {role: PAGE_PERMISSIONS[role] | GIVES_SCOPES[role] for role in PAGE_PERMISSIONS}
ALLOWED = {
    role: {grant for grant in given if not grant.endswith(":*")} | ({OWNER} if role == "owner" else set())
    for role, given in GIVEN.items()
}


PAYS_ALONE = {"pays alone"}


def found(
    services: Services, clock: MovableClock, start: str, counts_readers: bool = True, seeds: int = SEEDS
) -> Iterator[Collection[str]]:
    """What is too much after each step of walks from a start: permissions not given to it, or that it pays alone."""
    for seed in range(seeds):
        intruder = Intruder(services, clock, start, seed)
        services.clients.count_readers(intruder.client.id, counts_readers, OPERATOR)
        for number in range(STEPS):
            intruder.step()
            if too_much := intruder.powers - ALLOWED[start]:
                yield too_much
            elif number % 4 == 0 and intruder.pays_alone():
                yield PAYS_ALONE


@pytest.mark.parametrize("start", ["owner", "admin", "developer", "viewer"])
def test_no_chain_of_actions_gives_more_than_its_start(
    services: Services, clock: MovableClock, start: str, tries: Callable[[int], int]
) -> None:
    assert list(found(services, clock, start, seeds=tries(SEEDS))) == []


@pytest.mark.parametrize(
    ("place", "name", "broken", "start", "gained"),
    [
        (api_keys, "_require_within_role", lambda *_: None, "developer", {APPROVE}),
        (api_keys, "_require_less_power", lambda *_: None, "developer", {APPROVE}),
        (api_keys, "may_read_secret", lambda *_: True, "developer", {APPROVE}),
        (reader, "may_read_secret", lambda *_: True, "developer", {APPROVE}),
        (people, "require_owner", lambda *_: None, "admin", {OWNER}),
        (people, "people_behind_caller", lambda context: frozenset(), "admin", PAYS_ALONE),
        (api_keys, "people_behind_caller", lambda context: frozenset(), "admin", PAYS_ALONE),
    ],
    ids=["create", "change", "list", "reveal", "owners", "links", "makers"],
)
def test_walks_find_a_check_that_is_missing(
    services: Services,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
    place: ModuleType,
    name: str,
    broken: Callable[..., object],
    start: str,
    gained: set[str],
) -> None:
    monkeypatch.setattr(place, name, broken)
    # A developer gains the sending of money too, on most walks first.
    assert any(gained.issubset(too_much) for too_much in found(services, clock, start))


def test_a_person_who_reads_a_colleagues_secret_pays_alone_where_readers_do_not_count(
    services: Services, clock: MovableClock
) -> None:
    assert next(found(services, clock, "admin", counts_readers=False)) == PAYS_ALONE
