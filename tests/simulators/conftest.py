"""A running stand-in for each test, and a listener for its callbacks."""

from collections.abc import Iterator

import pytest

from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.mtn import MtnMomo
from simulators.server import run
from tests.simulators.callers import AirtelCaller, Listener, MtnCaller


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A server that receives callbacks."""
    with Listener() as listening:
        yield listening


@pytest.fixture
def mtn() -> Iterator[MtnCaller]:
    """A provisioned client of the MTN sandbox."""
    with run(MtnMomo()) as base_url:
        caller = MtnCaller(base_url).provision()
        with caller:
            yield caller


@pytest.fixture
def airtel(listener: Listener) -> Iterator[AirtelCaller]:
    """A client of Airtel whose application registered the listener."""
    with run(AirtelMoney(AirtelSettings(callback_url=listener.url))) as base_url:
        caller = AirtelCaller(base_url)
        with caller:
            yield caller
