"""The shipped services, dialled over HTTP and over SMPP: money moves once, and the last screen says so."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

import ussd_server.menus
from tests.conftest import MovableClock
from tests.smpp.operator_side import OperatorSide
from tests.support.money import deposit, work
from tests.support.shop import CODE, PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.models.transactions import Transaction
from ussd_server.services.ussd.messages import ChannelView
from ussd_server.smpp import repeats
from ussd_server.values import KAMPALA

pytestmark = [pytest.mark.slow, pytest.mark.needs_node]

BEGIN, CONTINUE = 1, 18
EXAMPLES = Path(ussd_server.menus.__file__).parent / "examples"
TOMORROW = "tomorrow"
# For each call of a service: its entries, a part of its last screen, and the payment.
SERVICES: dict[str, list[tuple[tuple[str, ...], str, tuple[str, int] | None]]] = {
    "savings_group": [
        (("7", "2580", "2580", "1"), "1. Deposit", None),
        (("1", "5000", "1"), "Approve the prompt", ("collection", 5000)),
    ],
    "school_fees": [(("1", "2026123", "2", "20000", "1"), "Approve the prompt", ("collection", 20500))],
    "loan": [
        (("1", "7333", "3", "1", "2580", "2580"), "Mukwano Loans", None),
        (("2", "8000", "1", "1"), "We have your UGX 8,000", ("collection", 8000)),
        # The last, because a later call would begin with its outcome.
        (("1", "7333", "3", "1", "2580"), "on its way", ("disbursement", 7333)),
    ],
    "airtime": [(("1", "98", "98", "12", "1", "1"), "Paid. 0770000000 gets a message.", ("collection", 35000))],
    "clinic": [(("1", "2", TOMORROW, "1"), "You are expected on", ("collection", 9100))],
}
Call = Callable[[tuple[str, ...]], str]


@pytest.fixture(autouse=True)
def worker(services: Services, clock: MovableClock) -> Iterator[None]:
    """A worker that does what is due, for which the time goes by quickly."""
    stop = threading.Event()

    def advance() -> None:
        while not stop.wait(0.05):
            work(services, clock, 1)
        close_connections()

    thread = threading.Thread(target=advance)
    thread.start()
    yield
    stop.set()
    thread.join(20)


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def shop(services: Services, service: str) -> Shop:
    document: dict[str, Any] = read_menu_file(EXAMPLES / f"{service}.yaml")[0]
    made = Shop(services, document)
    deposit(services, made.call, 100_000)
    return made


def play(service: str, call: Call, clock: MovableClock) -> None:
    """Make every call of a service, and compare its last screen and its payment."""
    tomorrow = f"{(clock.now() + timedelta(days=1)).astimezone(KAMPALA):%d/%m/%Y}"
    expected = []
    for entries, screen, payment in SERVICES[service]:
        last = call(tuple(tomorrow if entry == TOMORROW else entry for entry in entries))
        assert screen in last
        expected += [payment] if payment else []
    made = Transaction.select().where(Transaction.type != "deposit").order_by(Transaction.id)
    assert [(each.type, each.amount_cents // 100) for each in made] == expected


def test_a_service_is_dialled_over_http(service: str, shop: Shop, web: FlaskClient, clock: MovableClock) -> None:
    sessions = itertools.count()

    def call(entries: tuple[str, ...]) -> str:
        form = {"sessionId": f"call-{next(sessions)}", "phoneNumber": PHONE, "serviceCode": CODE}
        texts = ["", *itertools.accumulate(entries, "{}*{}".format)]
        return [web.post(shop.channel.gateway_path, data={**form, "text": text}).text for text in texts][-1]

    play(service, call, clock)


def test_a_service_is_dialled_over_smpp(
    service: str,
    shop: Shop,
    connect: Callable[..., ChannelView],
    operator: OperatorSide,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A subscriber reads each screen for longer than a repeat is one.
    monkeypatch.setattr(repeats, "_REPEAT_SECONDS", 0.0)
    connect()
    numbers = itertools.count(311)

    def call(entries: tuple[str, ...]) -> str:
        session = (next(numbers) << 1).to_bytes(2).hex()
        screens = [operator.screen(BEGIN, CODE, session)["text"]]
        for entry in entries:
            clock.advance(2.1)
            screens.append(operator.screen(CONTINUE, entry, session)["text"])
        return str(screens[-1])

    play(service, call, clock)


def test_every_service_is_shipped_and_dialled() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == {*SERVICES, "shop_bill"}
