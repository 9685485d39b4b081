"""Delivery reports of the sender. A report counts for its own message and number only, and only forward."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.sms import Sms
from ussd_server.runtime import Runtime, Service
from ussd_server.services.settlement.messages import Callback, CallbackPath
from ussd_server.services.sms.messages import SmsStatus
from ussd_server.status import Code, ServiceError


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

        Raises NOT_FOUND for an unknown path. The sender learns nothing else, not even whether the message exists.
        """
        if self._sender is None or not self._tokens.is_callback_secret(self._sender.name, callback.secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")
        report = self._sender.read_report(callback.body)
        if report is None:
            return
        status = SmsStatus.DELIVERED if report.failure is None else SmsStatus.FAILED
        with unit_of_work():
            Sms.update(status=status, failure_code=report.failure, completed_at=self._clock.now()).where(
                Sms.sender_message_id == report.sender_message_id,
                Sms.phone_number == report.phone_number,
                Sms.status == SmsStatus.SENT,
            ).execute()

    def paths(self, context: RequestContext) -> list[CallbackPath]:
        """The path of delivery reports, for the operator to register with the sender; none where nothing reports."""
        context.require_operator()
        if self._sender is None or not self._sender.sends_reports:
            return []
        return [CallbackPath(self._sender.name, self._tokens.callback_path(self._sender.name))]
