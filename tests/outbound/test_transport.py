"""The transport keeps its deadline and its size caps, and says truthfully how far a request came."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import httpcore2
import pytest
from httpcore2._backends.sync import SyncStream

from testbed.ports import free_port
from tests.outbound.certificates import certified
from tests.outbound.strange_server import Manner, StrangeServer, Visit, answer, polite
from ussd_server.logs import now_about
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.outbound.transport import HttpExchange, SendState, Transport, TransportFailure

SHORT_SECONDS = 0.4
# Enough for a slow machine to connect and to send.
REACHING_SECONDS = 4.0
LONG_SECONDS = 20.0


@pytest.fixture
def transport() -> Iterator[Transport]:
    opened = Transport()
    yield opened
    opened.close()


def meet(
    transport: Transport, manner: Manner, timeout_seconds: float = LONG_SECONDS, body: bytes = b""
) -> HttpExchange:
    with StrangeServer(manner) as server:
        return transport.exchange("POST", server.url + "/pay", timeout_seconds=timeout_seconds, body=body)


# What is known afterwards


def test_a_complete_answer_is_given_with_status_headers_and_body(transport: Transport) -> None:
    got = meet(transport, polite(answer("202 Accepted", b"taken", "X-Trace: 7\r\n")))
    assert (got.reach, got.status, got.body, got.complete, got.trouble) == (
        SendState.ANSWERED,
        202,
        b"taken",
        True,
        None,
    )
    assert got.headers["x-trace"] == "7"


def test_the_trace_of_the_work_goes_with_every_request(transport: Transport) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with StrangeServer(polite(answer())) as server:
        now_about(traceparent=trace)
        transport.exchange("POST", server.url, timeout_seconds=LONG_SECONDS)
        now_about()
        assert f"\r\ntraceparent: {trace}\r\n".encode() in server.visits[0].requests[0]


def test_the_request_arrives_as_it_was_given(transport: Transport) -> None:
    with StrangeServer(polite(answer())) as server:
        transport.exchange(
            "PUT", server.url + "/a/b?c=d%20e", timeout_seconds=LONG_SECONDS, headers={"X-Key": "k"}, body=b"{}"
        )
        request = server.visits[0].requests[0]
    head, body = request.split(b"\r\n\r\n")
    assert head.startswith(b"PUT /a/b?c=d%20e HTTP/1.1\r\n")
    assert b"\r\nHost: 127.0.0.1:%d\r\n" % server.port in head
    assert b"\r\nX-Key: k" in head
    assert body == b"{}"


def test_a_closed_port_means_not_sent(transport: Transport) -> None:
    got = transport.exchange("POST", f"http://127.0.0.1:{free_port()}/", timeout_seconds=LONG_SECONDS)
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.NO_CONNECTION)


def test_a_request_that_stalled_after_its_first_bytes_may_have_arrived(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stall(stream: SyncStream, buffer: bytes, timeout: float | None = None) -> None:
        stream.get_extra_info("socket").sendall(buffer[:10])
        raise httpcore2.WriteTimeout

    monkeypatch.setattr(SyncStream, "write", stall)
    got = meet(transport, polite(answer()))
    assert (got.reach, got.trouble) == (SendState.LOST, TransportFailure.TIMEOUT)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/", "http://[::1/", "ftp://127.0.0.1/", "http:///"])
def test_an_address_that_is_no_url_means_not_sent(transport: Transport, url: str) -> None:
    got = transport.exchange("POST", url, timeout_seconds=SHORT_SECONDS)
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.ADDRESS_REFUSED)


def test_an_unknown_name_means_not_sent() -> None:
    got = Transport(resolve=lambda host, port: []).exchange(
        "GET", "http://nowhere.example/", timeout_seconds=LONG_SECONDS
    )
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.NAME_NOT_FOUND)


def test_a_resolver_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    def hang(host: str, port: int) -> list[str]:
        release.wait(60)
        return ["127.0.0.1"]

    got = Transport(resolve=hang).exchange("GET", "http://slow.example/", timeout_seconds=SHORT_SECONDS)
    release.set()
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.NAME_NOT_FOUND)


def test_a_handshake_that_hangs_means_not_sent(transport: Transport) -> None:
    with StrangeServer(Visit.fall_silent) as server:
        got = transport.exchange("POST", f"https://127.0.0.1:{server.port}/", timeout_seconds=SHORT_SECONDS, body=b"x")
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.TIMEOUT)


def test_a_full_pool_means_not_sent() -> None:
    transport = Transport(max_connections=1)
    arrived, release = threading.Event(), threading.Event()

    def hold(visit: Visit) -> None:
        visit.read_request()
        arrived.set()
        release.wait(60)

    with StrangeServer(hold) as server, ThreadPoolExecutor(1) as aside:
        first = aside.submit(transport.exchange, "GET", server.url, timeout_seconds=LONG_SECONDS)
        assert arrived.wait(60)
        second = transport.exchange("GET", server.url, timeout_seconds=SHORT_SECONDS)
        assert (second.reach, second.trouble) == (SendState.NOT_SENT, TransportFailure.TIMEOUT)
        release.set()
        assert first.result().reach is SendState.LOST


def hang_up(visit: Visit) -> None:
    visit.read_request()


def stay_silent(visit: Visit) -> None:
    visit.read_request()
    visit.fall_silent()


def say_and_then(first: bytes, piece: bytes, pause_seconds: float = 0.0) -> Manner:
    def manner(visit: Visit) -> None:
        visit.read_request()
        visit.say(first)
        visit.say_for_ever(piece, pause_seconds)

    return manner


def say_once(text: bytes) -> Manner:
    def manner(visit: Visit) -> None:
        visit.read_request()
        visit.say(text)

    return manner


ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

STRANGE = [
    ("hangs up", hang_up, SendState.LOST, TransportFailure.BROKEN),
    ("has an endless header", say_and_then(b"HTTP/1.1 200 OK\r\n", b"A: bbbbbbbb\r\n" * 500), SendState.LOST,
         TransportFailure.TOO_LARGE),
    ("has one endless header line", say_and_then(b"HTTP/1.1 200 OK\r\nA: ", b"b" * 5000), SendState.LOST,
         TransportFailure.TOO_LARGE),
    ("only ever continues", say_and_then(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 200), SendState.LOST,
         TransportFailure.TOO_LARGE),
    ("speaks garbage", say_once(b"\x00\xff\xfe garbage\r\n\r\n"), SendState.LOST, TransportFailure.BROKEN),
    ("speaks another protocol", say_once(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), SendState.LOST, TransportFailure.BROKEN),
    ("has a bad status", say_once(b"HTTP/1.1 abc OK\r\n\r\n"), SendState.LOST, TransportFailure.BROKEN),
    ("has a bad length", say_once(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), SendState.LOST,
         TransportFailure.BROKEN),
    ("has an endless body", say_and_then(ENDLESS, b"1000\r\n" + b"x" * 4096 + b"\r\n"), SendState.ANSWERED,
         TransportFailure.TOO_LARGE),
    ("has endless chunk names", say_and_then(ENDLESS, b"1;" + b"n" * 9000 + b"\r\nx\r\n"), SendState.ANSWERED,
         TransportFailure.TOO_LARGE),
    ("drips its head", say_and_then(b"HTTP/1.1 200 OK\r\nA: ", b"b", 0.001), SendState.LOST,
         TransportFailure.TOO_LARGE),
    ("drips the name of a chunk", say_and_then(ENDLESS + b"1;", b"n", 0.001), SendState.ANSWERED,
         TransportFailure.TOO_LARGE),
    ("drips a trailer", say_and_then(ENDLESS + b"0\r\nA: ", b"b", 0.001), SendState.ANSWERED,
         TransportFailure.TOO_LARGE),
    ("cuts its body", say_once(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), SendState.ANSWERED,
         TransportFailure.BROKEN),
    ("has a bad chunk", say_once(ENDLESS + b"zz\r\n"), SendState.ANSWERED, TransportFailure.BROKEN),
]  # fmt: skip


@pytest.mark.parametrize(("manner", "reach", "trouble"), [row[1:] for row in STRANGE], ids=[row[0] for row in STRANGE])
def test_a_strange_server_is_given_up(
    transport: Transport, manner: Manner, reach: SendState, trouble: TransportFailure
) -> None:
    got = meet(transport, manner, body=b"money")
    assert (got.reach, got.trouble, got.complete) == (reach, trouble, False)
    assert got.status == (200 if reach is SendState.ANSWERED else None)


def test_a_server_that_never_ends_costs_no_more_than_the_deadline(transport: Transport) -> None:
    manners = [
        (stay_silent, b"money", SendState.LOST),
        (say_and_then(b"HTTP/1.1 200 OK\r\n", b"A", 0.05), b"money", SendState.LOST),
        (say_and_then(ENDLESS, b"1\r\nx\r\n", 0.05), b"money", SendState.ANSWERED),
        # It does not even read.
        (Visit.fall_silent, b"x" * 50_000_000, SendState.LOST),
    ]
    with ThreadPoolExecutor(len(manners)) as pool:
        met = [pool.submit(meet, transport, manner, REACHING_SECONDS, body) for manner, body, _ in manners]
    found = [(each.result().reach, each.result().trouble, each.result().complete) for each in met]
    assert found == [(reach, TransportFailure.TIMEOUT, False) for *_, reach in manners]


def test_a_body_is_cut_at_the_cap(transport: Transport) -> None:
    with StrangeServer(polite(answer(body=b"x" * 5000))) as server:
        got = transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS, max_body_bytes=1024)
    assert (got.status, len(got.body), got.trouble) == (200, 1024, TransportFailure.TOO_LARGE)


def test_a_header_that_cannot_be_sent_means_not_sent(transport: Transport) -> None:
    with StrangeServer(polite(answer())) as server:
        got = transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS, headers={"X-A": "b\r\nX-C: d"})
    assert got.reach is SendState.NOT_SENT


# What it never does


def test_a_redirect_is_an_answer_and_is_not_followed(transport: Transport) -> None:
    with StrangeServer(polite(answer())) as elsewhere:
        got = meet(transport, polite(answer("302 Found", headers=f"Location: {elsewhere.url}/\r\n")))
        assert got.status == 302
        assert elsewhere.visits == []


def test_cookies_are_not_kept(transport: Transport) -> None:
    with StrangeServer(polite(answer(headers="Set-Cookie: a=b\r\n"))) as server:
        for _ in range(2):
            transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS)
        assert b"cookie" not in server.visits[-1].requests[-1].lower()


def test_a_packed_body_is_not_unpacked(transport: Transport) -> None:
    bomb = gzip.compress(b"0" * 1_000_000)
    got = meet(transport, polite(answer(body=bomb, headers="Content-Encoding: gzip\r\n")))
    assert got.body == bomb


def test_the_environment_does_not_choose_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with StrangeServer(polite(answer("502 Bad Gateway"))) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        with closing(Transport()) as transport:
            assert meet(transport, polite(answer())).status == 200
        assert proxy.visits == []


# Connections


def test_a_connection_to_a_provider_is_kept(transport: Transport) -> None:
    with StrangeServer(polite(answer(body=b"x"))) as server:
        for _ in range(3):
            assert transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS).complete
        assert len(server.visits) == 1


def test_a_connection_to_a_client_is_not_kept() -> None:
    transport = Transport(AddressGuard(allow_private=True))
    with StrangeServer(polite(answer(body=b"x"))) as server:
        for _ in range(3):
            assert transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS).complete
        assert len(server.visits) == 3


def test_a_kept_connection_that_was_closed_is_opened_again(transport: Transport) -> None:
    with StrangeServer(say_once(answer(body=b"x"))) as server:
        for _ in range(3):
            assert transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS).complete
            wait_until_closed(server.visits[-1])
        assert len(server.visits) == 3


def wait_until_closed(visit: Visit) -> None:
    give_up_at = time.monotonic() + 60
    while visit.connection.fileno() != -1:
        assert time.monotonic() < give_up_at
        time.sleep(0.001)


@pytest.mark.parametrize(
    "first",
    [
        answer(body=b"first"),
        answer("204 No Content"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\nA: b\r\n\r\n",
    ],
)
def test_what_follows_a_reply_is_never_the_reply_to_the_next_request(transport: Transport, first: bytes) -> None:
    def say_more(visit: Visit) -> None:
        while visit.read_request():
            visit.say(first + answer(body=b"another") if visit.number == 1 else answer(body=b"second"))

    with StrangeServer(say_more) as server:
        assert transport.exchange("POST", server.url, timeout_seconds=LONG_SECONDS).complete
        assert transport.exchange("POST", server.url, timeout_seconds=LONG_SECONDS).body == b"second"


def test_every_address_of_a_name_is_tried() -> None:
    transport = Transport(resolve=lambda host, port: ["127.0.0.2", "::1", "127.0.0.1"])
    with StrangeServer(polite(answer())) as server, closing(transport):
        got = transport.exchange("GET", f"http://pay.example:{server.port}/", timeout_seconds=LONG_SECONDS)
    assert got.status == 200


def test_many_threads_share_one_transport_each_with_its_own_deadline(transport: Transport) -> None:
    def manner(visit: Visit) -> None:
        while request := visit.read_request():
            if b"/silent" in request:
                visit.fall_silent()
            visit.say(answer(body=request.split(b" ")[1]))

    def call(number: int) -> bool:
        if number % 10 == 0:
            got = transport.exchange("GET", f"{server.url}/silent", timeout_seconds=SHORT_SECONDS)
            return got.trouble is TransportFailure.TIMEOUT
        path = f"/n{number}"
        return transport.exchange("GET", server.url + path, timeout_seconds=LONG_SECONDS).body == path.encode()

    with StrangeServer(manner) as server, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(80)))


def test_a_forked_child_opens_its_own_connections(transport: Transport) -> None:
    with StrangeServer(polite(answer(body=b"x"))) as server:
        assert transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS).complete
        child = os.fork()
        if child == 0:
            got = transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS)
            os._exit(0 if got.complete else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert transport.exchange("GET", server.url, timeout_seconds=LONG_SECONDS).complete
        assert len(server.visits) == 2


# Certificates


def test_the_checked_address_is_called_under_the_name_that_was_given(tmp_path: Path) -> None:
    certificate, trust = certified("hooks.example.com", tmp_path)
    transport = Transport(AddressGuard(allow_private=True), trust=trust, resolve=lambda host, port: ["127.0.0.1"])
    with StrangeServer(polite(answer()), certificate=certificate) as server:
        got = transport.exchange("GET", f"https://hooks.example.com:{server.port}/", timeout_seconds=LONG_SECONDS)
        assert got.status == 200
        assert server.server_names == ["hooks.example.com"]
        assert b"\r\nHost: hooks.example.com:%d\r\n" % server.port in server.visits[0].requests[0]


@pytest.mark.parametrize(
    ("host", "ended", "trouble"),
    [
        ("other.example.com", timedelta(), TransportFailure.CERTIFICATE_OF_ANOTHER),
        ("hooks.example.com", timedelta(days=2), TransportFailure.CERTIFICATE_EXPIRED),
        ("hooks.example.com", timedelta(days=-2), TransportFailure.CERTIFICATE_EXPIRED),
    ],
    ids=["another", "expired", "not yet valid"],
)
def test_a_certificate_that_is_not_good_for_the_call_means_not_sent(
    host: str, ended: timedelta, trouble: TransportFailure, tmp_path: Path
) -> None:
    certificate, trust = certified(host, tmp_path, ended=ended)
    transport = Transport(trust=trust, resolve=lambda host, port: ["127.0.0.1"])
    with StrangeServer(polite(answer()), certificate=certificate) as server:
        got = transport.exchange("GET", f"https://hooks.example.com:{server.port}/", timeout_seconds=LONG_SECONDS)
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, trouble)


def test_a_server_without_tls_is_named(transport: Transport) -> None:
    with StrangeServer(lambda visit: visit.say(answer("400 Bad Request"))) as server:
        got = transport.exchange("GET", f"https://localhost:{server.port}/", timeout_seconds=LONG_SECONDS)
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.NO_TLS)


def test_a_certificate_that_no_authority_signed_means_not_sent(tmp_path: Path, transport: Transport) -> None:
    certificate, _ = certified("localhost", tmp_path)
    with StrangeServer(polite(answer()), certificate=certificate) as server:
        got = transport.exchange("GET", f"https://localhost:{server.port}/", timeout_seconds=LONG_SECONDS)
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.CERTIFICATE_NOT_TRUSTED)
