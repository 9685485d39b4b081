"""A loaded web process lets its other requests run every few milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cooperative import run_cooperatively

# In processor time, so that other work on the machine counts only where it empties caches.
MOST_MS = 30

PROGRAM = """
import gc, json, time
import gevent, greenlet
from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.context import operator_context
from ussd_server.database.schema import migrate
from ussd_server.settings import read_settings

services = build_services(read_settings())
migrate()
client = ExampleClient(services)
deposit(services, operator_context(client.id), 100_000_000)
keys = [client.create_key() for _ in range(30)]
app = create_app(services)
ends_at = time.monotonic() + 2


def call(key, place):
    caller, number = app.test_client(), 0
    headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
    while time.monotonic() < ends_at and number < 90:
        number += 1
        if number % 3:
            assert caller.get("/api/balance", headers=headers).status_code == 200
        else:
            order = {"type": "disbursement", "phone_number": "+256771000000", "amount": 500,
                     "reference": f"{place}-{number}"}
            assert caller.post("/api/transactions", json=order, headers=headers).status_code == 201


stretches, since = [], time.thread_time()


def note(event, greenlets):
    global since
    now = time.thread_time()
    frame, names = greenlets[0].gr_frame, []
    if now - since > 0.002:
        while frame is not None:
            if "ussd_server" in frame.f_code.co_filename:
                names.append(frame.f_code.co_qualname)
            frame = frame.f_back
        stretches.append((round((now - since) * 1000, 1), names[:3]))
    since = time.thread_time()


gc.collect()
gc.freeze()
gc.set_threshold(10_000, 20, 50)
calls = [gevent.spawn(call, key, place) for place, key in enumerate(keys)]
since = time.thread_time()
greenlet.settrace(note)
gevent.joinall(calls, raise_error=True)
greenlet.settrace(None)
services.close()
print(json.dumps(sorted(stretches, reverse=True)[:20]))
"""


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_loaded_process_pauses_every_few_milliseconds(database_url: str, redis_url: str, tmp_path: Path) -> None:
    longest = run_cooperatively(
        PROGRAM, USSD_DATABASE_URL=database_url, USSD_REDIS_URL=redis_url, USSD_DATA_DIR=str(tmp_path)
    )
    too_long = [(milliseconds, where) for milliseconds, where in longest if milliseconds > MOST_MS]
    assert not too_long, longest
