"""The guide to webhooks tells the truth: its receivers run, and its examples are what the service sends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import MovableClock
from tests.rpc.redis_server import free_port
from tests.services.money import a_client, wish, work
from tests.services.receivers import Receiver, deliver, deliveries_of, happen, subscribe
from tests.shop import PHONE, Shop
from ussd_server.house import Services
from ussd_server.messages.api_keys import CreateApiKey, DeleteApiKey
from ussd_server.messages.transactions import CreateRefund
from ussd_server.messages.ussd import BeginSession, NameSession
from ussd_server.messages.webhooks import EVENT_TYPES, NameWebhook
from ussd_server.models.events import Event
from ussd_server.models.webhooks import Webhook

_GUIDE = Path(__file__).parents[2] / "docs" / "WEBHOOKS.md"
_MARK = "from what the service really sends. -->\n"
_JAVASCRIPT_LIBRARY = "standardwebhooks@1.1.1"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOMENT = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")

Command = list[str | Path]


# The receivers


def code(language: str) -> str:
    """The guide's receiver in a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", _GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    return str(block)


def in_python(folder: Path) -> Command:
    (folder / "receiver.py").write_text(code("python"))
    return [sys.executable, folder / "receiver.py"]


def in_javascript(folder: Path) -> Command:
    """Node.js with the reference library of JavaScript, which comes from its usual registry."""
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, _JAVASCRIPT_LIBRARY],
        check=True,
        timeout=60,
    )
    (folder / "receiver.js").write_text(code("javascript"))
    return ["node", folder / "receiver.js"]


def wait_for(port: int, receiver: subprocess.Popen[str]) -> None:
    """Return when the receiver listens."""
    while receiver.poll() is None:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise AssertionError("the receiver ended")


@pytest.mark.parametrize("make", [in_python, pytest.param(in_javascript, marks=pytest.mark.needs_node)])
def test_the_receiver_of_the_guide_takes_what_we_sign_once_and_nothing_else(
    house: Services, tmp_path: Path, make: Callable[[Path], Command]
) -> None:
    assert len(code(make.__name__.removeprefix("in_")).strip().splitlines()) <= 25
    call, port = a_client(), free_port()
    webhook = subscribe(house, call, f"http://127.0.0.1:{port}/")
    environment = {"PATH": os.environ["PATH"], "PORT": str(port), "WEBHOOK_SECRET": webhook.secret}
    receiver = subprocess.Popen(make(tmp_path), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(port, receiver)
        house.webhooks.test(NameWebhook(webhook.id), call)
        (event_id,) = happen(house, call)
        deliver(house)
        Event.update(is_pending=True).where(Event.id == event_id).execute()
        deliver(house)
        other = subscribe(house, call, f"http://127.0.0.1:{port}/?signed=by-another-secret", "transaction.failed")
        forged = house.webhooks.test(NameWebhook(other.id), call)
        deliver(house)
        assert [delivery.answer_status for delivery in deliveries_of(house, call, event_id)] == [204, 204]
        assert [delivery.answer_status for delivery in deliveries_of(house, call, forged.id)] == [401]
    finally:
        receiver.terminate()
        printed, _ = receiver.communicate()
    lines = [line.split(" ", 1) for line in printed.splitlines()]
    assert [line[0] for line in lines] == ["webhook.test", "ussd.session.ended"]
    assert "number" in lines[1][1]


# The examples


def make_one_of_each(house: Services, clock: MovableClock) -> Iterator[Event]:
    """Let everything happen that clients can be told of; give the first event of each type."""
    shop = Shop(house)
    call = shop.call
    for number, reference in (
        ("00", "order-1"),
        ("02", "order-2"),
        ("04", "order-3"),
        ("06", "order-4"),
        ("09", "order-5"),
    ):
        recorded = house.transactions.create(
            wish(number=f"+2567700000{number}", reference=reference, description="Basket", metadata={"basket": 7}), call
        )
        work(house, clock, 15)
        if reference == "order-1":
            house.refunds.create(CreateRefund(recorded.transaction.transaction_id, "refund-1"), call)
            work(house, clock)
    session = house.ussd.begin(BeginSession(PHONE, shop.code), call)
    house.ussd.end(NameSession(session.session_id), call)
    key = house.api_keys.create(CreateApiKey(), call)
    house.api_keys.delete(DeleteApiKey(key.id), call)
    with Receiver(lambda _: 410) as receiver:
        webhook = subscribe(house, call, receiver.url)
        house.webhooks.test(NameWebhook(webhook.id), call)
        house.fanout.run()
        # Its address has a port of this run.
        Webhook.update(url="https://shop.example.com/hooks").where(Webhook.id == webhook.id).execute()
        (delivery,) = house.deliveries.claim(1)
        house.deliveries.send(delivery)
    for event_type in EVENT_TYPES:
        yield Event.select().where(Event.type == event_type).order_by(Event.created_at, Event.sequence).first()


def catalogue(events: Iterator[Event]) -> str:
    """Every type with its meaning and an example, in which ids and times are told apart and always the same."""
    parts = []
    for event in events:
        numbers = count(1)
        names: dict[str, str] = {}

        def named(found: re.Match[str], names: dict[str, str] = names, numbers: Iterator[int] = numbers) -> str:
            return names.setdefault(found[0], f"01900000-0000-7000-8000-{next(numbers):012}")

        body = {"type": event.type, "timestamp": "2026-11-20T08:15:30.123Z", "data": event.payload}
        text = _ID.sub(named, json.dumps(body, indent=2, ensure_ascii=False))
        text = _MOMENT.sub("2026-11-20T08:15:30.123Z", text)
        text = re.sub(r'"apikey": "uk\w+"', '"apikey": "uk7Q2mX9fK4sT1bL8vC3dZ"', text)
        text = re.sub(r"SBX[0-9A-F]{12}", "SBX35AEDF2CAC85", text)
        parts.append(f"### `{event.type}`\n\n{EVENT_TYPES[event.type]}\n\n```json\n{text}\n```\n")
    return "\n" + "\n".join(parts)


def test_the_guide_shows_every_type_of_event_as_it_is_sent(house: Services, clock: MovableClock) -> None:
    """With USSD_TEST_WRITE_GUIDE=1 the examples are written anew instead."""
    told, mark, shown = _GUIDE.read_text().partition(_MARK)
    real = catalogue(make_one_of_each(house, clock))
    if os.environ.get("USSD_TEST_WRITE_GUIDE"):
        _GUIDE.write_text(told + mark + real)
    else:
        assert shown == real
