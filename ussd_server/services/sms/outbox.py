"""The outbox of messages: services and clients write them, clients read them, and the worker sends them."""

from __future__ import annotations

from datetime import datetime

from ussd_server.context import RequestContext
from ussd_server.menus.text import sms_parts
from ussd_server.models.sending import Sms
from ussd_server.senders.messages import SMS_FAILURES, SmsFailure
from ussd_server.services.pages import find_by_id, matching, page_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.messages import MOST_PARTS, CreatedSms, CreateSms, ListSms, SmsProblem, SmsStatus, SmsView
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import Page, view_of_row

_OURS = ("receipt/", "ussd/")


def queue_sms(
    client_id: str, phone_number: str, text: str, reference: str, now: datetime, transaction_id: str | None = None
) -> str:
    """Write one message and return its id. Nothing is written where the client has a message of this reference.

    Call in the unit of work of the change that it reports.
    """
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


class SmsService:
    """Creates and shows messages. Calls no sender."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens = runtime.clock, runtime.tokens
        self.is_on = runtime.sms_sender is not None

    def create(self, request: CreateSms, context: RequestContext) -> CreatedSms:
        """Queue a message, or return the one that an equal request created before.

        Raises INVALID_REQUEST where no messages are sent, for more than five parts and for a reference of menus and
        receipts, IDEMPOTENCY_KEY_REUSED for the reference of another message.
        """
        context.require("messages:write")
        if not self.is_on:
            raise ServiceError(Code.INVALID_REQUEST, "This service sends no messages")
        parts = sms_parts(request.text)
        if parts > MOST_PARTS:
            raise ServiceError(Code.INVALID_REQUEST, f"text: Takes {parts} parts; a message has at most {MOST_PARTS}.")
        for prefix in _OURS:
            if request.reference.startswith(prefix):
                raise ServiceError(Code.INVALID_REQUEST, f"reference: Names that begin with {prefix} are ours.")
        now = self._clock.now()
        message_id = queue_sms(context.client_id, request.phone_number, request.text, request.reference, now)
        row = Sms.get(Sms.client_id == context.client_id, Sms.reference == request.reference)
        if (row.phone_number, row.text) != (request.phone_number, request.text):
            raise ServiceError(
                Code.IDEMPOTENCY_KEY_REUSED, f"The reference was used for a different message: message {row.id}"
            )
        return CreatedSms(_view(row), replayed=row.id != message_id)

    def get(self, message_id: str, context: RequestContext) -> SmsView:
        """One message. Raises NOT_FOUND, also for another client's."""
        context.require("messages:read")
        own = Sms.select().where(Sms.client_id == context.client_id)
        return _view(find_by_id(own, Sms, message_id, "Message"))

    def list(self, request: ListSms, context: RequestContext) -> Page[SmsView]:
        """A page of the client's messages, newest first."""
        context.require("messages:read")
        rows = Sms.select().where(Sms.client_id == context.client_id)
        rows = matching(rows, request, Sms.status, Sms.phone_number, Sms.transaction_id)
        return page_of(rows, Sms, request, self._tokens, lambda messages: map(_view, messages))


def _view(row: Sms) -> SmsView:
    failure = None
    if row.failure_code is not None:
        code = SmsFailure(row.failure_code)
        failure = SmsProblem(code, SMS_FAILURES[code])
    return view_of_row(SmsView, row, message_id=row.id, failure=failure)
