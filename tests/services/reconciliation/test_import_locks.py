"""Imports at the same moment wait for each other. SQLite has one writer at a time, so PostgreSQL alone is tried."""

from __future__ import annotations

from functools import partial

import pytest

from tests.services.reconciliation.statement_files import csv_file, reconcile
from tests.services.reconciliation.test_imports import foreign
from tests.support.competitors import competing
from tests.support.eventually import eventually
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import advisory_lock, database, unit_of_work
from ussd_server.services.movements.messages import ListMovements
from ussd_server.services.reconciliation import imports
from ussd_server.status import Code, ServiceError

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each try of an import to take the lock; the database waits a moment each time."""
    tries: list[int] = []

    def lock(number: int) -> None:
        tries.append(number)
        database.execute_sql("SET LOCAL lock_timeout = 20")
        advisory_lock(number)

    monkeypatch.setattr(imports, "advisory_lock", lock)
    return tries


def test_an_import_waits_longer_for_others_than_the_database_waits_for_a_lock(
    services: Services, tries: list[int]
) -> None:
    with competing() as compete, unit_of_work():
        imports.lock_imports()
        importing = compete(partial(reconcile, services, foreign(3)))
        eventually(lambda: len(tries) > 3)
    assert importing.result().statement.difference_count == 3


@pytest.mark.usefixtures("tries")
def test_an_import_that_waited_for_too_long_is_refused_and_can_come_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "_WAITS", 2)
    file = csv_file(foreign(3))
    with competing() as compete, unit_of_work():
        imports.lock_imports()
        refused = compete(partial(reconcile, services, file)).exception()
    assert isinstance(refused, ServiceError)
    assert (refused.code, refused.retry_after_seconds) == (Code.SERVICE_UNAVAILABLE, 10)
    assert not reconcile(services, file).is_repeat
    assert len(services.movements.list(ListMovements(is_held=True), operator()).items) == 3
