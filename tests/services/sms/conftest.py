"""Services of an installation that sends messages, with a sender whose answers the test chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.money import a_client
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.senders.messages import SendOutcome, SendResult, SmsAccess
from ussd_server.senders.sandbox import SandboxSender
from ussd_server.services.sms.sending import SmsSending
from ussd_server.settings import Settings

Send = Callable[[], None]
DELIVERED = SendResult(SendOutcome.DELIVERED)


class ScriptedSender(SandboxSender):
    """Keeps what it was asked to send, and answers as the test says."""

    def __init__(self) -> None:
        self.answer = DELIVERED
        self.sent: list[tuple[str, str]] = []

    def send(self, phone_number: str, text: str, timeout_seconds: float) -> SendResult:
        self.sent.append((phone_number, text))
        return self.answer


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, sms=SmsAccess("sandbox"))


@pytest.fixture
def sender() -> ScriptedSender:
    return ScriptedSender()


@pytest.fixture
def sending(services: Services, sender: ScriptedSender) -> SmsSending:
    """The sending of a worker with the scripted sender."""
    return SmsSending(replace(services.runtime, sms_sender=sender))


@pytest.fixture
def send_due(sending: SmsSending) -> Send:
    """Send every message that is due, as a worker does."""

    def send() -> None:
        while claimed := sending.claim(10):
            for message_id in claimed:
                sending.send(message_id)

    return send


@pytest.fixture
def call(services: Services) -> RequestContext:
    """The context of a call with a key of a client."""
    return a_client()
