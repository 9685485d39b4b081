"""One client's slow servers and many connections cost other clients nothing."""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.outbound.strange_server import StrangeServer, Visit
from tests.server.callers import LIVE, Caller, calls_are_answered, serving
from tests.support.eventually import eventually
from tests.support.shop import Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.services.clients.keys.messages import CreateApiKey

CALLERS = 24
OTHER_CODE = "*384*124#"


def silent_shop(services: Services, url: str) -> Shop:
    """A shop whose menu begins with three calls, one after another, to a server of its own."""
    ask = {"type": "http", "method": "GET", "url": url, "map": {"balance": "value"}, "on_error": "bye"}
    nodes = {f"ask{number}": ask | {"goto": goto} for number, goto in enumerate(("ask1", "ask2", "show"))}
    nodes |= {f"ask{number}": nodes[f"ask{number}"] | {"on_timeout": f"ask{number + 1}"} for number in (0, 1)}
    return Shop(services, shop_document(start="ask0", nodes=nodes, resume="off"))


def dial(caller: Caller, shop: Shop, number: int) -> None:
    """Send the first step of a session, and do not wait for its screen."""
    step = {"sessionId": f"s{number}", "phoneNumber": f"+2567700{number:05}", "networkCode": "99999"}
    body = urlencode(step | {"serviceCode": shop.code, "text": ""}).encode()
    head = (
        f"POST {shop.channel.gateway_path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    )
    caller.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def test_a_client_whose_server_is_silent_holds_up_no_other_client(
    services: Services, redis_url: str, tmp_path: Path
) -> None:
    settings = services.settings
    with StrangeServer(Visit.fall_silent) as server, ExitStack() as stack:
        slow, quick = silent_shop(services, server.url), Shop(services, code=OTHER_CODE)
        release_connection()
        started = serving(
            tmp_path,
            settings.database_url,
            redis_url,
            is_quiet=False,
            USSD_THREADS="4",
            USSD_ALLOW_PRIVATE_ADDRESSES="1",
        )
        port, _ = stack.enter_context(started)
        waiting = [stack.enter_context(Caller(port)) for _ in range(CALLERS)]
        for number, caller in enumerate(waiting):
            dial(caller, slow, number)
        eventually(lambda: server.visits)
        with Caller(port) as caller:
            dial(caller, quick, 1)
            status, screen = caller.answer()
            assert (status, screen.split()[:2]) == (200, [b"CON", b"Welcome"])
            login = b'{"email": "nobody@example.com", "password": "not the password"}'
            head = b"POST /api/clients/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            caller.send(head + b"Content-Length: %d\r\n\r\n" % len(login) + login)
            assert caller.answer()[0] == 401
        calls_are_answered(port)
        assert not all(caller.has_answer() for caller in waiting), "the others were answered while these wait"
        assert {caller.answer()[1] for caller in waiting} == {b"END Goodbye"}


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("options", ["", "--worker-connections 4000"], ids=["counted", "not counted"])
def test_more_connections_than_there_are_files_do_not_stop_the_process(
    services: Services, redis_url: str, tmp_path: Path, options: str
) -> None:
    # Beside a connection's own end this process needs a few files.
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000
    with (
        serving(
            tmp_path,
            services.settings.database_url,
            redis_url,
            is_quiet=False,
            before=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (400, 400)),
            GUNICORN_CMD_ARGS=options,
        ) as (port, process),
        ExitStack() as stack,
    ):
        (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for _ in range(700):
            stack.enter_context(Caller(port))
        stack.close()
        with Caller(port) as caller:
            caller.send(LIVE)
            assert caller.answer()[0] == 200
        assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split() == [worker]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_no_request_blocks_the_others_of_its_process(services: Services, redis_url: str, tmp_path: Path) -> None:
    """gevent's monitor reports code that blocks the hub for 20 ms; a password hash takes longer on any machine."""
    shop = Shop(services, large_document())
    key = services.api_keys.create(CreateApiKey(None), shop.call)
    release_connection()
    complaints: list[bytes] = []
    monitor = {"GEVENT_MONITOR_THREAD_ENABLE": "1", "GEVENT_MAX_BLOCKING_TIME": "0.02"}
    with (
        serving(
            tmp_path,
            services.settings.database_url,
            redis_url,
            is_quiet=False,
            complaints=complaints,
            **monitor,
        ) as (
            port,
            _,
        ),
        ExitStack() as stack,
    ):
        callers = [stack.enter_context(Caller(port)) for _ in range(16)]
        login = b'{"email": "nobody@example.com", "password": "not the password"}'
        keys = f"x-api-key: {key.apikey}\r\nx-api-secret: {key.apisecret}\r\n".encode()
        for number, caller in enumerate(callers):
            path, body = (b"/api/clients/login", login) if number % 2 else (b"/api/ussd/menus/shop/check", b"{}")
            head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + keys
            caller.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        calls_are_answered(port)
        statuses = [caller.answer()[0] for caller in callers]
        assert statuses[0::2] == [200] * 8
        assert set(statuses[1::2]) <= {401, 429}
    blocked = blocked_stacks(complaints[0])
    assert not [stack for stack in blocked if b"argon2" in stack]
    # A busy machine takes the processor away anywhere; what blocks does so at one place, for each of eight requests.
    places = Counter(stack.rpartition(b'  File "')[2] for stack in blocked if b"check_menu" not in stack)
    assert max(places.values(), default=0) < 8, places


def blocked_stacks(complaints: bytes) -> list[bytes]:
    """Where the hub was blocked. After its first report, the monitor takes its own sleep for a blocked hub too."""
    reports = complaints.split(b"Blocked Stack")[1:]
    stacks = [report.partition(b"\nInfo:")[0] for report in reports]
    return [stack for stack in stacks if b"gevent/_monitor.py" not in stack]


def large_document() -> dict[str, Any]:
    """A menu near the largest that may be published."""
    text = {"en": "Choose what you want to do next", "lg": "Londa ky'oyagala"}
    nodes = {
        f"node{number}": {"type": "text", "text": text, "goto": f"node{number + 1}" if number < 299 else "bye"}
        for number in range(300)
    }
    return shop_document(nodes=nodes)
