"""The check reports a payment of a past day that was deleted, whatever was deleted with it."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.services.operations.conftest import Scene
from tests.support.books import check_everything
from tests.support.money import operator
from tests.support.unguarded import without_triggers
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database
from ussd_server.models.operations import HistoryDigest
from ussd_server.services.operations.book_check.history_digests import OTHER_DIGEST, OTHER_PAST

_OF_A_FAILED_PAYMENT = (
    "{} transaction_events {} WHERE transaction_id = '{{collection_01}}'",
    "{} events {} WHERE object_id = '{{collection_01}}'",
    "{} transactions {} WHERE id = '{{collection_01}}'",
)
_REMOVED = [each.format("DELETE FROM", "") for each in _OF_A_FAILED_PAYMENT]
_MOVED = [each.format("UPDATE", "SET client_id = '{other}'") for each in _OF_A_FAILED_PAYMENT]


@pytest.fixture
def past(scene: Scene, services: Services, clock: MovableClock) -> Scene:
    """The scene, whose day is over, and two days after it."""
    clock.advance(26 * 3600)
    assert services.history_digests.write() == 1
    clock.advance(2 * 86_400)
    assert services.history_digests.write() == 2
    assert services.history_digests.write() == 0
    return scene


@pytest.mark.parametrize(
    ("statements", "clients"),
    [
        (_REMOVED, {"client"}),
        (_MOVED, {"client", "other"}),
        (
            [
                "UPDATE transaction_events SET provider_call = '{{}}' WHERE transaction_id = '{collection_04}' "
                "AND sequence = 2"
            ],
            {"client"},
        ),
        (
            ["UPDATE transaction_events SET detail = 'x' WHERE transaction_id = '{collection_04}' AND sequence = 2"],
            {"client"},
        ),
        (
            [
                "UPDATE transaction_events SET source = 'operator' WHERE transaction_id = '{collection_04}' "
                "AND sequence = 2"
            ],
            {"client"},
        ),
        (["UPDATE transactions SET request_digest = 'x' WHERE id = '{collection_04}'"], {"client"}),
    ],
)
def test_a_payment_of_a_past_day_that_is_not_what_it_was_is_named(
    past: Scene, services: Services, statements: list[str], clients: set[str]
) -> None:
    assert check_everything(vault=services.runtime.vault) == []
    with without_triggers():
        for statement in statements:
            database.execute_sql(statement.format_map(past))
    found = check_everything(vault=services.runtime.vault)
    assert {(one.id, one.rule) for one in found} == {(past[name], OTHER_PAST) for name in clients}


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE history_digests SET clients = '{{}}' WHERE day = '{day}'", 0),
        ("UPDATE history_digests SET digest = '{digest}' WHERE day = '{day}'", 0),
        ("DELETE FROM history_digests WHERE day = '{day}'", 1),
    ],
)
def test_a_digest_of_a_past_day_that_was_changed_or_removed_is_named(
    past: Scene, services: Services, statement: str, place: int
) -> None:
    first, second, _ = HistoryDigest.select().order_by(HistoryDigest.id)
    with without_triggers():
        database.execute_sql(statement.format(day=first.day, digest=second.digest))
    (found,) = check_everything(vault=services.runtime.vault)
    assert (found.id, found.rule) == ((first, second)[place].day, OTHER_DIGEST)
    assert str(found) == f"The past of {found.id} {OTHER_DIGEST}."


def test_digests_of_past_days_outlive_the_rotation_of_the_master_keys(past: Scene, services: Services) -> None:
    master_keys = services.master_keys
    master_keys.add(operator())
    master_keys.rekey(operator())
    master_keys.retire(operator())
    assert check_everything(vault=services.runtime.vault) == []
