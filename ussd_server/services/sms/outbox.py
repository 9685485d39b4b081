"""The outbox of messages. Services write messages in the unit of work of the change; the worker sends them."""

from __future__ import annotations

from datetime import datetime

from ussd_server.menus.text import sms_parts
from ussd_server.models.sending import Sms
from ussd_server.services.sms.messages import SmsStatus
from ussd_server.values import new_id

_is_on = False


def use_sms(is_on: bool) -> None:
    """Write messages from now on, or write none. Called once at the start of a process."""
    global _is_on
    _is_on = is_on


def is_sms_on() -> bool:
    """Whether this installation sends messages (`USSD_SMS_ADAPTER`)."""
    return _is_on


def queue_sms(
    client_id: str, phone_number: str, text: str, reference: str, now: datetime, transaction_id: str | None = None
) -> str:
    """Write one message and return its id. Nothing is written where the client has a message of this reference."""
    message_id = new_id(now)
    Sms.insert(
        id=message_id,
        client_id=client_id,
        reference=reference,
        phone_number=phone_number,
        text=text,
        parts=sms_parts(text),
        status=SmsStatus.QUEUED,
        transaction_id=transaction_id,
        attempts=0,
        due_at=now,
        created_at=now,
    ).on_conflict_ignore().execute()
    return message_id
