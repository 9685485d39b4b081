"""Fixtures of SMPP: an operator's side, and a process of ours that is bound to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.smpp.operator_side import PASSWORD, OperatorSide, install
from tests.support.shop import OPERATOR, Shop
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.services.ussd.messages import ChannelView, CreateChannel, SmppOptions
from ussd_server.smpp_process import SmppProcess


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the npm package."""
    return install(tmp_path_factory.mktemp("smpp"))


@pytest.fixture(scope="module")
def operator_process(package: Path) -> Iterator[OperatorSide]:
    """The operator's side of a file of tests."""
    side = OperatorSide(package)
    yield side
    side.stop()


@pytest.fixture
def operator(operator_process: OperatorSide) -> Iterator[OperatorSide]:
    """An operator's side that has nothing to do with other tests."""
    yield operator_process
    operator_process.reset()


@pytest.fixture
def shop(services: Services) -> Shop:
    """A shop whose code phones dial."""
    return Shop(services)


def channel_to(port: int, shop: Shop, **given: Any) -> ChannelView:
    """A channel of the shop to an operator's side."""
    options = {"url": f"smpp://127.0.0.1:{port}", "system_id": "acme", "password": PASSWORD, "binds": 1} | given
    return shop.services.channels.create(CreateChannel("smpp", shop.client_id, smpp=SmppOptions(**options)), OPERATOR)


@contextmanager
def serving(services: Services) -> Iterator[None]:
    """An SMPP process, in a thread."""
    stop = threading.Event()
    process = threading.Thread(target=SmppProcess(services).run, args=(stop,))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(60)
        close_connections()
        assert not process.is_alive()


@pytest.fixture
def connect(services: Services, shop: Shop, operator: OperatorSide) -> Iterator[Callable[..., ChannelView]]:
    """Make a channel to the operator's side, with these options, and serve it until the end of the test."""
    served = None

    def make(**given: Any) -> ChannelView:
        nonlocal served
        channel = channel_to(operator.port, shop, **given)
        served = serving(services)
        served.__enter__()
        for number in range(given.get("binds", 1)):
            operator.wait("bind", number)
        return channel

    yield make
    if served is not None:
        served.__exit__(None, None, None)
