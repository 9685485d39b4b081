"""A client whose payments are compared with statements."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.days.closing import at_hour
from tests.support.money import a_client, deposit
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.values import KAMPALA


@pytest.fixture
def call(services: Services) -> RequestContext:
    """A client with UGX 50,000."""
    call = a_client()
    deposit(services, call, 50_000)
    return call


@pytest.fixture
def day(clock: MovableClock) -> date:
    """Tomorrow; it is noon in Kampala today."""
    at_hour(clock, 12)
    return clock.now().astimezone(KAMPALA).date() + timedelta(days=1)
