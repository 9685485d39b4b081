"""SMTP against real servers: what is accepted, what is refused for good, and what hangs."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from threading import Thread

import pytest

from tests.outbound.certificates import Authority
from tests.support.mail_server import MailServer
from ussd_server.outbound.smtp import MailTrouble, SmtpResult, SmtpServer, read_smtp_url, sent_address

# The server's library warns of it; these tests want it.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

SENDER = "noreply@example.com"
ANN = "ann@acme.example"
ACCEPTED = SmtpResult()


def send(
    url: str,
    recipient: str = ANN,
    trust: ssl.SSLContext | None = None,
    *,
    is_local: bool = True,
) -> SmtpResult:
    server = SmtpServer(replace(read_smtp_url(url), is_local=is_local), trust or ssl.create_default_context(), 2.0)
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = SENDER, recipient, "A subject"
    message.set_content("A text.\n")
    return server.send(message, SENDER, recipient)


@contextmanager
def stranger(*says: bytes, pause: float = 0.0) -> Iterator[str]:
    """A server that says this to each connection, byte by byte with a pause between, and reads nothing."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    for part in says:
                        connection.sendall(part)
                        time.sleep(pause)
                    time.sleep(3 if not pause else 0)
                except OSError:
                    continue

    thread = Thread(target=serve, daemon=True)
    thread.start()
    with closing(listener):
        yield f"smtp://127.0.0.1:{listener.getsockname()[1]}"


def test_a_mail_arrives(mail_server: MailServer) -> None:
    assert send(mail_server.url) == ACCEPTED
    (message,) = mail_server.of(ANN)
    assert (message["Subject"], message.get_content()) == ("A subject", "A text.\r\n")


def test_a_recipient_that_is_refused_for_good_differs_from_one_that_is_refused_now(mail_server: MailServer) -> None:
    mail_server.refusals = {ANN: "550 No such user", "ben@acme.example": "451 Busy"}
    assert send(mail_server.url) == SmtpResult(MailTrouble.RECIPIENT, True, 550)
    assert send(mail_server.url, "ben@acme.example") == SmtpResult(MailTrouble.LATER, False, 451)


def test_a_sender_that_is_refused_may_be_corrected(mail_server: MailServer) -> None:
    mail_server.refused_senders = {SENDER: "550 Not yours"}
    assert send(mail_server.url) == SmtpResult(MailTrouble.SENDER, False, 550)


def test_user_and_password_are_used() -> None:
    server = MailServer("se cret@")
    with closing_server(server):
        assert send(f"smtp://user:se%20cret%40@127.0.0.1:{server.port}") == ACCEPTED
        refused = send(f"smtp://user:wrong@127.0.0.1:{server.port}")
        assert (refused.trouble, refused.is_final) == (MailTrouble.LOGIN, False)


def test_no_password_goes_to_another_machine_without_tls() -> None:
    server = MailServer("secret")
    with closing_server(server):
        refused = send(f"smtp://user:secret@127.0.0.1:{server.port}", is_local=False)
    assert (refused.trouble, server.received) == (MailTrouble.TLS, [])


def test_starttls_is_used_where_it_is_offered_and_its_certificate_is_checked(tmp_path: Path) -> None:
    authority = Authority()
    authority.certify(tmp_path / "server.pem", "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem")
    server = MailServer("secret", tls_context=tls)
    url = f"smtp://user:secret@127.0.0.1:{server.port}"
    with closing_server(server):
        assert send(url, trust=authority.trust(), is_local=False) == ACCEPTED
        assert server.secured == [True]
        assert send(url, is_local=False).trouble is MailTrouble.TLS


def test_smtps_is_tls_from_the_beginning(tmp_path: Path) -> None:
    authority = Authority()
    authority.certify(tmp_path / "server.pem", "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem")
    server = MailServer(tls=tls)
    with closing_server(server):
        assert send(f"smtps://127.0.0.1:{server.port}", trust=authority.trust()) == ACCEPTED
        assert send(f"smtps://127.0.0.1:{server.port}").trouble is MailTrouble.TLS


def test_a_server_that_hangs_greets_slowly_or_never_ends_is_left_at_the_deadline() -> None:
    with stranger() as silent, stranger(*[b"2"] * 60, pause=0.1) as slow, stranger(b"220-hello\r\n" * 5000) as endless:
        for url, trouble in (
            (silent, MailTrouble.TIMEOUT),
            (slow, MailTrouble.TIMEOUT),
            (endless, MailTrouble.UNREACHABLE),
        ):
            began = time.monotonic()
            assert send(url) == SmtpResult(trouble)
            assert time.monotonic() - began < 10


def test_a_reply_of_many_lines_or_packets_is_not_read() -> None:
    dripped = [b"554-", *[b"a"] * 400, b"\r\n554 b\r\n"]
    with stranger(b"554-a\r\n" * 101 + b"554 b\r\n") as lines, stranger(*dripped, pause=0.002) as packets:
        for url in (lines, packets):
            assert send(url) == SmtpResult(MailTrouble.UNREACHABLE, code=None)


def test_a_server_that_is_away_or_refuses_at_the_greeting_is_tried_again() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    assert send(f"smtp://127.0.0.1:{port}") == SmtpResult(MailTrouble.UNREACHABLE)
    with stranger(b"554 Go away\r\n") as url:
        assert send(url) == SmtpResult(MailTrouble.UNREACHABLE, False, 554)


def test_letters_beyond_ascii_are_sent_where_the_server_takes_them() -> None:
    assert sent_address("ann@bücher.example") == "ann@xn--bcher-kva.example"
    server = MailServer()
    with closing_server(server):
        assert send(server.url, "änn@acme.example") == SmtpResult(MailTrouble.INTERNATIONAL, True)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "@acme.example",
        "ann@",
        "a\nb@acme.example",
        "ann@acme.example\r\nBcc: eve@evil.example",
        "ann@acme.example,eve@evil.example",
        "<ann>@acme.example",
        'a"b@acme.example',
        "a b@acme.example",
        "ann@a..example",
        f"{'a' * 300}@acme.example",
        "ann@eve@acme.example",
        # Encoded words, which the library would decode, and letters that become others in a domain.
        "=?utf-8?q?@?=.example",
        "=?utf-8?q?eve=40evil.example?=@acme.example",
        "ann@=?utf-8?q?.example",
        "ann@acme.example\uff1e",
        "ann@eve\uff20acme.example",
        "ann@acme.example\uff0ceve",
        "ann@acme_one.example",
    ],
)
def test_what_is_no_address_is_never_sent(address: str) -> None:
    with pytest.raises(ValueError):
        sent_address(address)


@pytest.mark.parametrize(
    "url",
    ["http://mail", "smtp://", "smtp://user@mail", "smtp://mail/path", "smtp://mail:port", "smtp://mail:0", "mail:25"],
)
def test_what_is_no_address_of_a_mail_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        read_smtp_url(url)


@contextmanager
def closing_server(server: MailServer) -> Iterator[None]:
    try:
        yield
    finally:
        server.stop()
