"""The service as an operator installs it from the files in `deploy/`: nginx, gunicorn, worker, PostgreSQL and Redis."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import resource
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from testbed.ports import free_port
from testbed.postgres import create_database, drop_database
from tests.support.eventually import eventually
from tests.support.real_service.deployment import Installed, install
from tests.support.real_service.edge import HOST, assert_refused, assert_refused_to_people
from tests.support.real_service.slow_senders import slow_senders
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, GatewayScreen

SCREEN_OF_NGINX = (
    "Sorry, the service does not answer now. If you were paying, wait for a message about it before you try again."
)

OPERATIONS = Path(__file__).parents[2] / "docs" / "OPERATIONS.md"

pytestmark = pytest.mark.needs_nginx

CONNECTIONS, SLOW_SENDERS, CALLS = 1000, 40, 40
# Processor time of a process while a caller waits for its answer.
MOST_SECONDS = 0.050


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Installed]:
    """One installation, shared by the tests of this file."""
    database_url = create_database(postgres_url)
    folder = tmp_path_factory.mktemp("deployment")
    with install(folder, database_url, USSD_ALLOW_PRIVATE_ADDRESSES="1") as installed:
        yield installed
    drop_database(postgres_url, database_url)


def test_a_person_lists_keys_on_both_names_over_tls(installed: Installed) -> None:
    for host in (HOST, f"www.{HOST}"):
        _, _, body = installed.call("POST", "/api/clients/login", installed.login, host=host)
        token = {"Authorization": f"Bearer {body['data']['access_token']}"}
        status, headers, keys = installed.call("GET", "/api/clients/api-keys", headers=token, host=host)
        assert (status, len(keys["data"])) == (200, 1)
        assert headers["strict-transport-security"] == "max-age=31536000"


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_one_request_id_leads_from_the_request_to_the_provider_and_the_clients_webhook(installed: Installed) -> None:
    request = {"type": "collection", "phone_number": "+256770000000", "amount": 100, "reference": "followed"}
    request["callback_url"] = f"http://127.0.0.1:{free_port()}/"
    made = installed.call(
        "POST", "/api/transactions", request, {"X-Request-Id": "followed-1", "traceparent": TRACE, **installed.key}
    )
    transaction_id, at_provider = (made[2]["data"][name] for name in ("transaction_id", "provider_reference"))

    def followed() -> list[dict[str, Any]]:
        return [line for line in installed.deployment.lines() if line.get("request_id") == "followed-1"]

    eventually(
        lambda: {"call", "a provider was called", "a webhook was called"} <= {line["event"] for line in followed()}
    )
    assert {line["trace_id"] for line in followed()} == {TRACE[3:35]}
    beyond = [line for line in followed() if line["event"] != "call"]
    assert {line["transaction_id"] for line in beyond} == {transaction_id}
    (asked,) = [line for line in beyond if line["event"] == "a provider was called"]
    assert (asked["provider"], asked["kind"], asked["outcome"]) == ("sandbox", "ask", "succeeded")
    assert asked["provider_reference"] == at_provider


@pytest.mark.parametrize("path", ["/api", "/api/clients", "/ussd", "/callbacks", "/data", "/data//collection"])
@pytest.mark.parametrize("host", [HOST, f"www.{HOST}"])
def test_nothing_redirects(installed: Installed, host: str, path: str) -> None:
    assert_refused(installed.call("GET", path, host=host), 404, "NOT_FOUND")


def test_a_body_that_is_too_large_is_refused_in_the_envelope_of_its_path(installed: Installed) -> None:
    large = b"x" * (64 * 1024 + 1)
    assert_refused(installed.call("POST", "/api/transactions", large), 413, "REQUEST_TOO_LARGE")
    assert_refused_to_people(installed.call("POST", "/api/clients/login", large), 413)
    assert_refused(installed.call("POST", "/api/transactions", b"x" * 64 * 1024), 401, "INVALID_CREDENTIALS")


def test_a_body_in_chunks_is_measured_too(installed: Installed) -> None:
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    head = f"POST /api/transactions HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with installed.deployment.connect() as connection, connection.makefile("rb") as answer:
        connection.sendall(head + chunk * 17 + b"0\r\n\r\n")
        assert b" 413 " in answer.readline()


def test_headers_and_request_lines_have_limits(installed: Installed) -> None:
    assert_refused(installed.call("GET", "/" + "x" * 9000), 413, "REQUEST_TOO_LARGE")
    assert_refused(installed.call("GET", "/", headers={"X-Long": "x" * 9000}), 413, "REQUEST_TOO_LARGE")
    many = {f"X-{number}": "x" for number in range(80)}
    assert_refused(installed.call("GET", "/", headers=many), 413, "REQUEST_TOO_LARGE")


def test_what_is_not_http_and_methods_that_nginx_refuses_are_answered_in_json(installed: Installed) -> None:
    with installed.deployment.connect() as connection, connection.makefile("rb") as answer:
        connection.sendall(b"GET / HP/1\r\n\r\n")
        head, _, body = answer.read().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["error"] == "INVALID_REQUEST"
    for method in ("TRACE", "BREW"):
        answer = installed.call(method, "/api/balance")
        assert_refused(answer, 405, "METHOD_NOT_ALLOWED")
        assert "GET" in answer[1]["allow"]


def test_plain_http_is_refused_and_not_redirected(installed: Installed) -> None:
    edge = installed.deployment.edge
    for port in (edge.http_port, edge.https_port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/balance", headers={"Host": HOST})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        assert_refused((answer.status, headers, json.loads(answer.read())), 400, "INVALID_REQUEST")
        connection.close()


def test_a_caller_keeps_its_request_id_whether_nginx_or_the_service_answers(installed: Installed) -> None:
    for path in ("/health/live", "/metrics"):
        assert installed.call("GET", path, headers={"X-Request-Id": "mine-1"})[1]["x-request-id"] == "mine-1"
        assert installed.call("GET", path, headers={"X-Request-Id": "not mine"})[1]["x-request-id"] != "not mine"


def test_the_service_sees_the_real_address_whatever_a_caller_says(installed: Installed) -> None:
    said = {"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    login = installed.call("POST", "/api/clients/login", installed.login, said)[2]["data"]
    token = {"Authorization": f"Bearer {login['access_token']}"}
    events = installed.call("GET", "/api/clients/audit-events", headers=token)[2]["data"]["items"]
    assert {event["address"] for event in events if event["action"] == "login.succeeded"} == {"127.0.0.1"}


def test_what_the_web_process_cannot_read_is_refused_in_the_general_envelope(installed: Installed) -> None:
    (port,) = installed.deployment.web_ports
    for request in (b"GET / HTTP/1.1\r\nX Y: z", b"GET / HTTP/1.1\r\nX: " + b"x" * 9000):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(request + b"\r\n\r\n")
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            error = {400: "INVALID_REQUEST", 413: "REQUEST_TOO_LARGE"}[answer.status]
            assert_refused((answer.status, headers, json.loads(answer.read())), answer.status, error)


def test_no_header_changes_the_path_or_the_scheme(installed: Installed) -> None:
    (port,) = installed.deployment.web_ports
    for headers in (
        {"SCRIPT_NAME": "/health"},
        {"SCRIPT_NAME": "/x"},
        {"PATH_INFO": "/metrics"},
        {"X-Forwarded-Proto": "https", "X-Forwarded-Ssl": "off"},
    ):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health/live", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["message"]) == (200, "Alive")
        connection.close()


def test_an_upgrade_in_the_order_of_its_chapter_refuses_no_caller(installed: Installed) -> None:
    deployment = installed.deployment

    def reload_web() -> None:
        before = _workers(deployment.web_pids[0])
        os.kill(deployment.web_pids[0], signal.SIGHUP)
        eventually(lambda: len(after := _workers(deployment.web_pids[0])) == 2 and not after & before)

    steps: dict[str, Callable[[], object]] = {
        "ussd migrate": lambda: deployment.command("migrate"),
        "ussd doctor": lambda: deployment.ask("doctor"),
        "systemctl reload ussd-server-web": reload_web,
        "systemctl restart ussd-server-worker": deployment.restart_worker,
        "systemctl restart ussd-server-web": deployment.restart_web,
    }
    chapter = OPERATIONS.read_text().partition("\n## Upgrade\n")[2].partition("\n## ")[0]
    order = re.findall(r"ussd migrate|ussd doctor|systemctl \w+ ussd-server-\w+", chapter.partition("\nWhen ")[0])
    assert len(order) == 4
    screens: Counter[bytes] = Counter()
    stop = threading.Event()

    def dial_again_and_again(caller: int) -> None:
        for call in itertools.count():
            if stop.is_set():
                return
            screens[installed.dial(f"{caller}-{call}")[2][:22]] += 1

    log = installed.deployment.folder / "nginx" / "ussd-server.log"
    lines_before = len(log.read_text().splitlines())
    callers = [threading.Thread(target=dial_again_and_again, args=(number,)) for number in range(3)]
    for caller in callers:
        caller.start()
    # The last is for what a reload does not change; with the socket's unit, calls wait for it.
    for command in (*order, "systemctl restart ussd-server-web"):
        steps[command]()
    stop.set()
    for caller in callers:
        caller.join()
    assert screens[b"CON Welcome to ACME\n1."]
    # On a busy machine a step may take longer than nginx waits (504), but none is refused.
    seen = [json.loads(line)["service_status"] for line in log.read_text().splitlines()[lines_before:]]
    assert {status.rpartition(" ")[2] for status in seen} <= {"200", "504"}


def test_a_caller_does_not_notice_forty_slow_senders_and_a_thousand_connections(installed: Installed) -> None:
    deployment = installed.deployment
    key = deployment.command("keys", "create", "--client", "acme")
    headers = {"x-api-key": key["apikey"], "x-api-secret": key["apisecret"]}
    took = []
    with files_at_most(4 * CONNECTIONS), ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", deployment.edge.https_port)))
            # The first byte of TLS: nginx gives up a silent connection when it needs a place.
            connection.sendall(b"\x16")
        stack.enter_context(slow_senders(deployment.edge, SLOW_SENDERS))
        processes = [child for pid in deployment.server_pids for child in psutil.Process(pid).children()]
        for _ in range(CALLS):
            before = [seconds_of(process) for process in processes]
            assert installed.call("GET", "/api/balance", headers=headers)[0] == 200
            took.append(max(seconds_of(process) - since for process, since in zip(processes, before, strict=True)))
    assert len(processes) == 4, "two web processes and two of nginx"
    noticed = [seconds for seconds in took if seconds > MOST_SECONDS]
    assert len(noticed) <= CALLS * 5 // 100, took


def seconds_of(process: psutil.Process) -> float:
    """The processor time of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def files_at_most(number: int) -> Iterator[None]:
    """Let this process open so many files, in a block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_phone_is_not_kept_waiting_by_a_service_that_hangs(installed: Installed) -> None:
    hanging = [int(pid) for pid in _workers(installed.deployment.web_pids[0])]
    for pid in hanging:
        os.kill(pid, signal.SIGSTOP)
    try:
        status, _, screen = installed.dial("hanging")
    finally:
        for pid in hanging:
            os.kill(pid, signal.SIGCONT)
    assert (status, screen) == (200, f"END {SCREEN_OF_NGINX}".encode())


@pytest.fixture
def web_is_down(installed: Installed) -> Iterator[None]:
    """No web process runs before the test ends."""
    installed.deployment.stop_web()
    yield
    installed.deployment.restart_web()


def test_while_the_service_is_down_clients_may_retry_and_phones_get_a_last_screen_of_their_gateway(
    installed: Installed, web_is_down: None
) -> None:
    for path in ("/api/balance", "/api/clients/api-keys"):
        answer = installed.call("GET", path)
        if path.startswith("/api/clients/"):
            assert_refused_to_people(answer, 503)
        else:
            assert_refused(answer, 503, "SERVICE_UNAVAILABLE")
        assert answer[1]["retry-after"] == "2"
    # The report was not processed, so the gateway may send it again.
    assert_refused(installed.call("POST", f"{installed.gateway_path}/events"), 503, "SERVICE_UNAVAILABLE")
    secret = installed.gateway_path.rpartition("/")[2]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    requests = (("GET", "?input=1", None), ("POST", "", b"text=1"), ("POST", "", b"x" * 64 * 1025))
    # SMPP reaches its own process, and not nginx.
    for adapter, (method, path, body) in itertools.product(ADAPTERS.keys() - {"smpp"}, requests):
        status, headers, screen = installed.call(method, f"/ussd/{adapter}/{secret}{path}", body, form)
        expected = ADAPTERS[adapter].write(GatewayScreen(Action.END, SCREEN_OF_NGINX), None)
        assert (status, headers["content-type"]) == (200, expected.content_type), adapter
        is_json = expected.content_type == "application/json"
        assert screen == (json.loads(expected.body) if is_json else expected.body), adapter
        assert expected.headers.items() <= {name: headers.get(name.lower()) for name in expected.headers}.items()
        assert headers["x-request-id"]


def _workers(master: int) -> set[str]:
    return set((Path("/proc") / str(master) / "task" / str(master) / "children").read_text().split())
