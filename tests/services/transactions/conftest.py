"""Fixtures of settlement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import MovableClock
from tests.services.transactions.desk import Company, Desk
from ussd_server.bootstrap import Services


@pytest.fixture
def company() -> Iterator[Company]:
    company = Company()
    yield company
    assert company.mistakes == []


@pytest.fixture
def desk(services: Services, clock: MovableClock, company: Company) -> Desk:
    return Desk(services, clock, company)
