"""Fixtures of settlement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import MovableClock
from tests.services.desk import Company, Desk
from ussd_server.house import Services


@pytest.fixture
def company() -> Iterator[Company]:
    company = Company()
    yield company
    assert company.mistakes == []


@pytest.fixture
def desk(house: Services, clock: MovableClock, company: Company) -> Desk:
    return Desk(house, clock, company)
