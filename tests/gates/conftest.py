"""Fixtures of the gates."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.gates.ways_in import World
from ussd_server.bootstrap import Services


@pytest.fixture
def world(services: Services, clock: MovableClock) -> World:
    return World(services, clock)
