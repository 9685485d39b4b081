"""What nginx answers by itself with the site in `deploy/`, and which machine it asks."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from testbed.ports import free_port
from tests.support.eventually import eventually
from tests.support.real_service.edge import HOST, SITE, Edge, assert_guarded, assert_refused, assert_refused_to_people

pytestmark = pytest.mark.needs_nginx

EXACT = sorted(set(re.findall(r"^ *location = (\S+)", SITE, re.MULTILINE)))
STEP_SECONDS = 3
HANGING = "/ussd/json/hanging"
ADDRESSES = itertools.count()


class Machine(BaseHTTPRequestHandler):
    """Stands in for the web processes of a machine: answers everything with 200, steps of one path never."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    is_over = threading.Event()
    seen: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        """Serve every method in the same way."""
        if name.startswith("do_"):
            return self.serve
        raise AttributeError(name)

    def serve(self) -> None:
        """Answer one request."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == HANGING:
            self.is_over.wait()
        self.send_response(200)
        given = {"X-Request-Id": "machine", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        for name, value in given.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """A machine that many connect to."""

    request_queue_size = 128
    daemon_threads = True


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """nginx before two machines, with a shorter time for steps."""
    servers = [Server(("127.0.0.1", 0), Machine) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    assert SITE.count("proxy_read_timeout 9500ms") == 1
    site = SITE.replace("proxy_read_timeout 9500ms", f"proxy_read_timeout {STEP_SECONDS}s")
    edge = Edge(tmp_path_factory.mktemp("edge"), [server.server_port for server in servers], site)
    process = edge.start()
    eventually(lambda: is_open(edge))
    yield edge
    Machine.is_over.set()
    process.terminate()
    process.wait(60)
    for server in servers:
        server.shutdown()
        server.server_close()


def is_open(edge: Edge) -> bool:
    """Whether nginx takes connections by now."""
    try:
        edge.connect().close()
    except OSError:
        return False
    return True


def raw(edge: Edge, request: bytes) -> tuple[int, dict[str, str], Any]:
    """Send bytes as they are; give the answer as `Edge.call` does."""
    with edge.connect() as connection:
        connection.sendall(request)
        return read_answer(connection, request.split()[0].decode())


def read_answer(connection: socket.socket, method: str = "GET") -> tuple[int, dict[str, str], Any]:
    """Read one answer; give it as `Edge.call` does."""
    answer = http.client.HTTPResponse(connection, method=method)
    answer.begin()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    body = answer.read()
    return answer.status, headers, json.loads(body) if body else body


def line(target: str, method: str = "GET", headers: str = "", version: str = "1.1", address: str = "") -> bytes:
    """A request without a body, with an unchanged target, from `address` or from a fresh one."""
    address = address or f"10.1.{next(ADDRESSES) // 256}.{next(ADDRESSES) % 256}"
    head = f"Host: {HOST}\r\nConnection: close\r\nX-Test-Address: {address}\r\n{headers}"
    return f"{method} {target} HTTP/{version}\r\n{head}\r\n".encode()


def statuses_of(edge: Edge, requests: Sequence[bytes]) -> list[int]:
    """Send requests at once on one connection, few enough for its buffers; return their statuses in order."""
    *others, last = requests
    sent = b"".join(request.replace(b"Connection: close\r\n", b"") for request in others) + last
    with edge.connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(sent)
        return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3})", answers.read())]


def test_there_are_exact_locations_to_be_guarded() -> None:
    assert {"/metrics", "/api/clients/login"} <= set(EXACT)


@pytest.mark.parametrize("path", EXACT)
def test_two_slashes_pass_no_rule_of_an_exact_path(edge: Edge, path: str) -> None:
    for slashes, origin in itertools.product(("//", "///", "/%2f", "/%2F"), ("", f"https://{HOST}")):
        target = f"{origin}{slashes}{path[1:]}"
        for method in ("GET", "POST", "OPTIONS", "BREW"):
            assert_refused(raw(edge, line(target, method)), 404, "NOT_FOUND")
        status, _, body = raw(edge, line(target, "HEAD"))
        assert (status, body) == (404, b"")


def test_a_path_of_any_other_form_meets_the_rule_of_its_exact_path(edge: Edge) -> None:
    for target in ("/metrics", "/%6detrics", "/metrics?x=/", "/x/../metrics", "/./metrics", "/metrics#x",
                   f"https://{HOST}/metrics", "http://other.example/%6Detrics"):  # fmt: skip
        assert_refused(raw(edge, line(target)), 404, "NOT_FOUND")


def test_slashes_further_inside_are_left_to_the_service(edge: Edge) -> None:
    for target in ("/api//balance", "/api/balance//", "/api/%2fbalance", "/metrics/", "/metrics//"):
        assert raw(edge, line(target))[0] == 200


@pytest.mark.parametrize("path", [*(path for path in EXACT if path.startswith("/.")), "/.screen/at"])
def test_a_path_that_nginx_keeps_for_itself_is_unknown_to_callers(edge: Edge, path: str) -> None:
    assert_refused(raw(edge, line(path)), 404, "NOT_FOUND")
    assert_refused(edge.call("POST", path, b"x" * 70_000), 413, "REQUEST_TOO_LARGE")


def test_whatever_nginx_cannot_read_is_answered_in_json(edge: Edge) -> None:
    targets = ("metrics", "%2fmetrics", "/%00", "/%zz", "/../..")
    headers = (
        "Transfer-Encoding: zip",
        "Content-Length: x",
        "Host: other.example",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
    )
    requests = [line(target) for target in targets] + [line("/", headers=f"{header}\r\n") for header in headers]
    requests += [line("/", version=version) for version in ("2.0", "3.1")]
    requests += [line("*", "OPTIONS"), line(f"{HOST}:443", "CONNECT")]
    for request in requests:
        assert_refused(raw(edge, request), 400, "INVALID_REQUEST")


def test_conditions_of_a_caller_change_no_refusal(edge: Edge) -> None:
    for condition in ("If-Match: x", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT", "Range: bytes=0-1"):
        assert_refused(raw(edge, line("/metrics", headers=f"{condition}\r\n")), 404, "NOT_FOUND")


@pytest.mark.parametrize(("target", "status"), [("/metrics", 404), ("//balance", 404), (HANGING, 200)])
def test_what_nginx_answers_by_itself_ends_the_connection(edge: Edge, target: str, status: int) -> None:
    # Otherwise nginx answers a thousand requests sent behind each other before it reads another connection.
    assert statuses_of(edge, [line(target)] * 50) == [status]


def test_the_answer_of_a_machine_keeps_the_connection(edge: Edge) -> None:
    assert statuses_of(edge, [line("/api/balance")] * 50) == [200] * 50


def test_requests_sent_behind_each_other_over_plain_http_get_one_answer(edge: Edge) -> None:
    request = line("/").replace(b"Connection: close\r\n", b"")
    with socket.create_connection(("127.0.0.1", edge.http_port), timeout=60) as connection:
        connection.sendall(request * 50)
        assert connection.makefile("rb").read().count(b"HTTP/1.1 400") == 1


def test_plain_http_is_refused_in_json_whatever_is_asked(edge: Edge) -> None:
    for request in (
        line("/"),
        line("/", "TRACE"),
        line("/.refusal"),
        line("/" + "x" * 9000),
        line("/", version="3.1"),
        line("//metrics"),
        line("/.well-known/acme-challenge/x"),
    ):
        with socket.create_connection(("127.0.0.1", edge.http_port), timeout=60) as connection:
            connection.sendall(request)
            assert_refused(read_answer(connection), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "path", ["/api/clients/login", "/api/clients%2flogin", "/api/%63lients/login", "/x/../api/clients/login"]
)
def test_a_login_is_counted_and_refused_in_its_envelope_however_its_path_is_written(edge: Edge, path: str) -> None:
    request = line(path, "POST")
    # One login is let through every half second, and it may be the last one.
    for _ in range(10):
        assert set(statuses_of(edge, [request] * 60)) == {200, 429}
        refused = raw(edge, request)
        if refused[0] != 200:
            break
    assert_refused_to_people(refused, 429)
    assert refused[1]["retry-after"] == "1"


@pytest.mark.parametrize("path", ["/api/clients/token/refresh", "/api/clients/token%2frefresh"])
def test_a_hundred_refreshes_of_an_address_pass_and_a_flood_takes_no_login_from_it(edge: Edge, path: str) -> None:
    number = next(ADDRESSES)
    address = f"10.2.{number // 256}.{number % 256}"
    request = line(path, "POST", address=address)
    assert statuses_of(edge, [request] * 100) == [200] * 100
    assert 429 in statuses_of(edge, [request] * 100)
    # One is let through every tenth of a second, and it may be this one.
    refused = next(answer for answer in (raw(edge, request) for _ in range(10)) if answer[0] != 200)
    assert_refused_to_people(refused, 429)
    assert statuses_of(edge, [line("/api/clients/login", "POST", address=address)] * 20) == [200] * 20


def test_what_nginx_refuses_is_counted_too(tmp_path: Path) -> None:
    # A refusal ends its connection, so few calls must be enough. No machine is behind it.
    site = SITE.replace("rate=100r/s", "rate=1r/m").replace(
        "zone=ussd_addresses burst=200", "zone=ussd_addresses burst=5"
    )
    strict = Edge(tmp_path, [free_port()], site)
    process = strict.start()
    try:
        eventually(lambda: is_open(strict))
        for target, method, status in (
            ("/metrics", "GET", 404),
            ("//metrics", "GET", 404),
            ("/api/balance", "TRACE", 503),
            ("/api/balance", "CONNECT", 503),
        ):
            request = line(target, method)
            assert [raw(strict, request)[0] for _ in range(10)] == [status] * 6 + [429] * 4
    finally:
        process.terminate()
        process.wait(60)


def test_the_addresses_of_one_ipv6_network_are_counted_together(edge: Edge) -> None:
    def logins(address: str) -> list[int]:
        calls = [line("/api/clients/login", "POST", address=address.format(number)) for number in range(1, 61)]
        return statuses_of(edge, calls)

    assert 429 in logins("2001:db8:0:1::{:x}")
    assert 429 in logins("2001:db8:0:1:{:x}::1")
    for many in ("2001:db8:1:{:x}::1", "::ffff:192.0.2.{}", "192.0.3.{}"):
        assert logins(many) == [200] * 60


def test_steps_that_hang_make_no_machine_look_ill(edge: Edge) -> None:
    with ThreadPoolExecutor(8) as pool:
        screens = list(pool.map(lambda _: edge.call("POST", HANGING), range(8)))
        assert {(status, screen["action"]) for status, _, screen in screens} == {(200, "end")}
        steps = list(pool.map(lambda _: edge.call("POST", "/ussd/json/quick")[1]["x-request-id"], range(20)))
        calls = list(pool.map(lambda _: edge.call("GET", "/api/balance")[0], range(20)))
    assert (steps, calls) == (["machine"] * 20, [200] * 20)
    for _, headers, _ in screens:
        assert_guarded(headers)


STATEMENTS = "/console/operator/reconciliation/new"


def unfinished(path: str, address: str = "") -> bytes:
    """A request whose body of 90 MB does not come."""
    return line(path, "POST", "Content-Length: 90000000\r\n", address=address)


def test_a_statement_is_taken_from_operators_networks_only(edge: Edge) -> None:
    for outside in ("197.239.1.1", "2c0f:f248::1"):
        assert_refused(raw(edge, unfinished(STATEMENTS, outside)), 413, "REQUEST_TOO_LARGE")
        small = line(STATEMENTS, "POST", "Content-Length: 2\r\n", address=outside) + b"{}"
        assert_refused(raw(edge, small), 404, "NOT_FOUND")


def test_two_statements_are_taken_at_a_time(edge: Edge) -> None:
    with edge.connect() as first, edge.connect() as second:
        for connection in (first, second):
            connection.sendall(unfinished(STATEMENTS) + b"x" * 100_000)
        one_more = line(STATEMENTS, "POST", "Content-Length: 2\r\n") + b"{}"
        eventually(lambda: raw(edge, one_more)[0] == 429)
        assert_refused(raw(edge, one_more), 429, "RATE_LIMIT_EXCEEDED")
        assert raw(edge, line("/api/balance"))[0] == 200


def test_ten_payouts_are_taken_at_a_time_from_one_network(edge: Edge) -> None:
    with ExitStack() as open_ones:

        def is_refused_beside_ten() -> bool:
            # Each time anew, because nginx waits ten seconds for a body.
            open_ones.close()
            for _ in range(10):
                connection = open_ones.enter_context(edge.connect())
                request = line("/api/payouts", "POST", "Content-Length: 1900000\r\n", address="197.239.1.2")
                connection.sendall(request + b"x" * 100_000)
            one_more = line("/api/payouts", "POST", "Content-Length: 2\r\n", address="197.239.1.2") + b"{}"
            return raw(edge, one_more)[0] == 429

        eventually(is_refused_beside_ten)
        assert raw(edge, line("/api/payouts", "POST", "Content-Length: 2\r\n", address="197.239.1.3") + b"{}")[0] == 200
