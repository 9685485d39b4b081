"""The sender of messages that is switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ussd_server.senders.messages import Sender
from ussd_server.senders.sandbox import SandboxSender

if TYPE_CHECKING:
    from ussd_server.settings import Settings


def build_sender(settings: Settings) -> Sender | None:
    """The adapter of `USSD_SMS_ADAPTER`; None where no messages are sent."""
    if settings.sms is None:
        return None
    return SandboxSender()
