"""A caller that sends many requests at once does not hold up the request of another one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from flask.testing import FlaskClient

from tests.support.cooperative import run_cooperatively

_MANY_AND_ONE = """
import json
import gevent
from ussd_server.server.caller_turns import CallerTurns

turns, begun = CallerTurns(gevent.get_hub().loop), []

def request(caller):
    turns.wait(caller)
    begun.append(caller)

many = [gevent.spawn(request, "many") for _ in range(101)]
one = gevent.spawn(request, "one")
gevent.joinall([*many, one])
# Nothing is left of that turn.
gevent.sleep(0.01)
request("many")
print(json.dumps(begun))
"""

_DEAR = """
import json, time
import gevent
from ussd_server.server.caller_turns import CallerTurns

turns, begun = CallerTurns(gevent.get_hub().loop), []

def request():
    turns.wait("many")
    begun.append("many")
    ends_at = time.thread_time() + 0.005
    while time.thread_time() < ends_at:
        pass

many = [gevent.spawn(request) for _ in range(150)]
while len(begun) < 32:
    gevent.sleep(0.000001)
before = len(begun)
for _ in range(5):
    gevent.sleep(0.000001)
print(json.dumps(len(begun) - before))
gevent.joinall(many)
assert len(begun) == 150
"""


_FLOOD = """
import json, sys, time
import gevent
from ussd_server.server.caller_turns import CallerTurns

# gevent runs fifty callbacks, and more for as long; as in a web process.
sys.setswitchinterval(0.001)
turns, ran = CallerTurns(gevent.get_hub().loop), []

def request(caller):
    turns.wait(caller)
    ends_at = time.thread_time() + 0.0001
    while time.thread_time() < ends_at:
        pass
    ran.append(caller)

many = [gevent.spawn(request, number % 10) for number in range(2000)]
while len(ran) < 1000:
    gevent.sleep(0.000001)
before = len(ran)
gevent.sleep(0)
print(json.dumps(len(ran) - before))
gevent.joinall(many)
"""

_HEAVY = """
import json
import gevent
from ussd_server.server.caller_turns import CallerTurns

turns, begun = CallerTurns(gevent.get_hub().loop), []

for _ in range(20):
    turns.begin("many", 4, lambda: begun.append("connection"))
print(json.dumps(len(begun)))
while len(begun) < 20:
    gevent.sleep(0.000001)
"""


def test_the_request_of_another_caller_begins_before_those_of_a_caller_with_many() -> None:
    begun = run_cooperatively(_MANY_AND_ONE)
    assert begun.index("one") <= 16
    assert begun.count("many") == 102


def test_requests_that_compute_for_long_begin_one_by_one() -> None:
    assert run_cooperatively(_DEAR) <= 10


def test_no_more_begins_until_what_began_in_the_turn_has_run() -> None:
    assert run_cooperatively(_FLOOD) <= 2 * 10 * 16


def test_work_that_counts_as_four_pieces_begins_four_times_in_a_turn() -> None:
    assert run_cooperatively(_HEAVY) == 4


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_request_waits_for_the_turn_of_its_network(web: FlaskClient) -> None:
    callers: list[str] = []
    connection = SimpleNamespace(wait_for_turn=callers.append)
    web.get("/", environ_overrides={"gunicorn.socket": connection, "REMOTE_ADDR": "2001:db8::1"})
    assert callers == ["2001:db8::/64"]
