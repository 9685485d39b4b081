"""Fixtures of the gates: an installation that sends mails, and a world in which money arrives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import MovableClock
from tests.gates.two_records import PAYER, RECEIPT
from tests.gates.ways_in import Enquired, World
from tests.support.books import check_everything
from tests.support.competitors import Compete, competing
from tests.support.mail_server import MailServer, mailing
from ussd_server.bootstrap import Services
from ussd_server.settings import Settings


@pytest.fixture
def settings(settings: Settings, mail_server: MailServer) -> Settings:
    return mailing(settings, mail_server.url)


@pytest.fixture
def world(services: Services, clock: MovableClock) -> World:
    return World(services, clock)


@pytest.fixture
def books(services: Services) -> Iterator[None]:
    """After the test, the invariant check finds nothing."""
    yield
    assert check_everything() == []


@pytest.fixture
def compete() -> Iterator[Compete]:
    with competing() as compete:
        yield compete


@pytest.fixture
def ours(world: World) -> Enquired:
    """A collection of ours that its provider has, and that succeeds under the receipt when the test says so."""
    made = Enquired(world, "public-1", PAYER, RECEIPT)
    made.prepare()
    return made
