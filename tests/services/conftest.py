"""Fixtures of settlement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import MovableClock
from tests.support.competitors import Compete, competing
from tests.support.desk import Desk, FakeProvider
from ussd_server.bootstrap import Services


@pytest.fixture
def compete() -> Iterator[Compete]:
    with competing() as compete:
        yield compete


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    provider = FakeProvider()
    yield provider
    assert provider.mistakes == []


@pytest.fixture
def desk(services: Services, clock: MovableClock, provider: FakeProvider) -> Desk:
    return Desk(services, clock, provider)
