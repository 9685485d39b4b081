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


def test_the_request_of_another_caller_begins_before_those_of_a_caller_with_many() -> None:
    begun = run_cooperatively(_MANY_AND_ONE)
    assert begun.index("one") <= 16
    assert begun.count("many") == 102


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_request_waits_for_the_turn_of_its_network(web: FlaskClient) -> None:
    callers: list[str] = []
    connection = SimpleNamespace(wait_for_turn=callers.append)
    web.get("/", environ_overrides={"gunicorn.socket": connection, "REMOTE_ADDR": "2001:db8::1"})
    assert callers == ["2001:db8::/64"]
