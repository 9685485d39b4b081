"""A real mail server on this machine, which keeps the mails that it accepts and refuses chosen recipients."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from ussd_server.settings import Settings

PUBLIC_URL = "https://ussd.example.com"
SENDER = "Payments <noreply@example.com>"


class MailServer:
    """`refusals` are replies by recipient. With `password`, it takes mail from `user` with this password only."""

    def __init__(self, password: str | None = None, tls: ssl.SSLContext | None = None, **options: Any) -> None:
        self.refusals: dict[str, str] = {}
        self.refused_senders: dict[str, str] = {}
        self.received: list[tuple[str, EmailMessage]] = []
        self.secured: list[bool] = []
        if password is not None:
            options |= {"auth_required": True, "auth_require_tls": False, "authenticator": self._accepts(password)}
        # The library takes no port of the system's choice.
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            self.port: int = taken.getsockname()[1]
        self._controller = Controller(
            self, hostname="127.0.0.1", port=self.port, ssl_context=tls, enable_SMTPUTF8=False, **options
        )
        self._controller.start()
        self._is_running = True

    @property
    def url(self) -> str:
        """The address without a user."""
        return f"smtp://127.0.0.1:{self.port}"

    def of(self, recipient: str) -> list[EmailMessage]:
        """The mails that one recipient got, oldest first."""
        return [message for whose, message in self.received if whose == recipient]

    def stop(self) -> None:
        """Accept nothing more; once is enough."""
        if self._is_running:
            self._is_running = False
            self._controller.stop()

    async def handle_MAIL(  # noqa: N802 - the name that the library calls
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refusal := self.refused_senders.get(address):
            return refusal
        envelope.mail_from, envelope.mail_options = address, options
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refusal := self.refusals.get(address):
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        message = message_from_bytes(envelope.content, policy=default)
        self.secured.append(session.ssl is not None)
        self.received += [(recipient, message) for recipient in envelope.rcpt_tos]
        return "250 OK"

    def _accepts(self, password: str) -> Any:
        def check(
            server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: LoginPassword
        ) -> AuthResult:
            # What is not handled here is answered by the library.
            return AuthResult(success=(given.login, given.password) == (b"user", password.encode()), handled=False)

        return check


def mailing(settings: Settings, url: str) -> Settings:
    """The settings of an installation that sends its mails to the server with this address."""
    return replace(settings, smtp_url=url, mail_from=SENDER, public_url=PUBLIC_URL)


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server that asks for no password."""
    server = MailServer()
    yield server
    server.stop()
