"""No spelling of an address that a client chose leads into our own network (promise P11)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.outbound.strange_server import StrangeServer, answer, polite
from ussd_server.outbound.addresses import AddressGuard, AddressRefusedError
from ussd_server.outbound.transport import SendState, Transport, TransportFailure

TIMEOUT_SECONDS = 20.0

# {port} is where a canary listens on 127.0.0.1 and on ::1.
SPELLINGS = [
    # loopback, spelt plainly and otherwise
    "https://127.0.0.1:{port}/", "https://127.0.0.2:{port}/", "https://127.255.255.254:{port}/",
    "https://127.1:{port}/", "https://127.0.1:{port}/", "https://2130706433:{port}/", "https://017700000001:{port}/",
    "https://0x7f000001:{port}/", "https://0x7f.0.0.1:{port}/", "https://0x7f.1:{port}/", "https://0177.0.0.1:{port}/",
    "https://127.0.0.01:{port}/", "https://127.0.0.0x1:{port}/", "https://0127.0.0.1:{port}/",
    "https://127.0.0.1.:{port}/",
    "https://4294967295:{port}/", "https://134744072/", "https://0x08080808/", "https://8.8.2056/",
    "https://0x:{port}/",
    "https://localhost:{port}/", "https://LOCALHOST:{port}/", "https://localhost.:{port}/",
    "https://hooks.localhost:{port}/", "https://localhost.localdomain:{port}/", "https://ip6-localhost:{port}/",
    "https://[::1]:{port}/", "https://[0:0:0:0:0:0:0:1]:{port}/", "https://[0000::0001]:{port}/",
    "https://[::]:{port}/",
    "https://[::127.0.0.1]:{port}/", "https://[::ffff:127.0.0.1]:{port}/", "https://[::ffff:7f00:1]:{port}/",
    "https://[::ffff:0:127.0.0.1]:{port}/", "https://[64:ff9b::127.0.0.1]:{port}/", "https://[64:ff9b::7f00:1]:{port}/",
    "https://[64:ff9b:1::7f00:1]:{port}/", "https://[2002:7f00:1::]:{port}/", "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:7f00:1::]:{port}/", "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "https://[::1%25lo]:{port}/",
    "https://[::1%lo]:{port}/", "https://[fe80::1%25eth0]/", "https://[127.0.0.1]:{port}/", "https://[::1:{port}/",
    # this network, private, shared, link local, metadata
    "https://0.0.0.0:{port}/", "https://0:{port}/", "https://0.1.2.3/", "https://10.0.0.1/", "https://10.255.255.255/",
    "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/", "https://100.64.0.1/",
    "https://100.127.255.254/", "https://100.100.100.200/", "https://169.254.169.254/latest/meta-data/",
    "https://169.254.170.2/", "https://[::ffff:169.254.169.254]/", "https://[fd00:ec2::254]/", "https://168.63.129.16/",
    "https://192.0.0.192/", "https://metadata.google.internal/", "https://metadata/", "https://router.lan/",
    "https://printer.local/", "https://db.corp/", "https://nas.home.arpa/",
    # ranges without servers
    "https://192.0.2.1/", "https://198.51.100.1/", "https://203.0.113.9/", "https://198.18.0.1/",
    "https://192.88.99.1/",
    "https://224.0.0.1/", "https://239.255.255.250/", "https://240.0.0.1/", "https://255.255.255.255/",
    "https://[fc00::1]/", "https://[fd12:3456::1]/", "https://[fe80::1]/", "https://[fec0::1]/", "https://[ff02::1]/",
    "https://[2001:db8::1]/", "https://[3fff::1]/", "https://[100::1]/", "https://[5f00::1]/", "https://[4000::1]/",
    # other schemes, user names, odd ports
    "http://8.8.8.8/", "http://hooks.example.com/", "ftp://hooks.example.com/", "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_x",
    "//127.0.0.1:{port}/", "https:127.0.0.1:{port}", "https:/127.0.0.1:{port}/",
    "https:///127.0.0.1:{port}/", "hooks.example.com", "",
    "https://8.8.8.8@127.0.0.1:{port}/", "https://hooks.example.com:x@127.0.0.1:{port}/",
    "https://127.0.0.1:{port}@8.8.8.8/",
    "https://@127.0.0.1:{port}/", "https://8.8.8.8:22/", "https://8.8.8.8:25/", "https://8.8.8.8:53/",
    "https://8.8.8.8:80/",
    "https://8.8.8.8:0/", "https://8.8.8.8:65536/", "https://8.8.8.8:-1/", "https://8.8.8.8:4 43/",
    "https://8.8.8.8:٤٤٣/",
    # characters that parsers read differently
    "https://127.0.0.1:{port}\\@8.8.8.8/", "https://8.8.8.8\\.127.0.0.1:{port}/", "https://127.0.0.1:{port}#@8.8.8.8/",
    "https://hooks.example.com#.127.0.0.1/", "https://127。0。0。1:{port}/", "https://①②⑦.⓪.⓪.①:{port}/",
    "https://１２７.0.0.1:{port}/",
    "https://ⓛocalhost:{port}/", "https://loc\u00adalhost:{port}/", "https://127.0.0.1%2f.example.com:{port}/",
    "https://%31%32%37.0.0.1:{port}/", "https://127.0.0.1\t:{port}/", "\thttps://127.0.0.1:{port}/",
    "https://127.0.0.1:{port}/\r\nX-A: b",
    "https://127.0.0.1\x00.example.com:{port}/", "https://.127.0.0.1:{port}/", "https://-.example.com/",
    "https://a..example.com/",
    "https://" + "a" * 64 + ".example.com/", "https://" + "a." * 130 + "com/",
    "https://hooks.example.com/" + "a" * 2048,
]  # fmt: skip

# Addresses that a name may resolve to; each is also tried among good addresses.
MEANINGS = [
    "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.1.2.3", "172.20.0.1", "192.168.0.1", "100.64.0.1",
    "169.254.169.254",
    "fe80::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
    "64:ff9b::8.8.8.8", "64:ff9b:1::1",
    "2002:7f00:1::1", "2001::1", "2001:10::1", "2001:db8::1", "224.0.0.1", "ff02::1", "255.255.255.255",
    "168.63.129.16",
    "fd00:ec2::254", "198.18.0.1", "203.0.113.1",
]  # fmt: skip


class ConnectionWatch:
    """Counts every connection that this process so much as attempts while it is watching."""

    def __init__(self) -> None:
        self.watching = False
        self.attempts: list[object] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.watching and event == "socket.connect":
            self.attempts.append(arguments[1])

    @contextmanager
    def watch(self) -> Iterator[list[object]]:
        self.attempts = []
        self.watching = True
        try:
            yield self.attempts
        finally:
            self.watching = False


@pytest.fixture(scope="module")
def connections() -> ConnectionWatch:
    return ConnectionWatch()


@pytest.fixture(scope="module")
def canary() -> Iterator[StrangeServer]:
    with StrangeServer(polite(answer())) as listening:
        yield listening


def test_the_watch_and_the_canary_see_a_connection(connections: ConnectionWatch) -> None:
    with StrangeServer(polite(answer())) as bird, closing(Transport()) as transport, connections.watch() as attempts:
        transport.exchange("GET", bird.url, timeout_seconds=TIMEOUT_SECONDS)
        assert attempts == [("127.0.0.1", bird.port)]
        assert len(bird.visits) == 1


def test_the_table_of_tricks_is_long_enough() -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS) >= 60


@pytest.mark.parametrize("spelling", SPELLINGS, ids=ascii)
def test_no_spelling_ends_in_a_connection(connections: ConnectionWatch, canary: StrangeServer, spelling: str) -> None:
    # Every name of the table resolves to the canary, so that a spelling that passes the parser is still caught.
    transport = Transport(AddressGuard(), resolve=lambda host, port: ["127.0.0.1"])
    url = spelling.replace("{port}", str(canary.port))
    with connections.watch() as attempts:
        got = transport.exchange("POST", url, timeout_seconds=TIMEOUT_SECONDS, body=b"{}")
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.ADDRESS_REFUSED)
    assert attempts == []
    assert canary.visits == []


@pytest.mark.parametrize("spelling", SPELLINGS, ids=ascii)
def test_every_spelling_is_refused_before_any_name_is_resolved(spelling: str) -> None:
    with pytest.raises(AddressRefusedError):
        AddressGuard().check_url(spelling.replace("{port}", "4443"))


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("addresses_before", [[], ["8.8.8.8"], ["2606:4700::1111"]])
def test_no_meaning_of_a_good_name_ends_in_a_connection(
    connections: ConnectionWatch, canary: StrangeServer, meaning: str, addresses_before: list[str]
) -> None:
    transport = Transport(AddressGuard(), resolve=lambda host, port: [*addresses_before, meaning])
    with connections.watch() as attempts:
        got = transport.exchange("POST", f"https://hooks.example.com:{canary.port}/", timeout_seconds=TIMEOUT_SECONDS)
    assert (got.reach, got.trouble) == (SendState.NOT_SENT, TransportFailure.ADDRESS_REFUSED)
    assert attempts == []
    assert canary.visits == []


def test_a_name_is_resolved_once_for_each_call_and_only_the_checked_address_is_called(
    connections: ConnectionWatch, canary: StrangeServer
) -> None:
    meanings = iter([["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1"]])
    asked: list[str] = []

    def rebind(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(meanings)

    transport = Transport(AddressGuard(allow_private=True), resolve=rebind)
    with StrangeServer(polite(answer())) as receiver, connections.watch() as attempts:
        url = f"http://hooks.example.com:{receiver.port}/"
        reaches = [transport.exchange("GET", url, timeout_seconds=TIMEOUT_SECONDS).reach for _ in range(3)]
        assert reaches == [SendState.ANSWERED, SendState.NOT_SENT, SendState.ANSWERED]
        assert asked == ["hooks.example.com"] * 3
        assert attempts == [("127.0.0.1", receiver.port)] * 2


def test_a_redirect_inwards_is_not_followed(connections: ConnectionWatch, canary: StrangeServer) -> None:
    transport = Transport(AddressGuard(allow_private=True))
    for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
        redirect = answer(status, headers=f"Location: {canary.url}/\r\nRefresh: 0; url={canary.url}/\r\n")
        with StrangeServer(polite(redirect)) as receiver, connections.watch() as attempts:
            assert transport.exchange("POST", receiver.url, timeout_seconds=TIMEOUT_SECONDS).reach is SendState.ANSWERED
            assert attempts == [("127.0.0.1", receiver.port)]
    assert canary.visits == []


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "https://hooks.example.com/a?b=c",
        "https://HOOKS.example.com:8443/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://a-b.example.co.ug:443/x",
        "https://xn--bcher-kva.example/",
        "https://1and1.example/",
    ],
)
def test_a_public_address_passes(url: str) -> None:
    AddressGuard().check_url(url)


@pytest.mark.parametrize("url", ["http://hooks.example.com/", "http://8.8.8.8:8080/a"])
def test_the_sandbox_takes_plain_http_to_public_addresses_and_no_others(url: str) -> None:
    sandbox = AddressGuard(plain_http=True)
    sandbox.check_url(url)
    for inside in ("http://127.0.0.1:8000/", "http://10.0.0.5/", "http://169.254.169.254/", "ftp://hooks.example.com/"):
        with pytest.raises(AddressRefusedError):
            sandbox.check_url(inside)


@pytest.mark.parametrize("address", ["8.8.8.8", "197.239.5.1", "2606:4700::1111", "2c0f:fb50:4002::1"])
def test_a_public_meaning_passes(address: str) -> None:
    AddressGuard().check_addresses([address])


def test_a_name_without_a_meaning_is_refused() -> None:
    with pytest.raises(AddressRefusedError):
        AddressGuard().check_addresses([])


def test_what_was_checked_is_what_is_called() -> None:
    target = AddressGuard().check_url("https://Hooks.Example.com:8443/a//b/../c?d=%2e%2e")
    assert (target.scheme, target.host, target.port) == ("https", "hooks.example.com", 8443)
    assert target.path == "/a//b/../c?d=%2e%2e"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000/", "http://localhost:8000/", "https://10.0.0.5/", "http://[::1]:8000/", "http://receiver/"],
)
def test_development_may_call_private_addresses(url: str) -> None:
    AddressGuard(allow_private=True).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[fe80::1]/",
        "http://0.0.0.0:8000/",
        "http://[fd00:ec2::254]/",
        "http://2130706433/",
        "http://224.0.0.1/",
        "http://a:b@127.0.0.1/",
        "ftp://127.0.0.1/",
        "http://127.0.0.1:22/",
    ],
)
def test_development_may_not_call_metadata_services_nor_use_tricks(url: str) -> None:
    with pytest.raises(AddressRefusedError):
        AddressGuard(allow_private=True).check_url(url)


LOOPBACK = ["http://127.0.0.1:8000/", "http://localhost:8000/", "http://127.9.9.9:8000/", "http://[::1]:8000/"]


def test_a_sandbox_may_call_its_own_machine_and_no_other_of_its_network() -> None:
    guard = AddressGuard(plain_http=True, allow_loopback=True)
    for url in LOOPBACK:
        guard.check_url(url)
    guard.check_addresses(["127.0.0.1", "::1"])
    for url in (
        "http://10.0.0.5/", "http://192.168.0.1/", "http://169.254.169.254/", "http://[fd00::1]/", "http://receiver/",
        "http://db.localhost/", "http://intranet.local/", "http://0.0.0.0/", "http://127.0.0.1:22/",
        "http://[::ffff:127.0.0.1]/", "http://2130706433/",
    ):  # fmt: skip
        with pytest.raises(AddressRefusedError):
            guard.check_url(url)
    for address in ("10.0.0.5", "fd00::1", "169.254.169.254", "::ffff:127.0.0.1"):
        with pytest.raises(AddressRefusedError):
            guard.check_addresses(["127.0.0.1", address])
