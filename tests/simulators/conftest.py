"""Running stand-ins, one for each test, and a listener for what they send."""

from collections.abc import Iterator

import pytest

from simulators import run
from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.mtn import MtnMomo
from tests.simulators.callers import AirtelCaller, Listener, MtnCaller


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A server that receives callbacks."""
    with Listener() as listening:
        yield listening


@pytest.fixture
def mtn() -> Iterator[MtnCaller]:
    """A provisioned client of the MTN sandbox."""
    with run(MtnMomo().app()) as base_url:
        caller = MtnCaller(base_url).provision()
        with caller:
            yield caller


@pytest.fixture
def airtel(listener: Listener) -> Iterator[AirtelCaller]:
    """A client of Airtel whose application registered the listener."""
    with run(AirtelMoney(AirtelSettings(callback_url=listener.url)).app()) as base_url:
        caller = AirtelCaller(base_url)
        with caller:
            yield caller
