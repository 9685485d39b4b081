"""A client that pays out."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk
from tests.services.payouts.staff import StaffedDesk
from ussd_server.bootstrap import Services


@pytest.fixture
def desk(services: Services, clock: MovableClock) -> PayoutDesk:
    return PayoutDesk(services, clock)


@pytest.fixture
def staff(services: Services, clock: MovableClock) -> StaffedDesk:
    return StaffedDesk(services, clock)
