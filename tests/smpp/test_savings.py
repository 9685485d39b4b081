"""A savings group over SMPP: a member's PIN, deposit and balance, whatever is cut; and no PIN anywhere."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import MovableClock
from tests.services.subscribers.test_pins import GatewayPhone, judge, savings_group
from tests.services.webhooks.receivers import Receiver, deliver, subscribe
from tests.smpp.operator_side import OperatorSide
from tests.support.eventually import eventually
from tests.support.shop import CODE, OPERATOR, Shop
from tests.support.span_collector import collecting_spans
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database
from ussd_server.menus.engine.actions import PinVerdict
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberPin
from ussd_server.security import passwords
from ussd_server.services.ussd.messages import ChannelView
from ussd_server.smpp import bind as bind_module
from ussd_server.smpp import repeats
from ussd_server.spans import end_export

pytestmark = [pytest.mark.slow, pytest.mark.needs_node]

Connect = Callable[..., ChannelView]
BEGIN, CONTINUE, LAST = 1, 18, 17
PIN, WRONG = "739184", "915273"
PHONE = "+256770000000"


@pytest.fixture
def shop(services: Services) -> Shop:
    return Shop(services, savings_group())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bind again soon, and take the same text as a new entry once its screen was acknowledged."""
    monkeypatch.setattr(bind_module, "_FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(repeats, "_REPEAT_SECONDS", 0.0)


class CutPhone:
    """A phone whose link is cut before each screen is acknowledged, so that the operator sends each step again."""

    def __init__(self, operator: OperatorSide, clock: MovableClock) -> None:
        self._operator, self._clock = operator, clock
        self._numbers = itertools.count(311)

    def dials(self) -> str:
        """The first screen."""
        self._session = (next(self._numbers) << 1).to_bytes(2).hex()
        return self._step(BEGIN, CODE)

    def enters(self, *entries: str) -> str:
        """The screen after entries."""
        return [self._step(CONTINUE, entry) for entry in entries][-1]

    def _step(self, operation: int, text: str) -> str:
        operator, binds = self._operator, self._operator.count("bind")
        operator.command("mood", submits="hold")
        lost = operator.screen(operation, text, self._session)
        operator.command("kill")
        operator.command("mood", submits="accept")
        operator.wait("bind", binds)
        again = operator.screen(operation, text, self._session)
        assert (again["text"], again["op"]) == (lost["text"], lost["op"])
        self._clock.advance(2.1)
        shown: str = again["text"]
        return shown


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """What takes the spans."""
    with collecting_spans(monkeypatch, "smpp") as receiver:
        yield receiver


def test_a_member_pays_in_and_asks_the_balance_though_the_link_is_cut_at_each_step_and_no_pin_is_kept(
    services: Services,
    shop: Shop,
    operator: OperatorSide,
    connect: Connect,
    clock: MovableClock,
    collector: Receiver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with Receiver() as receiver:
        subscribe(services, shop.call, receiver.url, "subscriber.pin_locked")
        connect()
        phone = CutPhone(operator, clock)
        assert "7. Choose a PIN" in phone.dials()
        assert phone.enters("7").startswith("Choose a PIN")
        assert phone.enters(PIN, WRONG).startswith("The two PINs differ.")
        assert phone.enters(PIN).startswith("Enter the new PIN again")
        assert phone.enters(PIN).startswith("Your PIN is kept.")
        assert phone.enters("1", "1", "5000", "1").startswith("Approve the prompt")
        assert [row.amount_cents for row in Transaction.select()] == [500_000]
        (claimed,) = services.processing.claim(10)
        services.processing.advance(claimed)
        clock.advance(60)
        assert "UGX 5,000 to Tukwatagane Savings Group succeeded" in phone.dials()
        assert "3. Balance" in phone.enters("0")
        assert phone.enters("3").startswith("Your PIN")
        assert "Tries left: 2." in phone.enters(WRONG)
        assert SubscriberPin.get().wrong_tries == 1
        assert phone.enters(PIN).startswith("Your balance is UGX 5,000.")
        assert "locked" in phone.enters("1", "3", WRONG, "915274", "915275")
        deliver(services)
        assert [call.document["type"] for call in receiver.calls] == ["subscriber.pin_locked"]
        read = [*crawl(services), caplog.text, *(call.body.decode() for call in receiver.calls)]
    end_export()
    spans = [str(ExportTraceServiceRequest.FromString(call.body)) for call in collector.calls]
    for pin in (PIN, WRONG, "915274", "915275"):
        assert [text for text in [*read, *spans] if pin in text] == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_hundred_pins_that_wait_for_their_hash_hold_up_no_other_phone(
    services: Services, shop: Shop, operator: OperatorSide, connect: Connect, clock: MovableClock
) -> None:
    connect(window=200)
    judge(services, shop, "new", PIN, "+256771000099")
    # 63 is what one client may have waiting, and four times as many as there are threads that work.
    steps = [
        {"source_addr": f"256771000{number:03}", "session": (1 + number << 1).to_bytes(2).hex()} for number in range(63)
    ]

    def burst(operation: int, text: str) -> None:
        operator.command("burst", steps=steps, ussd_service_op=operation, short_message=text, destination_addr="384123")

    for count, (operation, text) in enumerate([(BEGIN, CODE), (CONTINUE, "7"), (CONTINUE, PIN)], 1):
        burst(operation, text)
        eventually(lambda: operator.count("submit") == count * len(steps))  # noqa: B023
    clock.advance(2.1)
    released = threading.Event()
    hashing = [passwords._POOLS[os.getpid(), "pins"].submit(released.wait, 60) for _ in range(2)]
    burst(CONTINUE, PIN)
    other = operator.screen(BEGIN, CODE, "0ffe")
    assert other["to"] == "256770000000"
    assert operator.screen(CONTINUE, "1", "0ffe")["text"].startswith("Amount to deposit")
    assert operator.count("submit") == 3 * len(steps) + 2
    released.set()
    assert all(each.result() for each in hashing)
    eventually(lambda: operator.count("submit") == 4 * len(steps) + 2)
    last = [event["text"] for event in operator.events if event["event"] == "submit"][-len(steps) :]
    assert {text.split("\n")[0] for text in last} == {"Your PIN is kept."}


def crawl(services: Services) -> Iterator[str]:
    """Everything that is kept of a member, or that the client may read of one."""
    for table in database.get_tables():
        yield from (repr(row) for row in database.execute_sql(f'SELECT * FROM "{table}"').fetchall())
    yield repr(services.personal_data.export(PHONE, OPERATOR))


def test_a_hundred_wrong_pins_over_two_gateways_lock_ten_phones_and_no_other(
    services: Services, shop: Shop, operator: OperatorSide, connect: Connect
) -> None:
    connect(window=100)
    numbers = [f"25677200000{digit}" for digit in range(10)]
    for number in [f"+{number}" for number in numbers]:
        judge(services, shop, "new", PIN, number)
    judge(services, shop, "new", PIN)
    steps = [
        {"source_addr": number, "session": (session << 1).to_bytes(2).hex()}
        for session, number in enumerate(numbers * 5, 1)
    ]
    everyone = [GatewayPhone(shop, f"+{number}") for number in numbers for _ in range(5)]

    def burst(operation: int, text: str) -> list[str]:
        before = operator.count("submit")
        operator.command("burst", steps=steps, ussd_service_op=operation, short_message=text, destination_addr="384123")
        eventually(lambda: operator.count("submit") == before + len(steps))
        return [event["text"] for event in operator.events if event["event"] == "submit"][before:]

    assert {text.split("\n")[0] for text in burst(BEGIN, CODE)} == {"Tukwatagane Savings Group"}
    assert {text.split("\n")[0] for text in burst(CONTINUE, "3")} == {"Your PIN with the group"}
    for phone in everyone:
        phone.enters("3")
    over_http = list[str]()
    web = threading.Thread(target=lambda: over_http.extend(phone.enters(WRONG) for phone in everyone))
    web.start()
    over_smpp = burst(CONTINUE, WRONG)
    web.join(60)
    screens = [*over_smpp, *over_http]
    assert len(screens) == 100
    assert sum("Tries left" in screen for screen in screens) == 2 * len(numbers)
    assert sum("is locked" in screen for screen in screens) == 100 - 2 * len(numbers)
    locked = [row.phone_number for row in SubscriberPin.select().where(SubscriberPin.locked_until.is_null(False))]
    assert sorted(locked) == [f"+{number}" for number in numbers]
    assert Event.select().where(Event.type == "subscriber.pin_locked").count() == len(numbers)
    assert judge(services, shop, "old", PIN).verdict is PinVerdict.RIGHT
