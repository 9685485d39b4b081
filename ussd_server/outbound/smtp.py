"""Sends one mail to one recipient by SMTP, until a deadline."""

from __future__ import annotations

import re
import smtplib
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import getaddresses, parseaddr
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

_PORTS = {"smtp": 587, "smtps": 465}
_CONNECT_SECONDS = 10.0
# Of one reply. Each packet takes 40 us, however short it is.
_MOST_LINES = 100
_MOST_PACKETS = 50
_PACKET_BYTES = 1024
# In a header or a command these would begin another header or command.
_NOT_IN_AN_ADDRESS = frozenset('<>()[]\\,;:" ')
# What the library decodes in a header: the mail would name another recipient, or could not be written.
_ENCODED_WORD = "=?"
_ASCII_DOMAIN = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*", re.IGNORECASE | re.ASCII)
_LONGEST_ADDRESS = 254


class MailTrouble(StrEnum):
    """Why an attempt failed; the values are stored."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    LOGIN = "login"
    SENDER = "sender"
    RECIPIENT = "recipient"
    REFUSED = "refused"
    LATER = "later"
    INTERNATIONAL = "international"
    MALFORMED = "malformed"
    ENDED = "ended"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class SmtpAddress:
    """A mail server, as `USSD_SMTP_URL` names it. `is_local`: on this machine, where no other can read the traffic."""

    host: str
    port: int
    has_tls: bool
    user: str | None
    password: str | None = field(repr=False)
    is_local: bool


class SmtpResult(NamedTuple):
    """Result of one attempt. `trouble` None: accepted. `is_final`: do not retry."""

    trouble: MailTrouble | None = None
    is_final: bool = False
    code: int | None = None


def read_smtp_url(url: str) -> SmtpAddress:
    """Read `smtp://user:password@host:port`, or `smtps://`. Raises ValueError for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError
    if parts.port == 0 or (parts.username is None) is not (parts.password is None):
        raise ValueError
    return SmtpAddress(
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        has_tls=parts.scheme == "smtps",
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        is_local=_is_local(parts.hostname),
    )


def sent_address(address: str) -> str:
    """An e-mail address as it is sent: with its domain in ASCII. Raises ValueError for an invalid one."""
    local, at, domain = address.rpartition("@")
    if not at or not local or len(address) > _LONGEST_ADDRESS or not address.isprintable():
        raise ValueError
    if _NOT_IN_AN_ADDRESS & set(address) or _ENCODED_WORD in address or parseaddr(address)[1] != address:
        raise ValueError
    # UnicodeError is a ValueError. The encoding makes of a full-width `>` the character `>`.
    ascii_domain = domain.encode("idna").decode()
    if not _ASCII_DOMAIN.fullmatch(ascii_domain) or "@" in local:
        raise ValueError
    return f"{local}@{ascii_domain}"


def read_sender(text: str) -> tuple[str, str]:
    """The name and the address of `USSD_MAIL_FROM`. Raises ValueError unless it is one address."""
    ((name, address),) = getaddresses([text])
    return name, sent_address(address)


