"""Delivery reports of the sender. A report counts for its own message and number only, and only forward."""

from __future__ import annotations

from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.sending import Sms
from ussd_server.runtime import Runtime, Service
from ussd_server.services.settlement.messages import Callback, CallbackPath
from ussd_server.services.sms.messages import SmsStatus
from ussd_server.status import Code, ServiceError

# Few messages to one number are sent at the same moment.
_MOST_EARLY_REPORTS = 10


class SmsReportService(Service):
    """Receives delivery reports."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._sender = runtime.sms_sender

    def come_from(self, name: str) -> bool:
        """Whether `name` is the sender that is switched on, and reports."""
        return self._sender is not None and self._sender.sends_reports and self._sender.name == name

    def receive(self, callback: Callback) -> None:
        """Store what a report says about a message that was sent. Repeated and contradicting reports change nothing.

        A report of an id that no message has may precede the sender's answer: the messages to its number that are
        being sent keep it, and the one whose answer names the id takes it.

        Raises NOT_FOUND for an unknown path. The sender learns nothing else, not even whether the message exists.
        """
        if self._sender is None or not self._tokens.is_callback_secret(self._sender.name, callback.secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")
        report = self._sender.read_report(callback.body)
        if report is None:
            return
        status = SmsStatus.DELIVERED if report.failure is None else SmsStatus.FAILED
        with unit_of_work():
            # Locked first: a worker stores the answer before this update or after this unit of work.
            being_sent = list(for_update(_being_sent(report.phone_number)))
            known = Sms.update(status=status, failure_code=report.failure, completed_at=self._clock.now()).where(
                Sms.sender_message_id == report.sender_message_id,
                Sms.phone_number == report.phone_number,
                Sms.status == SmsStatus.SENT,
            )
            if known.execute():
                return
            for row in being_sent:
                kept = row.early_reports or {}
                if len(kept) < _MOST_EARLY_REPORTS:
                    row.early_reports = {report.sender_message_id: report.failure, **kept}
                    row.save(only=[Sms.early_reports])

    def paths(self, context: RequestContext) -> list[CallbackPath]:
        """The path of delivery reports, for the operator to register with the sender; none where nothing reports."""
        context.require_operator()
        if self._sender is None or not self._sender.sends_reports:
            return []
        return [CallbackPath(self._sender.name, self._tokens.callback_path(self._sender.name))]


def _being_sent(phone_number: str) -> Any:
    """Messages to a number that may have left and whose answer is not stored, in the order of their locks."""
    to_number = Sms.select(Sms.id, Sms.early_reports).where(Sms.phone_number == phone_number)
    return to_number.where(Sms.asked_at.is_null(False), Sms.due_at.is_null(False)).order_by(Sms.id)
