"""The sender of messages that is switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ussd_server.outbound.transport import Transport, authorities
from ussd_server.senders.africastalking import AfricasTalkingSender
from ussd_server.senders.messages import Sender
from ussd_server.senders.sandbox import SandboxSender

if TYPE_CHECKING:
    from ussd_server.settings import Settings


def build_sender(settings: Settings) -> Sender | None:
    """The adapter of `USSD_SMS_ADAPTER`; None where no messages are sent."""
    if settings.sms is None:
        return None
    if settings.sms.adapter == SandboxSender.name:
        return SandboxSender()
    return AfricasTalkingSender(settings.sms, Transport(trust=authorities(settings.ca_file)))