class SmtpServer:
    """Logs in to the mail server and sends. Each call opens a connection of its own."""

    def __init__(self, address: SmtpAddress, trust: ssl.SSLContext, timeout_seconds: float = 30.0) -> None:
        """`timeout_seconds` is the time for one mail with everything before it."""
        self._address = address
        self._trust = trust
        self._timeout_seconds = timeout_seconds

    def try_login(self) -> SmtpResult:
        """Connect, greet and log in, as before a mail, and send none."""
        return self._run(lambda connection: connection.noop())

    def send(self, message: EmailMessage, sender: str, recipient: str) -> SmtpResult:
        """Send a mail to one recipient. Never raises for what the server or the network does."""
        return self._run(lambda connection: connection.send_message(message, sender, [recipient]))

    def _run(self, work: Any) -> SmtpResult:
        try:
            with self._connected() as connection:
                work(connection)
        except smtplib.SMTPRecipientsRefused as refusal:
            ((code, _),) = refusal.recipients.values()
            return _refusal(MailTrouble.RECIPIENT, code)
        except smtplib.SMTPSenderRefused as refusal:
            # The operator may correct this and the next within the day.
            return SmtpResult(MailTrouble.SENDER, code=refusal.smtp_code)
        except smtplib.SMTPAuthenticationError as refusal:
            return SmtpResult(MailTrouble.LOGIN, code=refusal.smtp_code)
        except smtplib.SMTPNotSupportedError as missing:
            is_international = "SMTPUTF8" in str(missing)
            return SmtpResult(MailTrouble.INTERNATIONAL if is_international else MailTrouble.LOGIN, is_international)
        except smtplib.SMTPDataError as refusal:
            return _refusal(MailTrouble.REFUSED, refusal.smtp_code)
        except smtplib.SMTPConnectError as refusal:
            return SmtpResult(MailTrouble.UNREACHABLE, code=refusal.smtp_code)
        except smtplib.SMTPServerDisconnected:
            return SmtpResult(MailTrouble.UNREACHABLE)
        except smtplib.SMTPResponseException as refusal:
            return SmtpResult(MailTrouble.LATER, code=refusal.smtp_code)
        except smtplib.SMTPException:
            return SmtpResult(MailTrouble.LOGIN)
        except ssl.SSLError:
            return SmtpResult(MailTrouble.TLS)
        except TimeoutError:
            return SmtpResult(MailTrouble.TIMEOUT)
        except (OSError, ValueError):
            # ValueError: a reply that cannot be decoded.
            return SmtpResult(MailTrouble.UNREACHABLE)
        return SmtpResult()

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        address, deadline_at = self._address, time.monotonic() + self._timeout_seconds
        connect_seconds = min(_CONNECT_SECONDS, self._timeout_seconds)
        connection = (
            _BoundedSmtpOverTls(deadline_at, address.host, timeout=connect_seconds, context=self._trust)
            if address.has_tls
            else _BoundedSmtp(deadline_at, address.host, timeout=connect_seconds)
        )
        try:
            code, _ = connection.connect(address.host, address.port)
            if code != 220:
                raise smtplib.SMTPConnectError(code, "")
            connection.ehlo_or_helo_if_needed()
            self._secure(connection)
            if address.user is not None:
                connection.login(address.user, address.password or "")
            yield connection
            # The mail was accepted or refused before this.
            with suppress(OSError, smtplib.SMTPException):
                connection.quit()
        finally:
            connection.close()

    def _secure(self, connection: smtplib.SMTP) -> None:
        """Begin TLS where the server offers it; never give a password away without it."""
        address = self._address
        if address.has_tls or address.is_local:
            return
        if connection.has_extn("starttls"):
            code, _ = connection.starttls(context=self._trust)
            if code != 220:
                raise ssl.SSLError
            connection.ehlo()
        elif address.user is not None:
            raise ssl.SSLError


class _BoundedReplies:
    """Reads the replies of an SMTP connection until a deadline, and no more than a reply may have."""

    sock: Any
    file: Any

    def __init__(self, deadline_at: float, host: str, **options: Any) -> None:
        self._deadline_at = deadline_at
        super().__init__(**options)
        # The name that certificates are checked for. The library takes it from an argument that connects at once.
        self._host = host

    def getreply(self) -> tuple[int, bytes]:
        """The code and the text of one reply. Raises SMTPServerDisconnected and TimeoutError."""
        received = b""
        for _ in range(_MOST_PACKETS):
            remaining = self._deadline_at - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            self.sock.settimeout(remaining)
            # Drop what a server sends after the reply, for example before TLS: it must not be read as the next reply.
            more = self.sock.recv(_PACKET_BYTES)
            received += more
            if not more or received.count(b"\n") > _MOST_LINES:
                raise smtplib.SMTPServerDisconnected
            if lines := _whole_reply(received):
                break
        else:
            raise smtplib.SMTPServerDisconnected
        code = lines[-1][:3]
        return (int(code) if code.isdigit() else -1), b"\n".join(line[4:].strip() for line in lines)


class _BoundedSmtp(_BoundedReplies, smtplib.SMTP):
    """Over a plain connection, on which STARTTLS may begin TLS."""


class _BoundedSmtpOverTls(_BoundedReplies, smtplib.SMTP_SSL):
    """Over TLS from the beginning."""


def _whole_reply(received: bytes) -> list[bytes]:
    """The lines of a reply, none while its last line has not come."""
    lines = received.split(b"\r\n")[:-1]
    for number, line in enumerate(lines):
        if line[3:4] != b"-":
            return lines[: number + 1]
    return []


def _refusal(trouble: MailTrouble, code: int) -> SmtpResult:
    is_final = 500 <= code < 600
    return SmtpResult(trouble if is_final else MailTrouble.LATER, is_final, code)


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
